/* SPDX-License-Identifier: Apache-2.0
 *
 * A job for the cases that measure whole batches: made once, outside of what is timed, and run again and again.
 */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include <sgpu/batch.h>
#include <sgpu/bench.h>
#include <sgpu/run.h>
#include <sgpu/secure.h>

enum { JOB_INPUTS_MAX = 1024 };

struct job_input {
	const char *id;
	const void *data;   /* borrowed until the job is finished */
	uint64_t size;
};

struct job {
	bool sealed;                      /* all segments HIGH; else all LOW */
	bool staged;                      /* set before job_finish: payloads and results in a region, not inline */
	char region[SGPU_REGION_ID_TEXT + 1];
	json_t *segments, *operations;    /* of the manifest, until job_finish */
	struct job_input inputs[JOB_INPUTS_MAX];
	int input_count;
	struct sgpu_key owner;
	uint8_t key[SGPU_KEY_SIZE];
	struct sgpu_batch *batch;
	int batch_fd, response_fd;        /* memory files */
};

/* shape: two extents, the second 0 for rank 1. The ids must live until job_finish. */
struct job_type {
	const char *dtype;
	uint64_t shape[2];
};

/* A job has at most JOB_INPUTS_MAX inputs, or job_finish fails. */
SGPU_MUST_CHECK int job_begin(struct job *job, bool sealed, struct sgpu_error *error);
/* The same, kept until the case ends. */
SGPU_MUST_CHECK int job_new(struct sgpu_bench *bench, bool sealed, struct job **job, struct sgpu_error *error);
void job_input(struct job *job, const char *id, struct job_type type, const void *data, uint64_t size);
/* The data of an input that is in job->segments already. */
void job_data(struct job *job, const char *id, const void *data, uint64_t size);
void job_between(struct job *job, const char *id);
void job_output(struct job *job, const char *id, struct job_type type);
/* Takes the references to arguments and params (NULL: none). after: the operation that it waits for, or NULL. */
void job_operation(struct job *job, const char *id, const char *kernel, json_t *arguments, json_t *params,
		   const char *after);
/* The manifest's text, from malloc; NULL when out of memory. */
char *job_manifest(const struct job *job);
/* Makes the batch: sealed or with digests, signed, its payloads inline in a memory file or staged. */
SGPU_MUST_CHECK int job_finish(struct job *job, struct sgpu_error *error);

/* Where jobs run: a device, a secure context over it in which sealed jobs run as sgpu-run has them run, and a runner for
 * each of the two. */
struct job_place {
	struct sgpu_device *device;    /* one of its own, or NULL */
	struct sgpu_secure *context;   /* NULL when the device maps no pages, as there */
	struct sgpu_runner *plain, *sealed; /* sealed: NULL without a context; then sealed jobs run on the device, too */
};
/* Over bench->device, until the case ends. */
SGPU_MUST_CHECK int job_new_place(struct sgpu_bench *bench, struct job_place **place, struct sgpu_error *error);
/* Over a device that is opened for it. */
SGPU_MUST_CHECK int job_place_open(struct job_place *place, const char *selector, const struct sgpu_device_config *config,
				   bool with_context, struct sgpu_error *error);
/* Accepts a zeroed one. */
void job_place_close(struct job_place *place);
/* From the batch to its response, in *ns. */
SGPU_MUST_CHECK int job_run(struct job *job, const struct job_place *place, uint64_t *ns, struct sgpu_error *error);
/* The same in two steps, so that several jobs can be under way at once. job_wait frees the run; accepts a pointer to NULL. */
SGPU_MUST_CHECK int job_submit(struct job *job, const struct job_place *place, struct sgpu_run **run,
			       struct sgpu_error *error);
SGPU_MUST_CHECK int job_wait(struct job *job, struct sgpu_run **run, struct sgpu_error *error);
/* The plaintext of an output of the response, authenticated: exactly `size` bytes. Errors: SGPU_EDIFFERS for another
 * size, and what reading and opening gives. */
SGPU_MUST_CHECK int job_read(struct job *job, const char *id, void *data, uint64_t size, struct sgpu_error *error);
/* What a segment's payload is, sgpu_batch_payload_size() bytes. */
SGPU_MUST_CHECK int job_payload(const struct job *job, int segment, uint8_t *payload, struct sgpu_error *error);
/* Parts of job_finish and job_clear: inputs and outputs of a batch go to a region that is kept, and that is removed
 * again. */
SGPU_MUST_CHECK int job_stage(struct job *job, struct sgpu_error *error);
void job_unstage(struct job *job);
/* Wipes and frees. Accepts one that job_begin refused, or a zeroed one. */
void job_clear(struct job *job);

/* ---- a variant that runs a job ---- */
struct job_side {
	struct sgpu_bench *bench;
	struct job *job;
	const struct job_place *place; /* on a device that stays open */
	int batches;             /* so many times a sample */
	bool opens;              /* the device for every batch, as a process of its own would; what that takes counts */
	/* Checks the last response; for it are what follows. */
	int (*check)(struct job_side *side, struct sgpu_error *error);
	const void *data;
	const char *id;          /* of an output */
	uint64_t count;          /* bytes or elements of an output */
	void *output;
};
/* What the parameter "device" says of it. */
const char *job_device_text(bool opens);
/* A check: the output `id` is the `count` bytes of `data`. */
SGPU_MUST_CHECK int job_check_same(struct job_side *side, struct sgpu_error *error);
/* Of struct sgpu_bench_variant, with a side as argument. */
int job_side_run(void *argument, uint64_t *ns, struct sgpu_error *error);
int job_side_verify(void *argument, struct sgpu_error *error);

#endif
