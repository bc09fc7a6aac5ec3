/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs for the cases that measure whole batches: made once, and run again and again.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <sgpu/batch.h>
#include <bench/bench.h>
#include "ops/ops.h"
#include "run/run.h"

#include "../sgpu/job.h"

struct bench_job {
	bool sealed;		       /* segments are HIGH; else LOW */
	json_t *segments, *operations; /* of the manifest, until job_finish */
	json_t *inputs;		       /* the addresses of their data, by id */
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

/* Makes a job, kept until the case, or its part, ends. */
SGPU_MUST_CHECK int job_new(struct sgpu_bench *bench, bool sealed, struct bench_job **job,
			    struct sgpu_error *error);
/* Adds a segment. JOB_BETWEEN has no type; only JOB_INPUT has data, which must stay valid. */
void job_segment(struct bench_job *job, enum job_kind kind, const char *id, struct job_type type,
		 const void *data);
/* Of an input in job->segments. */
void job_data(struct bench_job *job, const char *id, const void *data);
/* Takes over arguments and params (or NULL). after: the operation to wait for, or NULL. */
void job_operation(struct bench_job *job, const char *id, const char *kernel, json_t *arguments,
		   json_t *params, const char *after);
/* Makes the batch: sealed or with digests, signed. */
SGPU_MUST_CHECK int job_finish(struct bench_job *job, struct sgpu_error *error);

/* Rewinds a job's file. cuts: it ends where it was read or written last. */
SGPU_MUST_CHECK int job_rewind(int fd, bool cuts, struct sgpu_error *error);
/* Reads a response, once after each run. results: the authentic plaintext of all outputs, in the
 * manifest's order, result_size bytes. */
SGPU_MUST_CHECK int job_read(struct bench_job *job, void *results, struct sgpu_error *error);

/* ---- an operation by the device calls that a job makes in the end, with memory that stays ---- */
enum { BARE_VECTORS_MAX = 5, BARE_TASKS = 2 * BARE_VECTORS_MAX + 1 };

/* What bare calls have for vectors that cross the bus sealed: a chunk run each. */
struct bare_seal {
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	struct sgpu_device_key *key;
	uint64_t size, stride, chunks; /* of a vector: sealed bytes, from one to the next; chunks */
	uint8_t *host;		       /* of the device's pool; both have all vectors */
	sgpu_devptr memory;
};

struct job_side;
/* Vectors of f32 of one size, the inputs first, and a launch on one stream. */
struct bare {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	uint64_t size; /* bytes of a vector */
	int inputs, vectors;
	float *host[BARE_VECTORS_MAX]; /* contiguous, of the device's pool */
	sgpu_devptr memory[BARE_VECTORS_MAX];
	struct sgpu_op_call call;
	const struct job_side *side; /* for its caller */
	struct bare_seal *seal;	     /* NULL: there are launches alone */
	/* copies, then openings and sealings, then the launch */
	struct sgpu_task tasks[BARE_TASKS];
};
/* Makes bare calls, which are kept. The caller fills the inputs, and sets parameters of the
 * call. */
SGPU_MUST_CHECK int bare_new(struct sgpu_bench *bench, const char *op, uint64_t size,
			     struct bare **bare, struct sgpu_error *error);
/* Has the vectors sealed on the bus, from now on: the inputs as they are. */
SGPU_MUST_CHECK int bare_seal(struct bare *bare, struct sgpu_error *error);
/* After bare_end. */
SGPU_MUST_CHECK int bare_open(struct bare *bare, struct sgpu_error *error);
/* For a variant whose argument is a bare: copies the inputs to the device and spoils the outputs on
 * both sides. */
SGPU_MUST_CHECK int bare_prepare(void *argument, struct sgpu_error *error);
/* After launches without copies. */
SGPU_MUST_CHECK int bare_fetch(struct bare *bare, struct sgpu_error *error);
SGPU_MUST_CHECK int bare_begin(struct bare *bare, struct sgpu_error *error);
SGPU_MUST_CHECK int bare_end(struct bare *bare, struct sgpu_error *error);
/* Without copies; waits. */
SGPU_MUST_CHECK int bare_launch(struct bare *bare, struct sgpu_error *error);

/* ---- variants that run jobs ---- */
struct job_side {
	const char *name;
	bool sealed; /* as in struct bench_job */
	int batches; /* of a sample, for the case sizes */
	void (*add)(struct bench_job *job, const struct job_side *side);
	int (*new_bare)(struct sgpu_bench *bench, const struct job_side *side, struct bare **bare,
			struct sgpu_error *error);
	int (*check)(const struct job_side *side, const void *results, uint64_t size,
		     struct sgpu_error *error);
	/* For these functions. data and size: of one output, for job_check_same. */
	const void *data;
	uint64_t size;
	int count;
	bool in_a_row;
	void *state;
	/* Made by job_measure. */
	struct sgpu_bench *bench;
	struct bench_job *job;
};
/* A check: every output equals side->data. */
SGPU_MUST_CHECK int job_check_same(const struct job_side *side, const void *results, uint64_t size,
				   struct sgpu_error *error);
/* Makes the manifest of what side->add adds, HIGH; from malloc. */
SGPU_MUST_CHECK int job_describe(struct sgpu_bench *bench, const struct job_side *side, char **text,
				 struct sgpu_error *error);
/* As two variants: LOW on the plain device, HIGH in a secure context. */
SGPU_MUST_CHECK int job_measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
				const struct job_side *side, struct sgpu_error *error);

/* ---- options.c: options that are priced by black_scholes ---- */
enum { OPTIONS_INPUTS = 3, OPTIONS_OUTPUTS = 2, OPTIONS_VECTORS = 5 };
/* Makes inputs, vectors of f32 of `size` bytes each, which are kept, and sets the members of `side`
 * that have them sealed, run and checked. */
SGPU_MUST_CHECK int options_new(struct sgpu_bench *bench, uint64_t size, struct job_side *side,
				struct sgpu_error *error);
SGPU_MUST_CHECK int options_check(const struct job_side *side, const void *results,
				  struct sgpu_error *error);

#endif
