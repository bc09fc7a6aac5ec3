/* SPDX-License-Identifier: Apache-2.0
 *
 * The orchestrator: takes a batch, drives its graph over the streams of a device, and gives the response.
 */
#ifndef SGPU_RUN_H
#define SGPU_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sgpu/batch.h>
#include <sgpu/crypto.h>
#include <sgpu/device.h>
#include <sgpu/ops.h>
#include <sgpu/replay.h>
#include <sgpu/stage.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the plan: streams, buffers, order; made from a checked manifest alone ---- */
enum { SGPU_PLAN_STREAMS_MAX = 64 };

struct sgpu_plan_buffer {
	uint64_t size;      /* bytes: the largest of its tenants */
};

struct sgpu_plan {
	int stream_count;
	int *stream;            /* by operation */
	int buffer_count;
	struct sgpu_plan_buffer *buffers;
	int *in_buffer;         /* by segment: what arrives (INPUT, INPUT_OUTPUT), or -1 */
	int *out_buffer;        /* by segment: what an operation writes, or -1 */
	int *scratch_buffer;    /* by operation, or -1 */
	uint64_t bytes_unshared; /* device memory if no buffer were used twice */
	uint64_t bytes;          /* device memory of the plan */
};

/* A buffer is given to a second tenant only when the graph says that all that touch the first (its writer and its
 * readers) are ancestors of the operation that writes the second. What leaves the device keeps its buffer. With more
 * than 4096 operations only what follows one another on one stream shares, so that planning stays quick.
 * One stream an operation, but an operation that is the first to follow another continues its stream, so that a
 * chain needs one stream and no event, and beyond SGPU_PLAN_STREAMS_MAX streams they are used in turn. */
SGPU_MUST_CHECK int sgpu_plan_create(const struct sgpu_manifest *manifest, struct sgpu_plan **plan,
				     struct sgpu_error *error);
void sgpu_plan_free(struct sgpu_plan **plan);
/* The sizes that only the batch knows, those of modules without data_type_info: for the manifest of the batch, before
 * it is planned. */
void sgpu_plan_sizes(struct sgpu_manifest *manifest, const struct sgpu_batch *batch);

/* ---- a run ---- */
enum sgpu_span_kind { SGPU_SPAN_READ, SGPU_SPAN_COPY_IN, SGPU_SPAN_OPEN, SGPU_SPAN_KERNEL, SGPU_SPAN_SEAL,
		      SGPU_SPAN_COPY_OUT, SGPU_SPAN_WRITE, SGPU_SPAN_KINDS };
const char *sgpu_span_name(enum sgpu_span_kind kind);

struct sgpu_span {
	enum sgpu_span_kind kind;
	int stream;             /* row of the trace; -1 is the host */
	const char *label;      /* operation or segment id; lives as long as the run */
	uint64_t begin_ns, end_ns, bytes;
};

struct sgpu_run_options {
	const struct sgpu_key *keys;  /* any of them may be the recipient; borrowed until the batch has run */
	int key_count;
	const char *const *owners;    /* thumbprints: batches that none of these has signed are refused (SGPU_EPOLICY,
	                                 SGPU_EAUTH); NULL: whoever knows a recipient's key may send work. Borrowed. */
	int owner_count;
	struct sgpu_replay *replay;   /* remembers what the run takes, and refuses what was taken before; or NULL. Borrowed. */
	uint64_t deadline_ns;         /* sgpu_now_ns() clock; 0: none */
	bool spans;                   /* record them */
	/* Whoever makes a batch names files in it and guesses their digests; which guesses fit tells them what the
	 * files hold, byte by byte. So payloads in files are fetched from these folders alone, and for batches with a
	 * MAC alone; NULL: batches that have any are refused (SGPU_EPOLICY). Borrowed until the batch has run. */
	const struct sgpu_files *files;
	bool allow_modules;           /* run kernels that a batch brings; else such a batch is refused (SGPU_EPOLICY) */
};

/* Sums over all spans of a kind, kept whether spans are recorded or not. */
struct sgpu_run_total {
	uint64_t count, ns, bytes;
};

/* A run takes one batch. */
struct sgpu_run;

SGPU_MUST_CHECK int sgpu_run_create(struct sgpu_device *device, const struct sgpu_run_options *options,
				    struct sgpu_run **run, struct sgpu_error *error);
/* Wipes and frees all. No thread may be in sgpu_run_batch. */
void sgpu_run_free(struct sgpu_run **run);

/* Reads a batch from in_fd, runs it, and writes the response to out_fd. Work starts while the batch still arrives.
 * Returns 0; SGPU_ESEGMENTS when some segments failed (the response is written and says which and why); or, with
 * no response written, what refused or stopped the batch: SGPU_EINVALID, SGPU_EAUTH, SGPU_EKEY, SGPU_EPOLICY,
 * SGPU_ENOMEM, SGPU_ESYSTEM, SGPU_ECANCELED. */
SGPU_MUST_CHECK int sgpu_run_batch(struct sgpu_run *run, int in_fd, const char *in_name, int out_fd,
				   const char *out_name, struct sgpu_error *error);
/* Stops the run soon; async-signal-safe. */
void sgpu_run_cancel(struct sgpu_run *run);

struct sgpu_run_progress {
	int operations_done, operations_failed, operations;
	uint64_t bytes_in, bytes_out;
	uint64_t elapsed_ns;
	uint64_t stopping_ns; /* since it was told to stop, while the device still has work of it; else 0 */
};
/* May be called from any thread at any time. */
void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress);

/* After the batch: spans in order of their begin, and the totals by kind. They live as long as the run. */
void sgpu_run_get_spans(const struct sgpu_run *run, const struct sgpu_span **spans, size_t *count);
void sgpu_run_get_totals(const struct sgpu_run *run, struct sgpu_run_total totals[SGPU_SPAN_KINDS]);
/* The staging ladder: how bytes got between host and device. */
enum sgpu_rung {
	SGPU_RUNG_REGISTERED, /* the device read a file's own memory */
	SGPU_RUNG_PINNED,     /* copied by the processor into, or out of, memory that the device reads by itself */
	SGPU_RUNG_PAGEABLE,   /* through ordinary memory: all there is on the CPU device */
	SGPU_RUNGS
};
const char *sgpu_rung_name(enum sgpu_rung rung); /* "registered", "pinned", "pageable" */
struct sgpu_run_rungs {
	uint64_t in[SGPU_RUNGS], out[SGPU_RUNGS]; /* bytes of payloads, as they travel */
};
void sgpu_run_get_rungs(const struct sgpu_run *run, struct sgpu_run_rungs *rungs);
/* The batch that was taken, once its head has been read, else NULL. It lives as long as the run. */
const struct sgpu_batch *sgpu_run_get_batch(const struct sgpu_run *run);
/* What the rows of the trace are: streams of operations first, then those that bring in, then those that bring
 * out. */
struct sgpu_run_rows {
	int operations, inputs, outputs;
};
void sgpu_run_get_rows(const struct sgpu_run *run, struct sgpu_run_rows *rows);
/* What a row is: "stream", "copy in", "open", "seal", "copy out"; opening and sealing have rows of their own where
 * copies overlap with them. *number counts within operations, inputs or outputs. */
const char *sgpu_run_row_name(const struct sgpu_run *run, int row, int *number);

#ifdef __cplusplus
}
#endif
#endif
