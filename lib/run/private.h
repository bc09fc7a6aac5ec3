/* SPDX-License-Identifier: Apache-2.0
 *
 * What the runner's files share. A run belongs to the thread in sgpu_run_batch; only atomic members
 * are for others.
 */
#ifndef SGPU_RUN_PRIVATE_H
#define SGPU_RUN_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/io.h"
#include "run/run.h"
#include "transfer/transfer.h"

struct sgpu_run;

/* ---- plan.c ---- */
/* The buffer in which operations on a device read a segment: of an INPUT_OUTPUT, the value that
 * arrived, since readers do not wait for the writer. */
static inline int sgpu_plan_read_buffer(const struct sgpu_plan *plan, int segment, int device)
{
	const struct sgpu_plan_segment *s = &plan->segments[segment];

	for (int i = s->first_move; i >= 0; i = plan->moves[i].next) {
		if (plan->moves[i].to == device) {
			return plan->moves[i].to_buffer;
		}
	}
	return s->in_buffer >= 0 ? s->in_buffer : s->out_buffer;
}

/* ---- admit.c ---- */
/* Prepared jobs: manifests that were parsed, checked against the operations, and planned. A kept
 * job depends only on the devices and on the manifest's text, by whose hash it is found. */

enum {
	SGPU_PREPARED_MAX = 64,		    /* jobs that a runner keeps */
	SGPU_PREPARED_TEXT_MAX = 256 << 10, /* most bytes of a kept job's manifest */
};

struct sgpu_prepared {
	atomic_int references;
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan; /* once it is set, the job does not change */
};

/* Takes over the manifest, even on failure. The caller gets the only reference; NULL: no memory. */
struct sgpu_prepared *sgpu_prepared_create(struct sgpu_manifest **manifest);
void sgpu_prepared_drop(struct sgpu_prepared **prepared);

/* The jobs that a runner keeps, for all of its threads. */
struct sgpu_prepared_table {
	pthread_mutex_t mutex;
	unsigned kept; /* so far */
	struct sgpu_prepared *jobs[SGPU_PREPARED_MAX];
};

void sgpu_prepared_table_clear(struct sgpu_prepared_table *table);
/* Finds the job whose manifest has this hash. The caller gets a reference, or NULL. */
struct sgpu_prepared *sgpu_prepared_find(struct sgpu_prepared_table *table,
					 const uint8_t sha256[SGPU_SHA256_SIZE]);
/* Keeps a planned job, unless it is large or depends on its batch (on a module's size). A full
 * table drops the job that it has kept longest. */
void sgpu_prepared_keep(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared);

/* The results of admission, constant except that the key is wiped. */
struct sgpu_job {
	const struct sgpu_run_options *options;
	struct sgpu_batch *batch;
	struct sgpu_prepared *prepared;
	const struct sgpu_manifest *manifest; /* of the prepared job */
	const struct sgpu_plan *plan;
	uint8_t batch_key[SGPU_KEY_SIZE];
	char owner[SGPU_KID_SIZE + 1]; /* the first listed owner who signed the batch, or "" */
	bool has_module;	       /* an operation is of a module */
	uint8_t response_id[SGPU_RESPONSE_ID_SIZE]; /* of the batch's one response */
	int *to_manifest; /* by segment of the batch: index in the manifest */
	int *in_batch;	  /* by segment of the manifest: index in the batch, or -1 */
};

/* Adds up the results that have no place, each with `each` more bytes and rounded up. False: the
 * sum overflows. */
bool sgpu_results_size(const struct sgpu_job *job, uint64_t each, uint64_t *sum);

/* Fills in run->job, whose options are set. */
SGPU_MUST_CHECK int sgpu_admit(struct sgpu_run *run, struct sgpu_error *error);
/* The last check: records the batch, or refuses a recorded one. */
SGPU_MUST_CHECK int sgpu_admit_once(struct sgpu_job *job, struct sgpu_error *error);
void sgpu_job_clear(struct sgpu_job *job);

/* ---- runner.c: what runs share ---- */
enum { SGPU_IDLE_STREAMS_MAX = 16 }; /* on the CPU device each has a thread */

struct sgpu_run_device {
	int number; /* in the order of the runner's configuration */
	struct sgpu_device *device;
	struct sgpu_engine *engine;
	pthread_mutex_t mutex; /* guards the streams that no run uses */
	int idle_count;
	struct sgpu_stream *idle[SGPU_IDLE_STREAMS_MAX];
};

/* Takes an idle stream, or makes one. */
SGPU_MUST_CHECK int sgpu_streams_take(struct sgpu_run_device *device, struct sgpu_stream **stream,
				      struct sgpu_error *error);
/* Gives a stream, or NULL, back and clears the pointer. Unless `idle`, waits for its work. */
void sgpu_streams_give(struct sgpu_run_device *device, struct sgpu_stream **stream, bool idle);

/* The runs that may have work on the devices. */
struct sgpu_presence {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int count;	 /* runs that have entered */
	int uncleared;	 /* runs that have left, and have not freed their memory yet */
	bool cancelling; /* the devices were told to stop: no run may enter */
	int alone;	 /* runs that are inside, or wait, and have a module */
	bool bound;	 /* a module has been here: only runs of `owner` may enter */
	char owner[SGPU_KID_SIZE + 1];
};

/* Lets a run enter, which it must before it gives the devices work. Waits while they are being
 * stopped. A kernel of a module can address all that the process has mapped, so a run with a module
 * waits until no other is inside or has memory there, and keeps others out until it leaves; then
 * the process takes no batch of another owner. Errors: what `ended` returns while the run waits;
 * SGPU_ERETRY: another owner's batch. */
SGPU_MUST_CHECK int sgpu_presence_enter(struct sgpu_run *run, int (*ended)(void *run),
					struct sgpu_error *error);
/* Lets a run leave that has no more work on the devices. Does nothing if it is not inside. */
void sgpu_presence_leave(struct sgpu_run *run);
/* Notes that the devices have no more data of a run that has left. */
void sgpu_presence_cleared(struct sgpu_run *run);
/* Stops the devices of a stopped run that has entered: at once if it is alone, else
 * SGPU_RUN_GRACE_NS after its stop. Call it until the run has ended. */
void sgpu_presence_stop(struct sgpu_run *run);

struct sgpu_runner {
	bool pins;		      /* as its devices do */
	struct sgpu_plan_costs costs; /* SGPU_PLAN_COSTS, except in tests */
	struct sgpu_run_device devices[SGPU_RUN_DEVICES_MAX];
	int device_count;
	/* sealed paths between the devices, opened at first use */
	struct sgpu_peer *peers[SGPU_RUN_DEVICES_MAX][SGPU_RUN_DEVICES_MAX];
	struct sgpu_prepared_table prepared;
	struct sgpu_presence presence;
	pthread_mutex_t mutex; /* guards `begun` and the opening of `peers` */
	/* by device: how many runs have it as their first */
	unsigned begun[SGPU_RUN_DEVICES_MAX];
};

/* ---- memory.c: the buffers of a plan on its devices ---- */
struct sgpu_memory {
	sgpu_devptr *buffers; /* of the plan */
	struct sgpu_memory_share {
		uint64_t bytes;	    /* of all buffers of the plan on this device, in whole pages */
		sgpu_devptr memory; /* for all of them; 0: none */
	} shares[SGPU_RUN_DEVICES_MAX];
	uint64_t taken; /* bytes taken from the process's limit */
};

/* Streams of a run, on each device; the plan's streams follow. */
enum sgpu_run_stream {
	SGPU_RUN_COPY_IN,
	SGPU_RUN_OPEN,
	SGPU_RUN_SEAL,
	SGPU_RUN_COPY_OUT,
	SGPU_RUN_PLAN
};

/* A small payload that passes staging memory, or a lease, whole. */
struct sgpu_small {
	struct sgpu_staging_buffer *staging; /* of a result, as the next */
	uint8_t *host;
	struct sgpu_task copy, check; /* check: of opening, sealing or digest */
};

/* An input or a result of the batch on its way. */
struct sgpu_payload {
	struct sgpu_payload *next; /* among the transfers under way */
	struct sgpu_run *run;
	const struct sgpu_batch_segment *of;
	int segment; /* in the manifest */
	bool result;
	int device; /* of the plan, where it is opened or sealed; -1: there is no such payload */
	sgpu_devptr memory; /* on that device */
	bool sealed;
	uint64_t header;			  /* bytes before its first chunk */
	struct sgpu_device_key *key;		  /* NULL: not loaded, or it has ended */
	uint8_t header_bytes[SGPU_SEALED_HEADER]; /* of a result: made with its key */
	uint64_t size;				  /* with its header and tags */
	uint8_t *host; /* where it lies, or goes, in a lease or in `data`; NULL: in none */
	struct sgpu_source file; /* else: file or region with the payload; fd -1: none */
	struct sgpu_transfer *transfer;
	int code;
	const char *text; /* why it failed */
	bool begun;	  /* of an input */
	bool ended;	  /* it has arrived or left, or `code` says why not; never set for an output
			     whose operation failed */
	uint8_t digest[SGPU_KT128_SIZE]; /* computed, of a result or a small input in plaintext */
	/* of a result */
	struct sgpu_small *small; /* if it follows its operation */
	uint8_t *data;		  /* where it waits for the response, or NULL */
	uint64_t place;		  /* in the response's file, if it is written early; else 0 */
	uint64_t actual;	  /* bytes of plaintext */
};

struct sgpu_run_module {
	bool tried;
	struct sgpu_error error;	 /* why it failed to load; code SGPU_OK: it did not */
	uint8_t digest[SGPU_KT128_SIZE]; /* that the first operation named */
	struct sgpu_device_module *loaded;
};

struct sgpu_group;
struct sgpu_operations;

struct sgpu_run {
	struct sgpu_runner *runner;
	struct sgpu_submission submission;
	int first; /* its first device; the plan's device 0 */
	struct sgpu_run_device *devices[SGPU_RUN_DEVICES_MAX]; /* in the plan's order */
	struct sgpu_stream **streams;			       /* NULL: not taken yet */
	bool maybe_busy; /* streams may still have work: wait for them before they are given back */

	struct sgpu_job job; /* the admitted batch */
	struct sgpu_tar_reader *tar;
	struct sgpu_memory memory;	   /* the batch's buffers on the devices */
	struct sgpu_payload *payloads;	   /* inputs by segment of the batch, then results */
	struct sgpu_payload *under_way[2]; /* the transfers, by direction */
	struct sgpu_group *filling;	   /* small inputs that are not enqueued yet, or NULL */
	struct sgpu_group *enqueued;	   /* oldest first */
	int tar_code; /* SGPU_OK, or why the batch itself cannot be read any more */
	struct sgpu_operations *operations;
	struct sgpu_run_module *modules; /* by segment of the manifest; NULL: the batch has none */
	/* Why there can be no response: a module broke a rule (SGPU_EPOLICY), or an early result
	 * could not be written. */
	struct sgpu_error fatal;
	struct sgpu_sources *sources; /* the batch's open files and regions */
	struct sgpu_leases leases;    /* no pool: the options have none */
	uint64_t rank;		      /* of this run's transfers; lower ranks go first */
	bool cut;		      /* truncate the file after the response: it may be longer */

	struct sgpu_run_text {
		struct sgpu_run_text *next;
		char text[];
	} * texts;
	int code; /* unless `stop` or `fatal` overrides it */
	struct sgpu_error error;
	struct sgpu_run_result result;
	size_t span_capacity;
	atomic_uint_fast64_t begin_ns, end_ns; /* end: 0 until the run ends */
	atomic_uint_fast64_t bytes_in, bytes_out;
	bool inside;	/* under the presence's mutex */
	bool uncleared; /* it has left, and the devices may have its data */
	bool stop_seen; /* the transfers know of the stop */
	atomic_int done_count, failed_count, operation_count; /* the graph's progress */
	struct sgpu_io_guard guard;
	atomic_int stop;	      /* 0, or the code with which the run must end */
	atomic_uint_fast64_t stop_ns; /* when `stop` was set */
	atomic_uint_fast64_t busy_ns; /* since when the devices may have work of the run, or 0 */
};

/* ---- run.c ---- */
/* Stops the run soon. The `code` of the first call counts. Async-signal-safe. */
void sgpu_run_stop(struct sgpu_run *run, int code);
/* Notices ends and starts what may start. Only moves and the loading of modules wait. Returns
 * whether there was anything. */
bool sgpu_run_advance(struct sgpu_run *run);
/* Waits a little for the devices. begin_ns: since when there was nothing else to do. */
void sgpu_run_pause(struct sgpu_run *run, uint64_t begin_ns);
/* Formats as sgpu_fail does a text that lives as long as the run. */
const char *sgpu_run_text(struct sgpu_run *run, const char *format, ...) SGPU_PRINTF(2, 3);
/* Returns the text of a failed "operation" or "segment". After the deadline, *code and text become
 * those of SGPU_ETIMEOUT, whatever the failure was: a bad tag that is seen late counts as late. */
const char *sgpu_run_failure(struct sgpu_run *run, const char *what, const char *id, int *code,
			     const char *text);
/* Returns a stream of the run, taken at first use. number: of the device, or of the plan's stream
 * for SGPU_RUN_PLAN. The plan's stream d also carries the small inputs and keys of device d. */
SGPU_MUST_CHECK int sgpu_run_get_stream(struct sgpu_run *run, int number,
					enum sgpu_run_stream which, struct sgpu_stream **stream,
					struct sgpu_error *error);

/* Whether a payload of so many bytes is moved whole, with others in one step. */
static inline bool sgpu_run_is_small(uint64_t size)
{
	return size <= SGPU_TRANSFER_SMALL + SGPU_SEALED_HEADER;
}

/* Whether the device takes the time of work on so many bytes, which takes two calls of a GPU's
 * driver. What is short is timed by when the host sees its end, unless it is for a trace. */
static inline bool sgpu_run_times(const struct sgpu_run *run, uint64_t bytes)
{
	return run->submission.options.spans || bytes > (1 << 20);
}

/* Adds a span, and to the sums of its kind, unless the step never ran (begin_ns is 0). */
void sgpu_trace_add(struct sgpu_run *run, const struct sgpu_span *span);

/* ---- memory.c ---- */
/* Allocates all buffers. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_memory_create(struct sgpu_run *run, struct sgpu_error *error);
/* Clears and frees the memory, on which no work may be pending. A secure context enqueues the
 * clearing, and gives the memory out again only when that has ended. Accepts zeroed memory. */
void sgpu_memory_clear(struct sgpu_run *run);

/* ---- payload.c ---- */
/* The batch's buffers and leases must be there. */
SGPU_MUST_CHECK int sgpu_payloads_create(struct sgpu_run *run, struct sgpu_error *error);
static inline struct sgpu_payload *sgpu_run_payload(const struct sgpu_run *run, int segment,
						    bool result)
{
	return &run->payloads[result * run->job.batch->segment_count + run->job.in_batch[segment]];
}
/* Fills in the work that moves a small payload, after its header, from or to host memory. Returns
 * how many pieces. small: zeroed tasks. */
int sgpu_payload_works(struct sgpu_payload *payload, void *host, struct sgpu_small *small,
		       struct sgpu_work works[2]);
/* Begins a payload's transfer, after its key. The request has a size and, for a payload that is
 * neither in memory nor in a file, an end, which is closed on failure. */
SGPU_MUST_CHECK int sgpu_payload_begin(struct sgpu_payload *payload,
				       struct sgpu_transfer_request *request,
				       struct sgpu_error *error);
/* Adds a step of a payload to the trace. */
void sgpu_payload_note(const struct sgpu_payload *payload, enum sgpu_span_kind kind,
		       uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);
/* Takes steps for the transfers under way; returns whether anything was done. */
bool sgpu_payloads_advance(struct sgpu_run *run, enum sgpu_transfer_direction direction);
void sgpu_payloads_stop(struct sgpu_run *run, int code);

/* Gives a sealed payload, and some of those after it, their keys on the device. */
SGPU_MUST_CHECK int sgpu_payload_key(struct sgpu_payload *payload, struct sgpu_error *error);

/* ---- inputs.c: payloads on their way to the device ---- */
/* Takes the batch's regions, and reads all payloads. Even after an error each input ends; those
 * still on the device end later, in sgpu_run_advance(). Errors: those of reading the batch, or why
 * the run was stopped. */
SGPU_MUST_CHECK int sgpu_inputs_bring(struct sgpu_run *run, struct sgpu_error *error);
/* Called when the transfer of an input, or an output, has ended. */
void sgpu_input_moved(struct sgpu_payload *input, const struct sgpu_transfer_result *result);
void sgpu_output_moved(struct sgpu_payload *output, const struct sgpu_transfer_result *result);
/* Ends the groups of small inputs that the device has passed; returns whether there were any. */
bool sgpu_inputs_end_groups(struct sgpu_run *run);
/* Waits for the oldest group. */
void sgpu_inputs_sync(struct sgpu_run *run);

/* ---- operations.c: the graph ---- */
SGPU_MUST_CHECK int sgpu_operations_create(struct sgpu_run *run, struct sgpu_error *error);
/* Fails the operations that would have read what a move did not bring. */
void sgpu_operations_not_moved(struct sgpu_run *run, const struct sgpu_plan_move *move, int code,
			       const char *text);
/* Notices ended operations, and starts those that may start. Returns whether there were any. */
bool sgpu_operations_advance(struct sgpu_run *run);
/* Whether operations are on the devices, and whether all have ended. */
bool sgpu_operations_pending(const struct sgpu_run *run);
bool sgpu_operations_ended(const struct sgpu_run *run);
/* SGPU_OK, or why an operation has no result, which *text says. Only after the graph has ended. */
int sgpu_operations_outcome(struct sgpu_run *run, int operation, const char **text);

/* ---- memory.c: sealed copies between the runner's devices ---- */
/* Opens the sealed paths (struct sgpu_peer) that the plan needs; the runner keeps them. */
SGPU_MUST_CHECK int sgpu_moves_open(struct sgpu_run *run, struct sgpu_error *error);
/* Moves a segment that is there to the devices that read it, and waits. */
void sgpu_moves_make(struct sgpu_run *run, int segment);

/* ---- module.c: kernels that a batch brings in its segments ---- */
/* Unloads the modules from the devices; no launch may be pending. */
void sgpu_modules_unload(struct sgpu_run *run);
/* Makes sure that the module of an operation, whose inputs must have arrived, is loaded. Errors:
 * why the module cannot or may not be used. */
SGPU_MUST_CHECK int sgpu_modules_ready(struct sgpu_run *run, int operation,
				       struct sgpu_error *error);
/* Enqueues clears of outputs and the function. clears: a zeroed task for each argument. */
SGPU_MUST_CHECK int sgpu_module_start(struct sgpu_run *run, int operation,
				      const struct sgpu_op_call *call, struct sgpu_stream *stream,
				      struct sgpu_task *clears, struct sgpu_task *task,
				      struct sgpu_error *error);
/* Stores the outcome of a launch in *task. */
void sgpu_module_end(struct sgpu_run *run, int operation, const struct sgpu_task *clears,
		     struct sgpu_task *task);
/* Whether any run's module broke the rules on this run's devices. False if this run has none. */
bool sgpu_modules_broke_rules(const struct sgpu_run *run);

/* ---- outputs.c: results on their way from the device ---- */
/* Enqueues small outputs of an operation behind it, to staging memory. */
void sgpu_outputs_follow(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			 struct sgpu_stream *stream);
/* Brings the outputs of an operation that has run to their places, or starts to. failed: it has
 * none. elements: how many it wrote, if only it knows. */
void sgpu_outputs_begin(struct sgpu_run *run, int operation, const struct sgpu_op_call *call,
			bool failed, uint64_t elements);
/* Frees the results' memory. No payload may be under way. */
void sgpu_payloads_clear(struct sgpu_run *run);

/* ---- respond.c ---- */
struct sgpu_moved {
	uint64_t from, to, size;
};
/* Moves payloads within a file. Both before and after, they are in order and do not overlap. */
SGPU_MUST_CHECK int sgpu_place_move(int fd, const char *name, const struct sgpu_moved *list,
				    int count, struct sgpu_error *error);
/* Plans where each result will lie in the response's file if all succeed; sgpu_respond moves them
 * if one fails. Gives them no place there if that cannot be known or would not pay. */
SGPU_MUST_CHECK int sgpu_respond_plan(struct sgpu_run *run, struct sgpu_error *error);
/* Reserves space for the response in a file of its own, if the file system can: a recorded batch
 * runs only once, and should not find the disk full. Errors: SGPU_ENOSPACE. */
SGPU_MUST_CHECK int sgpu_respond_reserve(struct sgpu_run *run, struct sgpu_error *error);
/* Returns 0; SGPU_ESEGMENTS if an output failed, or an input that nothing reads; or why there is no
 * response. */
SGPU_MUST_CHECK int sgpu_respond(struct sgpu_run *run, struct sgpu_error *error);
/* Truncates the response's file at its position if it may be longer by what this run did. */
SGPU_MUST_CHECK int sgpu_respond_cut(const struct sgpu_run *run, struct sgpu_error *error);

#endif
