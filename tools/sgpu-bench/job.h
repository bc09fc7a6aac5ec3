/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs for cases that measure whole batches: made once, run again and again.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <sgpu/batch.h>
#include <bench/bench.h>
#include "ops/ops.h"
#include "run/run.h"

#include "../sgpu/job.h"

struct job_side;
struct bench_job {
	bool sealed;		       /* segments are HIGH; else LOW */
	json_t *segments, *operations; /* of the manifest, until job_finish */
	json_t *inputs;		       /* addresses of their data, by id */
	struct sgpu_key owner;
	struct sgpu_manifest *manifest;
	struct job batch;
	uint64_t result_size; /* of all outputs */
	int batch_fd, response_fd;
};

/* shape: two extents, the second 0 for rank 1. */
struct job_type {
	const char *dtype;
	uint64_t shape[2];
};
enum job_kind { JOB_INPUT, JOB_BETWEEN, JOB_OUTPUT };

/* Adds a segment. JOB_BETWEEN has no type; only JOB_INPUT has data, which must stay valid. */
void job_segment(struct bench_job *job, enum job_kind kind, const char *id, struct job_type type,
		 const void *data);
/* Of an input in job->segments. */
void job_data(struct bench_job *job, const char *id, const void *data);
/* Takes over arguments and params (or NULL). after: the operation to wait for, or NULL. */
void job_operation(struct bench_job *job, const char *id, const char *kernel, json_t *arguments,
		   json_t *params, const char *after);

/* Rewinds a job's file. cuts: ends it where it was read or written last. */
SGPU_MUST_CHECK int job_rewind(int fd, bool cuts, struct sgpu_error *error);

/* ---- variants that run jobs ---- */
struct job_side {
	const char *name;
	bool sealed; /* as in struct bench_job */
	void (*add)(struct bench_job *job, const struct job_side *side);
	int (*check)(const struct job_side *side, const void *results, uint64_t size,
		     struct sgpu_error *error);
	/* For these functions. data and size: of the options, or of what each output should be. */
	const void *data;
	uint64_t size;
	int count;
	bool in_a_row;
	void *state;
	const struct sgpu_key *owner; /* NULL: a new key */
	/* Made by job_measure. */
	struct sgpu_bench *bench;
	struct bench_job *job;
};
/* Makes the manifest of what side->add adds; from malloc. */
SGPU_MUST_CHECK int job_describe(struct sgpu_bench *bench, const struct job_side *side, char **text,
				 struct sgpu_error *error);
/* Makes the jobs of two sides and measures them as variants: work() has a side's job run and the
 * response written to its file. */
enum { JOB_SIDES = 2 };
SGPU_MUST_CHECK int job_measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
				struct job_side sides[JOB_SIDES],
				int (*work)(void *side, struct sgpu_error *error),
				struct sgpu_error *error);
/* LOW on the plain device, and HIGH in a secure context. */
SGPU_MUST_CHECK int job_measure_here(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
				     const struct job_side *side, struct sgpu_error *error);

/* ---- options.c: options, priced by black_scholes ---- */
enum { OPTIONS_INPUTS = 3, OPTIONS_OUTPUTS = 2, OPTIONS_VECTORS = 5 };
/* Makes and keeps inputs, vectors of f32 of `size` bytes each, and sets the members of `side` that
 * seal, run and check them. */
SGPU_MUST_CHECK int options_new(struct sgpu_bench *bench, uint64_t size, struct job_side *side,
				struct sgpu_error *error);
SGPU_MUST_CHECK int options_check(const struct job_side *side, const void *results,
				  struct sgpu_error *error);

/* The device calls of such a job, with memory that stays. */
struct bare;
/* What it makes is kept. `side` must stay. */
SGPU_MUST_CHECK int bare_new(struct sgpu_bench *bench, const struct job_side *side,
			     struct bare **bare, struct sgpu_error *error);
/* For variants whose argument is a bare: copies the inputs to the device, and spoils the outputs on
 * both sides. */
SGPU_MUST_CHECK int bare_prepare(void *bare, struct sgpu_error *error);
/* Copies the sealed inputs in, opens them, launches, seals the outputs and copies them out; the
 * other opens and checks them here. */
SGPU_MUST_CHECK int bare_run(void *bare, struct sgpu_error *error);
SGPU_MUST_CHECK int bare_check(void *bare, struct sgpu_error *error);
/* A launch alone; and copies the outputs here and checks them. */
SGPU_MUST_CHECK int bare_launch(void *bare, struct sgpu_error *error);
SGPU_MUST_CHECK int bare_fetch(void *bare, struct sgpu_error *error);

#endif
