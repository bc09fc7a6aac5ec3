/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine: what its files share.
 *
 * One mutex guards the engine, its transfers and its staging buffers; no function of the device is
 * called, and no source or sink, while it is held. A transfer that may have something to do stands
 * in the engine's queue `ready`. Whoever takes it from there (a worker, the thread that starts it)
 * does one thing for it and puts it at the end again.
 */
#ifndef SGPU_TRANSFER_ENGINE_H
#define SGPU_TRANSFER_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include <device/backend.h>

#include "transfer/transfer.h"

/* ---- workers.c: the worker threads of an engine ---- */
struct sgpu_workers;

/* Something that has work for workers, from sgpu_workers_add to sgpu_workers_remove. */
struct sgpu_worker_job {
	/* Does one piece of work, on worker `thread`; false: there was none. Called by several
	 * workers at once. */
	bool (*step)(void *argument, unsigned thread);
	void *argument;
	/* private to workers.c */
	struct sgpu_worker_job *next;
	unsigned inside;
	bool removed;
};

/* No thread starts before the first job is added. spin_ns: how long a worker looks for work before
 * it sleeps, at most. */
SGPU_MUST_CHECK int sgpu_workers_create(unsigned count, uint64_t spin_ns,
					struct sgpu_workers **workers, struct sgpu_error *error);
/* All jobs have been removed. Accepts NULL. */
void sgpu_workers_free(struct sgpu_workers **workers);
unsigned sgpu_workers_count(const struct sgpu_workers *workers);

/* Starts the threads if need be. Where not even one can be started: SGPU_ESYSTEM, and the job is
 * not added. */
SGPU_MUST_CHECK int sgpu_workers_add(struct sgpu_workers *workers, struct sgpu_worker_job *job,
				     struct sgpu_error *error);
/* Returns when no worker is in the job's step, and none will be. */
void sgpu_workers_remove(struct sgpu_workers *workers, struct sgpu_worker_job *job);
/* There is work for `count` workers more. Calls nothing of a device; cheap where enough are awake.
 */
void sgpu_workers_wake(struct sgpu_workers *workers, unsigned count);

/* How long a thread that waits may look before it sleeps, as its workers do. */
uint64_t sgpu_workers_spin(const struct sgpu_workers *workers);
/* Passes a moment of waiting: the *rounds-th one, which starts at 0. */
void sgpu_worker_pause(unsigned *rounds);

/* ---- prepare.c: chunk runs ---- */
struct sgpu_run_plan {
	uint64_t total;		   /* chunks */
	uint64_t largest;	   /* chunks of a run */
	uint64_t at_begin, at_end; /* chunks of the smallest runs there; 0: no small ones */
};
struct sgpu_chunk_run {
	uint64_t first, count; /* chunks, from the begin of the transfer */
};
/* The run that starts at chunk `first`. With total 0: one run of nothing. */
struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first);
/* Most chunks that a run of the plan has. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t smallest);

/* ---- staging.c ---- */
enum sgpu_staging_class {
	SGPU_STAGING_SMALL,  /* a whole transfer of SGPU_TRANSFER_SMALL bytes */
	SGPU_STAGING_LARGE,  /* a chunk run that is read, or written, by processors */
	SGPU_STAGING_DIRECT, /* a chunk run that only the device touches: device memory alone */
	SGPU_STAGING_CLASSES,
	SGPU_STAGING_NONE = SGPU_STAGING_CLASSES
};
/* Memory of one chunk run, sealed, on the host and on the device. Each is made when it is first
 * filled. */
struct sgpu_staging_buffer {
	struct sgpu_staging_buffer *next;
	enum sgpu_staging_class class;
	void *host;
	bool lent; /* host memory is from sgpu_host_alloc, else from aligned_alloc */
	sgpu_devptr device;
};
struct sgpu_staging_pool {
	struct sgpu_staging_buffer *free;
	uint64_t size; /* bytes of one */
	unsigned made, limit;
	unsigned extra;	 /* what ordered transfers may hold above the limit */
	uint64_t earned; /* bytes that may be made for all that went through it so far */
	struct sgpu_transfer *starved_head, *starved_tail;
};
/* Both with the mutex held. Take returns NULL where none is free and `most` are there. Give hands
 * it to the transfer that has waited longest. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_staging_take(struct sgpu_engine *engine, enum sgpu_staging_class class,
				      unsigned most, struct sgpu_staging_buffer **buffer);
void sgpu_staging_give(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer);
/* The most buffers there may be: pinning one costs more than copying through it, so their number
 * grows with the bytes moved. The mutex is held. */
unsigned sgpu_staging_most(const struct sgpu_engine *engine, enum sgpu_staging_class class);
/* Hands buffers that are free, or may be made, to those who wait for one. The mutex is held. */
void sgpu_staging_share(struct sgpu_engine *engine, enum sgpu_staging_class class);
/* The memory that it lacks, without the mutex. */
SGPU_MUST_CHECK int sgpu_staging_fill(struct sgpu_engine *engine,
				      struct sgpu_staging_buffer *buffer, bool host, bool device,
				      struct sgpu_error *error);
void sgpu_staging_free(struct sgpu_engine *engine);

/* ---- sources.c ---- */
struct sgpu_kept_slice;
void sgpu_kept_free(struct sgpu_engine *engine);

/* ---- the engine ---- */
/* The first SGPU_ENGINE_ROWS are the rows of a trace. A GPU opens or seals a chunk run, of whatever
 * length, about as fast as the bus moves it: so every other transfer does it on a second stream,
 * beside the first. */
enum sgpu_engine_stream {
	SGPU_ENGINE_COPY_IN,
	SGPU_ENGINE_OPEN,
	SGPU_ENGINE_SEAL,
	SGPU_ENGINE_COPY_OUT,
	SGPU_ENGINE_OPEN_SECOND,
	SGPU_ENGINE_SEAL_SECOND,
	SGPU_ENGINE_STREAMS
};
/* A small transfer uses one of these, in turn: a GPU takes longer to make a key's tables than to
 * open a small segment, and little of it is busy, so several do so at once. */
enum { SGPU_ENGINE_SMALL_STREAMS = 8, SGPU_ENGINE_NOT_SMALL = -1 };

struct sgpu_transfer_queue {
	struct sgpu_transfer *head, *tail;
};

struct sgpu_engine {
	struct sgpu_device *device;	  /* NULL: none */
	struct sgpu_engine_config config; /* without zeros */
	bool pins;			  /* the device reaches staging buffers by itself */
	atomic_bool registers;		  /* until it refuses */
	bool demotes;			  /* what workers have sealed */
	struct sgpu_workers *workers;
	struct sgpu_worker_job job;
	bool started;		/* the job was added; under `making` */
	pthread_mutex_t making; /* of streams and threads */
	struct sgpu_stream *_Atomic streams[SGPU_ENGINE_STREAMS];
	struct sgpu_stream *_Atomic small_streams[SGPU_ENGINE_SMALL_STREAMS];
	bool spreads; /* small transfers are on small_streams */
	atomic_uint next_small, next_large;

	pthread_mutex_t mutex;	/* all below */
	pthread_cond_t changed; /* for threads that wait: a buffer, an arrived run, an end */
	struct sgpu_transfer *ready_head, *ready_tail;
	struct sgpu_staging_pool staging[SGPU_STAGING_CLASSES];
	unsigned waiting_live;	       /* live copies that have no buffer */
	unsigned open;		       /* transfers whose end was not told */
	struct sgpu_chunk_move *spare; /* moves to be used again */

	pthread_mutex_t live_lock; /* of one live copy */

	pthread_mutex_t keeping; /* the rest: slices that stay registered */
	struct sgpu_kept_slice *kept;
	uint64_t kept_bytes;
	unsigned kept_count;
};

/* The stream, made on first use. */
SGPU_MUST_CHECK int sgpu_engine_get_stream(struct sgpu_engine *engine,
					   enum sgpu_engine_stream which,
					   struct sgpu_stream **stream, struct sgpu_error *error);
/* Starts the workers if they do not run. */
SGPU_MUST_CHECK int sgpu_engine_start_workers(struct sgpu_engine *engine, struct sgpu_error *error);
/* `to` does nothing more before `from` has done what it has so far. */
SGPU_MUST_CHECK int sgpu_engine_follow(struct sgpu_engine *engine, struct sgpu_stream *from,
				       struct sgpu_stream *to, struct sgpu_error *error);
/* sgpu_device_enqueue, with a text for what was refused. */
SGPU_MUST_CHECK int sgpu_engine_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
					struct sgpu_task *task, struct sgpu_error *error);

/* ---- transfers ---- */
enum sgpu_transfer_phase {
	SGPU_PHASE_NEW, /* prepare was not called */
	SGPU_PHASE_PREPARING,
	SGPU_PHASE_MOVING,
	SGPU_PHASE_ENDING,
	SGPU_PHASE_ENDED
};

/* A chunk run on its way, or the digest of the whole. */
struct sgpu_chunk_move {
	struct sgpu_chunk_move *next;
	struct sgpu_transfer *transfer;
	struct sgpu_chunk_run run;
	bool is_digest; /* `crypt` is of the digest */
	int copy_row;
	uint64_t plain, bytes;		    /* plaintext, and as they travel */
	struct sgpu_staging_buffer *buffer; /* or NULL */
	atomic_int ends; /* callbacks that are still to come, and one until all is enqueued */
	struct sgpu_task copy, crypt;
};

struct sgpu_transfer {
	struct sgpu_engine *engine;
	struct sgpu_transfer_request request;
	struct sgpu_transfer_result result;
	atomic_int references;
	atomic_bool ready; /* it may stand in the queue of those that are: looked at without the
			      mutex */
	atomic_bool told;  /* done has returned */
	int small_stream;  /* of small_streams, or SGPU_ENGINE_NOT_SMALL */
	bool second;	   /* opens or seals on the second stream */

	/* set by prepare, then constant */
	struct sgpu_run_plan plan;
	enum sgpu_staging_class class; /* of its buffers, or NONE */
	unsigned most_moves;
	uint64_t earns;	 /* bytes of staging memory that may be made for it */
	unsigned extra;	 /* buffers that an ordered one may hold while its owner lets it wait */
	uint8_t *memory; /* view of the source or sink, or NULL */
	bool direct;	 /* the device reaches the view itself */
	bool registered;

	/* the rest is under the engine's mutex */
	enum sgpu_transfer_phase phase;
	struct sgpu_transfer *next, *before;
	struct sgpu_transfer **queue_head, **queue_tail; /* that it stands in, or NULL */
	struct sgpu_staging_buffer *granted;
	bool claimed_all;
	uint64_t claimed; /* chunks */
	unsigned moves;	  /* under way */
	bool touched;	  /* the device's memory */
	bool needs_digest;
	bool failed;
	uint64_t failed_at; /* chunk; moves behind it are moot */
	bool cancelled;
	bool pumping;
	struct sgpu_chunk_move *arrived; /* in staging buffers, to be written */
	/* of the thread that pumps */
	uint64_t consumed; /* bytes that were read */
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

/* Whether a move is all of its transfer, or the end of it. */
static inline bool sgpu_chunk_move_is_single(const struct sgpu_chunk_move *move)
{
	return move->run.count == move->transfer->plan.total;
}

static inline bool sgpu_chunk_move_is_last(const struct sgpu_chunk_move *move)
{
	return move->run.first + move->run.count == move->transfer->plan.total;
}

/* Bytes as they travel: of the whole, and the position of a chunk. */
static inline uint64_t sgpu_transfer_bytes(const struct sgpu_transfer *transfer)
{
	bool seals = transfer->request.key && !sgpu_transfer_is_in(transfer);

	return transfer->request.size + (seals ? transfer->plan.total * SGPU_TAG_SIZE : 0);
}

static inline uint64_t sgpu_transfer_position(const struct sgpu_transfer *transfer, uint64_t chunk)
{
	return chunk * (transfer->request.key ? SGPU_SEALED_CHUNK : SGPU_CHUNK);
}

/* What may be done for it next; the mutex is held. */
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

/* A digest on the way out is made beside the moves, one on the way in after them. */
static inline bool sgpu_transfer_may_digest_beside(const struct sgpu_transfer *transfer)
{
	return transfer->needs_digest && !sgpu_transfer_is_in(transfer) && !transfer->failed;
}

static inline bool sgpu_transfer_is_over(const struct sgpu_transfer *transfer)
{
	return (transfer->claimed_all || transfer->failed) && transfer->moves == 0 &&
	       !transfer->pumping;
}

/* The stream on which the transfer does that. */
SGPU_MUST_CHECK int sgpu_transfer_get_stream(const struct sgpu_transfer *transfer,
					     enum sgpu_engine_stream which,
					     struct sgpu_stream **stream, struct sgpu_error *error);

/* ---- turns.c: queues; the mutex is held ---- */
/* The transfer is ready, behind others of its rank; wakes waiting threads. */
void sgpu_transfer_post(struct sgpu_transfer *transfer);
/* Behind all of its rank and below. */
void sgpu_transfer_append(struct sgpu_transfer *transfer, struct sgpu_transfer **head,
			  struct sgpu_transfer **tail);
void sgpu_transfer_unqueue(struct sgpu_transfer *transfer);

/* ---- prepare.c ---- */
/* The first call: what is moved, where it lies, and in which chunk runs. Without the mutex. */
SGPU_MUST_CHECK int sgpu_transfer_prepare(struct sgpu_transfer *transfer, struct sgpu_error *error);

/* ---- move.c: how a transfer ends ---- */
/* A failure at chunk `at`; the lowest stands. The mutex is held. */
void sgpu_transfer_failed(struct sgpu_transfer *transfer, uint64_t at, int code,
			  const struct sgpu_error *error);
/* The last calls: clears what a failed transfer left, closes, and tells. Without the mutex. */
void sgpu_transfer_end(struct sgpu_transfer *transfer);
void sgpu_transfer_close_end(const struct sgpu_transfer_request *request); /* its source or sink */
void sgpu_transfer_tell(struct sgpu_transfer *transfer);
void sgpu_transfer_unref(struct sgpu_transfer *transfer);

/* ---- turns.c: who does what next ---- */
bool sgpu_engine_work(void *engine, unsigned thread); /* the step of the workers */
/* Prepares the transfer, and carries out at most `count` moves of it. */
void sgpu_transfer_begin(struct sgpu_transfer *transfer, unsigned count);
/* Does the next step of this transfer, if there is one; called by the thread that waits for it. */
bool sgpu_transfer_help(struct sgpu_transfer *transfer);

/* ---- move.c: one chunk run ---- */
/* The next run; NULL when memory is out, which has failed the transfer. The mutex is held in
 * both. */
struct sgpu_chunk_move *sgpu_chunk_move_claim(struct sgpu_transfer *transfer,
					      struct sgpu_staging_buffer *buffer);
struct sgpu_chunk_move *sgpu_chunk_move_of_digest(struct sgpu_transfer *transfer);
/* Opens or seals the run of a transfer with a key, by way of its buffer. */
struct sgpu_work sgpu_chunk_move_crypt(const struct sgpu_chunk_move *move);
/* Whether it need not be carried out any more. */
bool sgpu_chunk_move_is_moot(const struct sgpu_chunk_move *move);
/* Ends a move that was not enqueued, or that has been written, with a failure or SGPU_OK. */
void sgpu_chunk_move_drop(struct sgpu_chunk_move *move, int code, const struct sgpu_error *error);
/* Ends a move, or queues it to be written, when its streams (NULL: none) have done their part.
 * `code`: SGPU_OK, or why it was not enqueued whole, which fails the transfer at once. */
void sgpu_chunk_move_hear(struct sgpu_chunk_move *move, struct sgpu_stream *first,
			  struct sgpu_stream *second, int code, const struct sgpu_error *error);
void sgpu_transfer_span(struct sgpu_transfer *transfer, enum sgpu_transfer_step step, int row,
			uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);

/* ---- input.c, output.c: without the mutex ---- */
/* Reads a run and enqueues it. Returns the source's own failure, which has failed the transfer as
 * well. */
int sgpu_chunk_move_in(struct sgpu_chunk_move *move, struct sgpu_error *error);
/* Enqueues a run; what goes through a staging buffer is written once it has arrived there. */
void sgpu_chunk_move_out(struct sgpu_chunk_move *move);
int sgpu_chunk_move_write(struct sgpu_chunk_move *move, struct sgpu_error *error);
/* Enqueues the digest of the whole segment. */
void sgpu_chunk_move_digest(struct sgpu_chunk_move *move);

/* ---- live.c, live_copy.c: live copies ---- */
enum { SGPU_LIVE_BUFFERS_MAX = 64 };

struct sgpu_live_key {
	struct sgpu_engine *engine;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *on_device;
	uint64_t next; /* chunks that were sealed */
	unsigned aead_count;
	struct sgpu_aead *aeads[]; /* one a worker, and the caller's */
};

/* A chunk run in a staging buffer, and who works on it. */
struct sgpu_live_buffer {
	/* The run's number, modulo 2^32, above a bit for each of its parts that was taken. In one
	 * word, so that nobody takes a part of a later run by mistake. */
	_Alignas(64) atomic_uint_fast64_t taken;
	_Alignas(64) atomic_uint finished; /* parts */
	atomic_uint parts;
	struct sgpu_chunk_run run;
	struct sgpu_staging_buffer *staging;
	/* of the thread that asked */
	struct sgpu_event
		*middle;	/* end of the first of its two steps: the copy in, or the sealing */
	struct sgpu_event *end; /* end of both */
	struct sgpu_task copy, crypt;
};

struct sgpu_live;
/* Works on chunks [begin, begin + count) of a copy, whose form on the bus is at `sealed`.
 * `scratch` holds a chunk. After an error *bad_chunk is the chunk, from the begin of the copy. */
typedef int sgpu_live_work_fn(struct sgpu_live *live, unsigned thread, uint64_t begin,
			      uint64_t count, uint8_t *sealed, void *scratch, uint64_t *bad_chunk);

struct sgpu_live {
	struct sgpu_engine *engine;
	struct sgpu_live_key *key;
	struct sgpu_run_plan plan;
	sgpu_live_work_fn *work;
	enum sgpu_transfer_stage stage;
	uint64_t base;	    /* number of the copy's first chunk */
	uint8_t *plaintext; /* the host's */
	sgpu_devptr device; /* the device's */
	uint64_t size;	    /* bytes of plaintext */
	uint64_t stride;    /* bytes of a whole chunk as it crosses the bus */
	bool demote;	    /* parts that were worked on */
	unsigned workers;   /* threads that prefer parts of their own */
	unsigned buffer_count;
	struct sgpu_live_buffer buffers[SGPU_LIVE_BUFFERS_MAX];
	_Alignas(64) atomic_uint_fast64_t offered; /* runs that can be worked on */
	_Alignas(64) atomic_bool over;
	atomic_uint there;    /* workers that are awake and have begun */
	pthread_mutex_t lock; /* the failure below */
	int code;
	uint64_t bad_chunk;
	atomic_bool failed;
};

/* Bytes on the bus of `count` chunks from chunk `first` of the copy on, and of their plaintext. */
uint64_t sgpu_live_bytes(const struct sgpu_live *live, uint64_t first, uint64_t count);
uint64_t sgpu_live_plain(const struct sgpu_live *live, uint64_t first, uint64_t count);
/* Gives run number `number` to the workers. */
void sgpu_live_offer(struct sgpu_live *live, uint64_t number, struct sgpu_chunk_run run);
/* Works on one part of what was offered, if there is any. *oldest: the first run that may have
 * one, 0 at first. */
bool sgpu_live_help(struct sgpu_live *live, uint64_t *oldest, unsigned thread, void *scratch);
/* Whether all parts of a run that was offered are done. */
bool sgpu_live_finished(struct sgpu_live *live, uint64_t number);
sgpu_live_work_fn sgpu_live_seal, sgpu_live_open, sgpu_live_stage, sgpu_live_encrypt;

/* ---- store.c ---- */
/* memcpy that leaves the caches to others: past them where the processor can. Fence: once, after
 * the last call. */
void sgpu_transfer_store(void *to, const void *from, size_t size);
void sgpu_transfer_store_fence(void);
/* Moves memory that this core has written to the cache that all share: the bus reads a core's own
 * cache at little more than half its speed. Most of it only, since this takes time, too.
 * No-operation where the processor lacks it. */
void sgpu_transfer_demote(const void *memory, size_t size);
bool sgpu_transfer_can_demote(void);

#endif
