/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner runs batches' graphs on the streams of one or more devices, and writes the responses.
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
	uint64_t size; /* bytes of the largest value that it holds */
	int device;
	bool shared; /* it holds several values, one after the other */
};

/* A sealed copy of a segment to another device, for its readers there. */
struct sgpu_plan_move {
	int segment;
	int from, to; /* devices */
	int from_buffer, to_buffer;
	int next; /* the next move of this segment, or -1 */
};

struct sgpu_plan {
	int device_count, stream_count, buffer_count, move_count;
	int first[SGPU_PLAN_STREAMS_MAX]; /* operation of each stream */
	struct sgpu_plan_operation {
		int device;
		int stream;  /* stream s is on device s % device_count */
		int next;    /* on its stream, or -1 */
		int scratch; /* its buffer, or -1 */
	} * operations;
	struct sgpu_plan_segment {
		int first_move; /* or -1 */
		int in_buffer;	/* of the value that arrives, or -1 */
		int out_buffer; /* of the value that is written, or -1 */
	} * segments;
	struct sgpu_plan_buffer *buffers;
	struct sgpu_plan_move *moves;
	bool unknown_sizes;	 /* of an output, which only its operation knows */
	uint64_t bytes_unshared; /* device memory if no buffer were used twice */
	uint64_t bytes;		 /* device memory of the plan, on all devices */
};

/* In the graph's order, each operation goes to the device on which it would end first; among
 * equals, to the first of them. An operation is taken to wait for its predecessors, and a device to
 * do one thing at a time. A module's operation goes where the module's image is. The same manifest
 * gives the same devices. The unit of costs is the time in which an operation reads or writes one
 * byte. */
struct sgpu_plan_costs {
	uint64_t travel; /* of each byte from the host or another device */
	uint64_t move;	 /* of each move, in addition to its bytes */
	int matrix_max;	 /* most operations for which a matrix of ancestors is made */
	int streams;	 /* most of a device */
	uint64_t small;	 /* most bytes of the arguments of an operation that shares a stream */
};
/* Orders of magnitude of a GPU's memory, bus, and time to begin a transfer; 2 MiB of a matrix. */
#define SGPU_PLAN_COSTS                                         \
	((struct sgpu_plan_costs){ .travel = 64,                \
				   .move = (uint64_t)256 << 20, \
				   .matrix_max = 4096,          \
				   .streams = 16,               \
				   .small = 16 << 10 })

/* A stream runs its operations in the order in which their inputs arrive, which is taken to be the
 * manifest's. The first operation that follows another continues that one's stream. Small
 * operations that follow none share a stream of their device; others get new streams and, once all
 * are in use, each stream in turn. Without a matrix, only operations of one chain share buffers, so
 * planning stays fast. An input arrives on the device that reads it first. Errors: SGPU_EUSAGE (not
 * 1 to SGPU_RUN_DEVICES_MAX devices), SGPU_EINVALID, SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_plan_create(const struct sgpu_manifest *manifest, int devices,
				     const struct sgpu_plan_costs *costs, struct sgpu_plan **plan,
				     struct sgpu_error *error);
void sgpu_plan_free(struct sgpu_plan **plan);

/* ---- the runner ----
 * A process makes one runner for its devices, and runs batches on it, each on a thread of the
 * caller, also several at a time. The runner keeps what is slow to create: streams, staging memory,
 * and threads that help to copy. Keys are freed as payloads end, and device memory once the
 * response was written or the batch refused. */
struct sgpu_runner;

struct sgpu_runner_config {
	struct sgpu_device *device; /* borrowed until sgpu_runner_free */
	struct sgpu_device *const
		*more;	     /* further devices of the same kind, borrowed as well; NULL: none */
	int more_count;	     /* at most SGPU_RUN_DEVICES_MAX - 1 */
	unsigned jobs;	     /* threads of the engine of each device; 0: sgpu_cpu_count() */
	uint64_t pinned_max; /* most bytes of each engine's staging memory; 0:
				SGPU_RUNNER_PINNED_MAX */
	bool shared_files;   /* other processes also hold the submissions' descriptors; see
				lib/transfer */
};
#define SGPU_RUNNER_PINNED_MAX ((uint64_t)64 << 20)

/* Errors: SGPU_EUSAGE (too many devices), SGPU_ENOMEM, SGPU_ESYSTEM, SGPU_EDEVICE. */
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
	const char *label; /* operation or segment id; lives as long as the run */
	uint64_t begin_ns, end_ns, bytes;
	int device; /* its number in the runner; not of READ and WRITE, which the host does */
	int number; /* of a KERNEL: its stream; of a MOVE: the device that it goes to */
};

struct sgpu_run_options {
	const struct sgpu_key *keys; /* any of them may be the recipient */
	int key_count;
	const char *const *owners; /* thumbprints: a batch that none of these owners signed is
				      refused (SGPU_EPOLICY, SGPU_EAUTH); NULL: anyone who knows a
				      recipient's key may send work */
	int owner_count;
	/* Refuses batches for their time and, if it has a directory, records each batch and refuses
	 * it a second time; NULL: neither. */
	struct sgpu_replay *replay;
	/* On the clock of sgpu_now_ns(); 0: none. If it passes before the batch was admitted, there
	 * is no response (SGPU_ETIMEOUT). If it passes later, what has not ended fails, and the
	 * response says so (SGPU_ESEGMENTS), as long as somebody reads it. */
	uint64_t deadline_ns;
	bool spans;
	/* Directories from which payloads may be fetched, for batches with a MAC only: otherwise
	 * whoever makes a batch could find out a file's bytes by guessing digests. NULL: none
	 * (SGPU_EPOLICY). */
	const struct sgpu_files *files;
	const char *refuse_regions; /* why batches that name a region are refused (SGPU_EPOLICY);
				       NULL: they are not */
	struct sgpu_lease_pool *leases; /* may hold payloads and results; NULL: a batch that names a
					   lease is refused (SGPU_EPOLICY) */
	bool leases_registered;		/* with the device, which reads and writes them itself */
	bool lease_results;  /* leave the results in a lease, as long as it exists; without room for
				it, they go with the response */
	const char *results; /* a handle: results go there, one after the other, unless the batch
				says otherwise; NULL: with the response */
	bool allow_modules;  /* false: modules are refused (SGPU_EPOLICY) */
	bool new_response;   /* nobody else has the file of out_fd, even if it has a name: space is
				reserved there before the batch is recorded */
	const int *manifest; /* NULL, or a descriptor of the manifest, for a batch that gives only
				its hash; without it, an unknown one is refused (SGPU_EMANIFEST) */
};

struct sgpu_submission {
	int in_fd;	     /* the batch; read from the current position */
	const char *in_name; /* for messages */
	int out_fd; /* the response, from the current position. In a regular file that is also
		       readable, results may be written while the batch runs; the file is then
		       truncated behind the response */
	const char *out_name;
	struct sgpu_run_options options;
};

/* Names, descriptors and all that the options point to are borrowed until the batch has run.
 * Errors: SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_run_create(struct sgpu_runner *runner,
				    const struct sgpu_submission *submission, struct sgpu_run **run,
				    struct sgpu_error *error);
/* Runs the batch once, on the calling thread. Operations start while it still arrives. Returns 0,
 * or SGPU_ESEGMENTS: the response was written and says which outputs failed (all if one did and the
 * manifest's on_failure is "all"), or an input that nothing reads failed. Any other code: the batch
 * was refused or stopped, or the response could not be written, so there is no whole one:
 * SGPU_EINVALID, SGPU_EAUTH, SGPU_EKEY, SGPU_EPOLICY, SGPU_ETAKEN, SGPU_EMANIFEST, SGPU_ERETRY,
 * SGPU_ENOMEM, SGPU_EDEVICE, SGPU_ENOSPACE, SGPU_ESYSTEM, SGPU_ECANCELED, SGPU_ETIMEOUT. */
SGPU_MUST_CHECK int sgpu_run_batch(struct sgpu_run *run, struct sgpu_error *error);
/* Stops the run soon, or as soon as it begins; async-signal-safe. Disturbs other runs' kernels on
 * the device only if this run's do not end within SGPU_RUN_GRACE_NS. */
void sgpu_run_cancel(struct sgpu_run *run);
#define SGPU_RUN_GRACE_NS UINT64_C(5000000000)
/* The batch must not be running. Accepts NULL; clears the caller's pointer. */
void sgpu_run_free(struct sgpu_run **run);

struct sgpu_run_progress {
	int operations_done, operations_failed, operations;
	uint64_t bytes_in, bytes_out;
	uint64_t bytes_in_all; /* of all input payloads; 0 until the batch's head has been read */
	uint64_t elapsed_ns;
	uint64_t stopping_ns; /* since the run was told to stop, while the device may have its work;
				 else 0 */
};
/* Any thread may call this at any time. */
void sgpu_run_get_progress(const struct sgpu_run *run, struct sgpu_run_progress *progress);

/* Sums over all spans of a kind. */
struct sgpu_run_total {
	uint64_t count, ns, bytes;
};
/* Bytes by path between host and device. */
struct sgpu_run_paths {
	uint64_t in[SGPU_PATHS], out[SGPU_PATHS]; /* of payloads, sealed or plain */
};

/* The outcome of an ended run. All that it points to lives as long as the run. */
struct sgpu_run_result {
	const struct sgpu_batch *batch; /* or NULL: its head was not read */
	const char *manifest_id;	/* or "": no manifest was taken */
	const char *owner;	/* thumbprint of the first owner in the batch whose signature has
				   verified, or "" */
	bool descriptor_failed; /* the batch could not be read, or the response not written */
	bool response_full;	/* writing the response failed with SGPU_ENOSPACE */
	bool has_module;
	uint64_t response_size; /* least bytes that it needs; 0: not known */
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
	struct sgpu_span *spans; /* sorted by begin_ns */
	size_t span_count;
};
const struct sgpu_run_result *sgpu_run_get_result(const struct sgpu_run *run);

#endif
