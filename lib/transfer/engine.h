/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine: what its files share.
 *
 * One mutex guards the engine, its transfers and its staging buffers. While it is held, no function
 * of the device, a source or a sink is called. A transfer that may have work is in the engine's
 * queue `ready`. The thread that takes it from there (a worker, or the one that waits for it) puts
 * it at the end again and does one step for it.
 */
#ifndef SGPU_TRANSFER_ENGINE_H
#define SGPU_TRANSFER_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <device/backend.h>

#include "transfer/transfer.h"

/* ---- workers.c: the worker threads of an engine ---- */
struct sgpu_workers;

/* A source of work for the workers, from sgpu_workers_add to sgpu_workers_remove. */
struct sgpu_worker_job {
	/* Does one piece of work on worker `thread`; returns false if there was none, or if more
	 * will not come soon. Several workers call it at the same time. */
	bool (*step)(void *argument, unsigned thread);
	void *argument;
	/* private to workers.c */
	struct sgpu_worker_job *next;
	unsigned inside;
	bool removed;
};

/* No thread starts before the first job is added. spin_ns: the longest time that a worker looks for
 * work before it sleeps. */
SGPU_MUST_CHECK int sgpu_workers_create(unsigned count, uint64_t spin_ns,
					struct sgpu_workers **workers, struct sgpu_error *error);
/* All jobs must have been removed. Accepts NULL. */
void sgpu_workers_free(struct sgpu_workers **workers);
unsigned sgpu_workers_count(const struct sgpu_workers *workers);

/* Starts the threads if need be. If none can be started, returns SGPU_ESYSTEM and does not add the
 * job. */
SGPU_MUST_CHECK int sgpu_workers_add(struct sgpu_workers *workers, struct sgpu_worker_job *job,
				     struct sgpu_error *error);
/* Returns when no worker is in the job's step, and none will enter it. */
void sgpu_workers_remove(struct sgpu_workers *workers, struct sgpu_worker_job *job);
/* Calls for `count` more workers. Calls no function of a device, and is cheap if enough are
 * awake. */
void sgpu_workers_wake(struct sgpu_workers *workers, unsigned count);

/* ---- prepare.c: chunk runs ---- */
struct sgpu_run_plan {
	uint64_t total;		   /* chunks */
	uint64_t largest;	   /* chunks of a full run */
	uint64_t at_begin, at_end; /* chunks of the smallest run at each end; 0: none smaller */
};
struct sgpu_chunk_run {
	uint64_t first, count; /* chunks, from the start of the transfer */
};
/* The run that starts at chunk `first`. If the total is 0, the run is empty. */
struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first);
/* The most chunks of a run in a plan with these sizes. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t smallest);

struct sgpu_transfer_queue {
	struct sgpu_transfer *head, *tail;
};

/* ---- staging.c ---- */
enum sgpu_staging_class {
	SGPU_STAGING_SMALL,  /* a whole transfer of SGPU_TRANSFER_SMALL bytes */
	SGPU_STAGING_LARGE,  /* a chunk run that is read, or written, by processors */
	SGPU_STAGING_DIRECT, /* a chunk run that only the device touches: device memory alone */
	SGPU_STAGING_CLASSES,
	SGPU_STAGING_NONE = SGPU_STAGING_CLASSES
};
/* Memory for one sealed chunk run: on the host, on the device or both, each allocated when it is
 * first needed. */
struct sgpu_staging_buffer {
	struct sgpu_staging_buffer *next;
	enum sgpu_staging_class class;
	void *host;
	bool lent; /* host memory is from sgpu_host_alloc, else from aligned_alloc */
	sgpu_devptr device;
};
struct sgpu_staging_pool {
	struct sgpu_staging_buffer *free;
	uint64_t size; /* bytes of one buffer */
	unsigned made, limit;
	unsigned extra;			    /* buffers above the limit, for ordered transfers */
	uint64_t earned;		    /* bytes of buffers that the transfers so far allow */
	struct sgpu_transfer_queue starved; /* transfers that wait for a buffer */
};
/* The mutex is held for both. sgpu_staging_take gives NULL if no buffer is free and `most` exist.
 * sgpu_staging_give hands the buffer to the first waiting transfer, unless a live copy waits.
 * Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_staging_take(struct sgpu_engine *engine, enum sgpu_staging_class class,
				      unsigned most, struct sgpu_staging_buffer **buffer);
void sgpu_staging_give(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer);
/* How many buffers may exist. Pinning one costs more than copying through it, so the number grows
 * with the bytes moved. The mutex is held. */
unsigned sgpu_staging_most(const struct sgpu_engine *engine, enum sgpu_staging_class class);
/* Hands buffers that are free, or may be made, to waiting transfers. The mutex is held. */
void sgpu_staging_share(struct sgpu_engine *engine, enum sgpu_staging_class class);
/* Allocates the buffer's missing memory. The mutex is not held. */
SGPU_MUST_CHECK int sgpu_staging_fill(struct sgpu_engine *engine,
				      struct sgpu_staging_buffer *buffer, bool host, bool device,
				      struct sgpu_error *error);
void sgpu_staging_free(struct sgpu_engine *engine);

/* ---- sources.c ---- */
struct sgpu_kept_slice;
void sgpu_kept_free(struct sgpu_engine *engine);

/* ---- the engine ---- */
/* The first SGPU_ENGINE_ROWS streams are the rows of a trace. A GPU opens or seals a chunk run
 * about as fast as the bus moves it, so every other transfer uses a second stream for that, beside
 * the first. */
enum sgpu_engine_stream {
	SGPU_ENGINE_COPY_IN,
	SGPU_ENGINE_OPEN,
	SGPU_ENGINE_SEAL,
	SGPU_ENGINE_COPY_OUT,
	SGPU_ENGINE_OPEN_SECOND,
	SGPU_ENGINE_SEAL_SECOND,
	/* Small transfers use the streams from here on in turn: a GPU takes longer to make a key's
	 * tables than to open a small segment, and is mostly idle meanwhile, so several transfers
	 * do this at the same time. */
	SGPU_ENGINE_SMALL,
	SGPU_ENGINE_STREAMS = SGPU_ENGINE_SMALL + 8
};

struct sgpu_engine {
	struct sgpu_device *device;
	struct sgpu_engine_config config; /* with defaults for zeros */
	bool pins;			  /* the device reaches staging buffers by itself */
	atomic_bool registers;		  /* false once the device has refused to register */
	bool demotes;			  /* workers demote sealed data */
	struct sgpu_workers *workers;
	struct sgpu_worker_job job;
	bool started;		/* the job was added; under `making` */
	pthread_mutex_t making; /* held while streams and threads are made */
	struct sgpu_stream *_Atomic streams[SGPU_ENGINE_STREAMS];
	bool spreads; /* small transfers use streams of their own */
	atomic_uint next_small, next_large;

	pthread_mutex_t mutex;	/* guards the members down to live_lock */
	pthread_cond_t changed; /* wakes threads that wait for a buffer, a run or an end */
	struct sgpu_transfer_queue ready;
	struct sgpu_staging_pool staging[SGPU_STAGING_CLASSES];
	unsigned waiting_live; /* live copies that wait for a buffer */
	unsigned open;	       /* transfers whose end is not reported yet */

	pthread_mutex_t live_lock; /* held during a live copy */

	pthread_mutex_t keeping; /* guards the rest: slices that stay registered */
	struct sgpu_kept_slice *kept;
	uint64_t kept_bytes;
	unsigned kept_count;
};

/* Returns the stream, which the first call makes. */
SGPU_MUST_CHECK int sgpu_engine_get_stream(struct sgpu_engine *engine,
					   enum sgpu_engine_stream which,
					   struct sgpu_stream **stream, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_engine_start_workers(struct sgpu_engine *engine, struct sgpu_error *error);
/* Makes `to` wait for all work that `from` has so far. */
SGPU_MUST_CHECK int sgpu_engine_follow(struct sgpu_engine *engine, struct sgpu_stream *from,
				       struct sgpu_stream *to, struct sgpu_error *error);
/* Enqueues one piece of work, with an error text. */
SGPU_MUST_CHECK int sgpu_engine_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
					struct sgpu_task *task, struct sgpu_error *error);

/* ---- transfers ---- */
enum sgpu_transfer_phase {
	SGPU_PHASE_NEW, /* not prepared yet */
	SGPU_PHASE_PREPARING,
	SGPU_PHASE_MOVING,
	SGPU_PHASE_ENDING,
	SGPU_PHASE_ENDED
};

/* A chunk run on its way, or the digest of the whole segment. */
struct sgpu_chunk_move {
	struct sgpu_chunk_move *next;
	struct sgpu_transfer *transfer;
	struct sgpu_chunk_run run;
	bool is_digest; /* `crypt` is the digest's task */
	int copy_row;
	uint64_t plain, bytes;		    /* sizes as plaintext and as moved */
	struct sgpu_staging_buffer *buffer; /* or NULL */
	atomic_int ends; /* callbacks still to come, plus one until all is enqueued */
	struct sgpu_task copy, crypt;
};

struct sgpu_transfer {
	struct sgpu_engine *engine;
	struct sgpu_transfer_request request;
	struct sgpu_transfer_result result;
	atomic_int references;
	int small_stream; /* the stream for all its work, or 0 */
	bool second;	  /* opens or seals on the second stream */

	/* set by prepare, then constant */
	struct sgpu_run_plan plan;
	enum sgpu_staging_class class; /* of the staging buffers, or NONE */
	unsigned most_moves;
	uint64_t earns;	 /* bytes of staging memory that this transfer allows to be made */
	unsigned extra;	 /* buffers that an ordered transfer may hold while it is not pumped */
	uint8_t *memory; /* the source's or sink's memory, or NULL */
	bool direct;	 /* the device reaches `memory` itself */
	bool registered;

	/* the rest is under the engine's mutex */
	enum sgpu_transfer_phase phase;
	struct sgpu_transfer *next, *before;
	struct sgpu_transfer_queue *queue; /* that it is in, or NULL */
	struct sgpu_staging_buffer *granted;
	bool claimed_all;
	uint64_t claimed; /* chunks for which moves exist */
	unsigned moves;	  /* under way */
	bool touched;	  /* device memory was written */
	bool needs_digest;
	bool failed;
	uint64_t failed_at; /* the lowest bad chunk; moves after it are moot */
	bool cancelled;
	bool pumping;
	struct sgpu_chunk_move *arrived; /* runs in staging buffers, to be written */
	/* used only by the thread that pumps */
	uint64_t consumed; /* in: bytes read; out: chunks written */
};

static inline bool sgpu_transfer_is_in(const struct sgpu_transfer *transfer)
{
	return transfer->request.direction == SGPU_TRANSFER_IN;
}

static inline bool sgpu_transfer_is_ordered(const struct sgpu_transfer *transfer)
{
	return sgpu_transfer_is_in(transfer) ? transfer->request.source.ordered
					     : transfer->request.sink.ordered;
}

/* The stream, and row of a trace, that opens or seals. */
static inline enum sgpu_engine_stream sgpu_transfer_crypt_row(const struct sgpu_transfer *transfer)
{
	return sgpu_transfer_is_in(transfer) ? SGPU_ENGINE_OPEN : SGPU_ENGINE_SEAL;
}

/* Whether a move is the whole transfer, or the transfer's end. */
static inline bool sgpu_chunk_move_is_single(const struct sgpu_chunk_move *move)
{
	return move->run.count == move->transfer->plan.total;
}

static inline bool sgpu_chunk_move_is_last(const struct sgpu_chunk_move *move)
{
	return move->run.first + move->run.count == move->transfer->plan.total;
}

/* As moved: the size of the whole transfer, and the position of a chunk. */
static inline uint64_t sgpu_transfer_bytes(const struct sgpu_transfer *transfer)
{
	bool seals = transfer->request.key && !sgpu_transfer_is_in(transfer);

	return transfer->request.size + (seals ? transfer->plan.total * SGPU_TAG_SIZE : 0);
}

static inline uint64_t sgpu_transfer_position(const struct sgpu_transfer *transfer, uint64_t chunk)
{
	return chunk * (transfer->request.key ? SGPU_SEALED_CHUNK : SGPU_CHUNK);
}

/* What can be done next for the transfer; the mutex is held. */
static inline bool sgpu_transfer_may_claim(const struct sgpu_transfer *transfer)
{
	return !transfer->claimed_all && !transfer->failed &&
	       transfer->moves < transfer->most_moves &&
	       !(sgpu_transfer_is_in(transfer) && transfer->request.source.ordered);
}

static inline bool sgpu_transfer_may_write(const struct sgpu_transfer *transfer)
{
	return transfer->arrived &&
	       (!transfer->request.sink.ordered || (transfer->failed && !transfer->pumping));
}

/* The digest of an output is computed during the moves, that of an input after them. */
static inline bool sgpu_transfer_may_digest_beside(const struct sgpu_transfer *transfer)
{
	return transfer->needs_digest && !sgpu_transfer_is_in(transfer) && !transfer->failed;
}

static inline bool sgpu_transfer_is_over(const struct sgpu_transfer *transfer)
{
	return (transfer->claimed_all || transfer->failed) && transfer->moves == 0 &&
	       !transfer->pumping;
}

/* The transfer's stream for the work of stream `which`. */
SGPU_MUST_CHECK int sgpu_transfer_get_stream(const struct sgpu_transfer *transfer,
					     enum sgpu_engine_stream which,
					     struct sgpu_stream **stream, struct sgpu_error *error);

/* ---- turns.c: queues; the mutex is held ---- */
/* Queues a transfer that has work, after others of its rank, and wakes waiting threads. */
void sgpu_transfer_post(struct sgpu_transfer *transfer);
/* Queues a transfer after all of its rank and of lower ranks. */
void sgpu_transfer_append(struct sgpu_transfer *transfer, struct sgpu_transfer_queue *queue);
void sgpu_transfer_unqueue(struct sgpu_transfer *transfer);

/* ---- prepare.c ---- */
/* Called once, first: finds the bytes to move, their memory, and their chunk runs. The mutex is not
 * held. */
SGPU_MUST_CHECK int sgpu_transfer_prepare(struct sgpu_transfer *transfer, struct sgpu_error *error);

/* ---- move.c: how a transfer ends ---- */
/* Records a failure at chunk `at`; that of the lowest chunk counts. The mutex is held. */
void sgpu_transfer_failed(struct sgpu_transfer *transfer, uint64_t at, int code,
			  const struct sgpu_error *error);
/* Called last: clears a failed transfer's destination, closes the source or sink, and reports. The
 * mutex is not held. */
void sgpu_transfer_end(struct sgpu_transfer *transfer);
void sgpu_transfer_tell(struct sgpu_transfer *transfer);
void sgpu_transfer_unref(struct sgpu_transfer *transfer);

/* ---- turns.c: which thread does what next ---- */
bool sgpu_engine_work(void *engine, unsigned thread); /* the step of the workers */
/* Prepares the transfer, and does at most `count` moves. */
void sgpu_transfer_begin(struct sgpu_transfer *transfer, unsigned count);

/* ---- move.c: one chunk run ---- */
/* Makes the next move; returns NULL if memory ran out, which fails the transfer. The mutex is held
 * for both. */
struct sgpu_chunk_move *sgpu_chunk_move_claim(struct sgpu_transfer *transfer,
					      struct sgpu_staging_buffer *buffer);
struct sgpu_chunk_move *sgpu_chunk_move_of_digest(struct sgpu_transfer *transfer);
/* Whether the move is not needed any more. */
bool sgpu_chunk_move_is_moot(const struct sgpu_chunk_move *move);
/* Ends a move that was not enqueued, or whose run was written, with an error or SGPU_OK. */
void sgpu_chunk_move_drop(struct sgpu_chunk_move *move, int code, const struct sgpu_error *error);
/* Ends a move, or queues it to be written, when its streams (NULL: none) have done their part.
 * `code`: SGPU_OK, or the error that ended enqueuing half way, which fails the transfer. */
void sgpu_chunk_move_hear(struct sgpu_chunk_move *move, struct sgpu_stream *first,
			  struct sgpu_stream *second, int code, const struct sgpu_error *error);
void sgpu_transfer_span(struct sgpu_transfer *transfer, enum sgpu_transfer_step step, int row,
			uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);

/* ---- steps.c: the mutex is not held ---- */
/* Reads a run on its way in, and enqueues it. On its way out, a run in a staging buffer is written
 * once it has arrived there. Returns only errors of the source; they also fail the transfer. */
int sgpu_chunk_move_start(struct sgpu_chunk_move *move, struct sgpu_error *error);
int sgpu_chunk_move_write(struct sgpu_chunk_move *move, struct sgpu_error *error);
void sgpu_chunk_move_digest(struct sgpu_chunk_move *move);

/* ---- store.c ---- */
/* memcpy that bypasses the caches if the processor can. */
void sgpu_transfer_store(void *to, const void *from, size_t size);
/* Moves memory that this core has written to the cache that all cores share, since the bus reads a
 * core's own cache at little more than half speed. Moves only most of it, to save time. Does
 * nothing if the processor cannot. */
void sgpu_transfer_demote(const void *memory, size_t size);
bool sgpu_transfer_can_demote(void);

#endif
