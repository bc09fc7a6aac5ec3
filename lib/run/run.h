/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner: takes batches, drives their graphs over the streams of one device or several, and
 * writes the responses.
 */
#ifndef SGPU_RUN_RUN_H
#define SGPU_RUN_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sgpu/keys.h>
#include <sgpu/device.h>

#include "batch/batch.h"
#include "ops/ops.h"
#include "stage/lease.h"
#include "stage/stage.h"

/* ---- the plan: devices, streams, buffers, order; made from a checked manifest alone ---- */
enum { SGPU_PLAN_STREAMS_MAX = 64, SGPU_RUN_DEVICES_MAX = 16 };

struct sgpu_plan_buffer {
	uint64_t size; /* bytes: the largest of its tenants */
	int device;    /* where it is */
};

/* A segment that an operation on another device reads: a sealed copy from device to device. */
struct sgpu_plan_move {
	int segment;
	int from, to; /* devices */
	int from_buffer, to_buffer;
	int next; /* the next move of this segment, or -1 */
};

struct sgpu_plan {
	int device_count;
	int *device; /* by operation */
	int stream_count;
	int *stream; /* by operation; it is a stream of device number `stream % device_count` */
	int buffer_count;
	struct sgpu_plan_buffer *buffers;
	int move_count;
	struct sgpu_plan_move *moves;
	int *first_move;	 /* by segment: its first move, or -1 */
	int *in_buffer;		 /* by segment: what arrives (INPUT, INPUT_OUTPUT), or -1 */
	int *out_buffer;	 /* by segment: what an operation writes, or -1 */
	int *scratch_buffer;	 /* by operation, or -1 */
	uint64_t bytes_unshared; /* device memory if no buffer were used twice */
	uint64_t bytes;		 /* device memory of the plan, on all devices */
};

/* A buffer gets a second tenant only when the graph says that all that touch the first, its writer
 * and its readers, are ancestors of the second's writer. An output keeps its buffer. With more than
 * 4096 operations, only those that follow one another on one stream share buffers, so that planning
 * stays quick. An operation has a stream of its own, unless it is the first to follow another,
 * whose stream it continues, so that a chain needs no event; above SGPU_PLAN_STREAMS_MAX streams
 * are used in turn. With several devices, an operation goes where it would end first
 * (lib/run/plan.h), and an input arrives on the device that reads it first. Errors: SGPU_EUSAGE
 * (not 1 to SGPU_RUN_DEVICES_MAX devices), SGPU_EINVALID, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_plan_create(const struct sgpu_manifest *manifest, int devices,
				     struct sgpu_plan **plan, struct sgpu_error *error);
void sgpu_plan_free(struct sgpu_plan **plan);
/* Fills in sizes that only the batch knows, those of modules without data_type_info. To be called
 * before its manifest is planned. */
void sgpu_plan_sizes(struct sgpu_manifest *manifest, const struct sgpu_batch *batch);

/* ---- the runner ----
 * A process makes one runner for a device, or for several, and submits batches to it, several at
 * once if it likes. The runner keeps what costs time to make: its thread, the threads that read and
 * write, streams, and staging memory. Device memory of a batch is cleared and given back when the
 * batch ends, however it ends. With several devices, the operations of each batch are spread over
 * them. What moves between two devices is sealed on one and opened on the other (sgpu_peer_copy).
 */
struct sgpu_runner;

struct sgpu_runner_config {
	struct sgpu_device *device; /* borrowed until sgpu_runner_free */
	struct sgpu_device *const
		*more;	/* further devices of the same kind, borrowed as well; NULL: none */
	int more_count; /* at most SGPU_RUN_DEVICES_MAX - 1 */
	unsigned jobs;	/* cores that copy for a device with copy engines; 0: sgpu_cpu_count() */
	uint64_t pinned_max; /* bytes of pinned memory for inputs, and for results, of one batch; 0:
				SGPU_RUNNER_PINNED_MAX */
	bool many_runs;	   /* many at a time: where the device computes on these cores, threads that
			      wait sleep at once */
	bool shared_files; /* other processes hold the descriptors of submissions, too; see
			      lib/transfer */
};
#define SGPU_RUNNER_PINNED_MAX ((uint64_t)64 << 20)

/* Errors: SGPU_EUSAGE (devices that are too many or not of one kind), SGPU_ENOMEM, SGPU_ESYSTEM,
 * SGPU_EDEVICE. */
SGPU_MUST_CHECK int sgpu_runner_create(const struct sgpu_runner_config *config,
				       struct sgpu_runner **runner, struct sgpu_error *error);
/* Its runs must have been freed. Accepts NULL; clears the caller's pointer. */
void sgpu_runner_free(struct sgpu_runner **runner);

/* ---- a run ---- */
/* One batch from its submission to its response. */
struct sgpu_run;

enum sgpu_span_kind {
	SGPU_SPAN_READ,
	SGPU_SPAN_COPY_IN,
	SGPU_SPAN_OPEN,
	SGPU_SPAN_KERNEL,
	SGPU_SPAN_SEAL,
	SGPU_SPAN_COPY_OUT,
	SGPU_SPAN_WRITE,
	SGPU_SPAN_MOVE,
	SGPU_SPAN_KINDS
};
const char *sgpu_span_name(enum sgpu_span_kind kind);

struct sgpu_span {
	enum sgpu_span_kind kind;
	int stream;	   /* row of the trace; -1 is the host */
	const char *label; /* operation or segment id; lives as long as the run */
	uint64_t begin_ns, end_ns, bytes;
};

/* What its pointers point at is borrowed until the batch has run. */
struct sgpu_run_options {
	const struct sgpu_key *keys; /* any of them may be the recipient */
	int key_count;
	const char *const *owners; /* thumbprints: batches that none of these has signed are refused
				      (SGPU_EPOLICY, SGPU_EAUTH); NULL: whoever knows a recipient's
				      key may send work */
	int owner_count;
	struct sgpu_replay *replay; /* remembers the batch, and refuses one taken before; or NULL */
	uint64_t deadline_ns;	    /* sgpu_now_ns() clock; 0: none */
	bool spans;		    /* record them */
	/* Whoever makes a batch could name files in it and guess their digests: which guess fits
	 * tells what a file holds, byte by byte. So payloads in files are fetched only from these
	 * directories, and only for batches with a MAC; NULL: batches with such payloads are
	 * refused (SGPU_EPOLICY).
	 */
	const struct sgpu_files *files;
	const char *refuse_regions; /* why a batch that names a region is refused (SGPU_EPOLICY); or
				       NULL */
	struct sgpu_lease_pool *leases; /* where payloads and results may be; NULL: a batch that
					   names any is refused (SGPU_EPOLICY) */
	bool leases_registered;		/* with the device: it reads and writes them by itself */
	bool lease_results; /* leave results in a lease, for as long as it stays; those for which
			       there is no room go with the response */
	bool allow_modules; /* run kernels that a batch brings; else such a batch is refused
			       (SGPU_EPOLICY) */
};

struct sgpu_submission {
	int in_fd;	     /* the batch; read from its position on */
	const char *in_name; /* for messages */
	int out_fd; /* the response; written from its position on. Into a regular file that can be
		       read too, results may be written while the batch runs, and it is then cut off
		       behind the response. */
	const char *out_name;
	struct sgpu_run_options options;
};

/* Called once, from a thread of the runner, when all of the batch has ended; `code` as
 * sgpu_run_wait returns it. It may submit; it may not wait for a run nor free one. */
typedef void (*sgpu_run_done_fn)(void *argument, struct sgpu_run *run, int code);

/* Starts to read a batch and returns; work starts while the batch still arrives. Names, descriptors
 * and what the options point at are borrowed until the batch has run. done: may be NULL. The run is
 * the caller's, and is set before `done` can be called. Errors, of the submission alone:
 * SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_runner_submit(struct sgpu_runner *runner,
				       const struct sgpu_submission *submission,
				       sgpu_run_done_fn done, void *argument, struct sgpu_run **run,
				       struct sgpu_error *error);
/* Waits until the batch has run and `done` has returned. Returns 0; SGPU_ESEGMENTS when some
 * segments failed (the response is written and says which and why); or, with no response written,
 * what refused or stopped the batch: SGPU_EINVALID, SGPU_EAUTH, SGPU_EKEY, SGPU_EPOLICY,
 * SGPU_ENOMEM, SGPU_ESYSTEM, SGPU_ECANCELED, SGPU_ETIMEOUT. Any number of threads may wait, again
 * and again. */
SGPU_MUST_CHECK int sgpu_run_wait(struct sgpu_run *run, struct sgpu_error *error);
/* Stops the run soon; async-signal-safe. Kernels of other runs on the device are not disturbed,
 * unless those of this one do not end within SGPU_RUN_GRACE_NS. */
void sgpu_run_cancel(struct sgpu_run *run);
#define SGPU_RUN_GRACE_NS UINT64_C(5000000000)
/* Cancels the run if it has not ended, waits for it, and frees all. Accepts NULL; clears the
 * caller's pointer. */
void sgpu_run_free(struct sgpu_run **run);

struct sgpu_run_progress {
	int operations_done, operations_failed, operations;
	uint64_t bytes_in, bytes_out;
	uint64_t elapsed_ns;
	uint64_t stopping_ns; /* since it was told to stop, while the device still has work of it;
				 else 0 */
};
/* May be called from any thread at any time. */
void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress);
/* The batch that was taken, once its head has been read, else NULL. It lives as long as the run. */
const struct sgpu_batch *sgpu_run_get_batch(const struct sgpu_run *run);

/* Sums over all spans of a kind, kept whether spans are recorded or not. */
struct sgpu_run_total {
	uint64_t count, ns, bytes;
};
/* How payloads got between host and device. */
struct sgpu_run_paths {
	uint64_t in[SGPU_PATHS], out[SGPU_PATHS]; /* bytes of payloads, as they travel */
};

/* The outcome of a run that has ended. What pointers point at lives as long as the run. */
struct sgpu_run_result {
	const char *owner; /* thumbprint of the first owner in the batch whose signature has
			      verified, or "" */
	bool replayed;	   /* the record of batches refused it: taken before, or too old to tell */
	bool descriptor_failed; /* a fault of the files: its batch could not be read, or its
				   response not be written */
	bool response_full;	/* its response ended with SGPU_ENOSPACE */
	uint64_t response_size; /* bytes that it needs at least; 0: not known */
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
	const struct sgpu_span *spans; /* in order of their begin */
	size_t span_count;
	/* Rows of the trace: streams of operations, then those of inputs, of outputs, and of moves.
	 */
	int rows;
};
void sgpu_run_get_result(const struct sgpu_run *run, struct sgpu_run_result *result);
/* What a row is: "stream", "copy in", "open", "seal", "copy out", "move to device"; opening and
 * sealing have own rows where copies overlap with them. *number counts within operations, inputs or
 * outputs of a device, or is the device that segments move to. *device is the row's, or -1 where
 * there is only one. */
const char *sgpu_run_row_name(const struct sgpu_run *run, int row, int *number, int *device);

#endif
