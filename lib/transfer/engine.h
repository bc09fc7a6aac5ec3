/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfer engine: what its files share.
 */
#ifndef SGPU_TRANSFER_ENGINE_H
#define SGPU_TRANSFER_ENGINE_H

#include <pthread.h>

#include <device/backend.h>

#include "host/host.h"
#include "transfer/transfer.h"

/* ---- chunk runs ---- */
struct sgpu_run_plan {
	uint64_t total;		   /* chunks */
	uint64_t largest;	   /* chunks of a full run */
	uint64_t at_begin, at_end; /* chunks of the smallest run at each end; 0: none smaller */
	uint64_t rest;		   /* fewer chunks join the run before them */
};
struct sgpu_chunk_run {
	uint64_t first, count; /* chunks, from the start of the transfer */
};
/* The run that starts at chunk `first`. If the total is 0, the run is empty. */
struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first);
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t last);

/* ---- staging buffers ---- */
/* Memory for a sealed chunk run, on the host, the device or both; each allocated at first use. */
struct sgpu_staging_buffer {
	struct sgpu_staging_buffer *next;
	enum sgpu_staging_class class;
	void *host;
	bool lent;   /* host memory is from sgpu_host_alloc, else from aligned_alloc */
	bool filled; /* by a pipe, which may take for ever */
	sgpu_devptr device;
};
struct sgpu_staging_pool {
	struct sgpu_staging_buffer *free;
	uint64_t size; /* of one buffer */
	unsigned made, limit;
	unsigned filled; /* buffers that pipes fill now: as many more may be made */
	uint64_t earned; /* bytes of buffers that the transfers so far allow */
};

/* ---- sources.c ---- */
struct sgpu_kept_slice;
void sgpu_kept_free(struct sgpu_engine *engine);

/* ---- the engine ---- */
struct sgpu_engine {
	struct sgpu_device *device;
	struct sgpu_engine_config config; /* with defaults for zeros */
	bool pins;			  /* the device reaches staging buffers by itself */
	bool registers;			  /* the device registers host memory */
	struct sgpu_pool *pool;		  /* workers that help to copy: the device's, or its own */
	bool owns_pool;

	pthread_mutex_t mutex; /* guards the members down to `keeping` */
	struct sgpu_staging_pool staging[SGPU_STAGING_CLASSES];
	struct sgpu_transfer *waiting; /* transfers that lack a buffer */

	pthread_mutex_t keeping; /* guards the rest: slices that stay registered */
	struct sgpu_kept_slice *kept;
	uint64_t kept_bytes;
	unsigned kept_count;
};

/* Takes a buffer for the transfer. Gives NULL if none is free, or a transfer of a lower rank waits
 * as well; the transfer then tries again. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_staging_await(struct sgpu_transfer *transfer,
				       enum sgpu_staging_class class,
				       struct sgpu_staging_buffer **buffer,
				       struct sgpu_error *error);
/* What a pipe has filled, or failed to fill, will come back soon. */
void sgpu_staging_filled(struct sgpu_engine *engine, struct sgpu_staging_buffer *buffer);
void sgpu_staging_leave(struct sgpu_transfer *transfer);
/* How many buffers may exist: more as bytes are moved, since pinning one costs more than copying
 * through it. The mutex is held. */
unsigned sgpu_staging_most(const struct sgpu_engine *engine, enum sgpu_staging_class class);
SGPU_MUST_CHECK int sgpu_staging_fill(struct sgpu_engine *engine,
				      struct sgpu_staging_buffer *buffer, bool host, bool device,
				      struct sgpu_error *error);

/* ---- move.c ---- */
enum { SGPU_MOVES_MAX = 4 };

struct sgpu_chunk_move {
	struct sgpu_chunk_run run;
	bool is_digest;
	bool reached;			    /* kernels open or seal it in the host's memory */
	uint64_t plain, bytes;		    /* sizes as plaintext and as moved */
	struct sgpu_staging_buffer *buffer; /* or NULL */
	struct sgpu_event *middle; /* after its first step, if that has a stream of its own */
	struct sgpu_event *ended;  /* after its work */
	struct sgpu_task copy, crypt;
};

struct sgpu_transfer {
	struct sgpu_engine *engine;
	struct sgpu_transfer_request request;
	struct sgpu_transfer_result result;
	struct sgpu_transfer *next; /* among those that wait for a buffer */
	bool waits;

	struct sgpu_run_plan plan;
	enum sgpu_staging_class class; /* of the staging buffers, or NONE */
	unsigned most_moves;
	uint8_t *memory; /* the endpoint's memory, or NULL */
	bool direct;	 /* the device reaches `memory` itself */
	bool registered;

	uint64_t claimed; /* chunks for which moves were made */
	bool claimed_all;
	bool needs_digest;
	bool touched;
	bool failed, stopped, ended;
	bool reading;
	uint64_t failed_at; /* the lowest bad chunk */
	uint64_t consumed;  /* bytes read of an ordered source */
	bool source_failed; /* an ordered source: nothing can be read from it any more */
	/* Moves under way: number n is at n % SGPU_MOVES_MAX. They end in order. */
	uint64_t begun, over;
	struct sgpu_chunk_move moves[SGPU_MOVES_MAX];
};

static inline bool sgpu_transfer_is_in(const struct sgpu_transfer *transfer)
{
	return transfer->request.direction == SGPU_TRANSFER_IN;
}

/* As moved: the size of a chunk, and that of the whole transfer. */
static inline uint64_t sgpu_transfer_chunk(const struct sgpu_transfer *transfer)
{
	return transfer->request.key ? SGPU_SEALED_CHUNK : SGPU_CHUNK;
}

static inline uint64_t sgpu_transfer_bytes(const struct sgpu_transfer *transfer)
{
	const bool seals = transfer->request.key && !sgpu_transfer_is_in(transfer);

	return transfer->request.size + (seals ? transfer->plan.total * SGPU_TAG_SIZE : 0);
}

/* Tells of a step, unless it never ran (begin_ns is 0). */
void sgpu_transfer_note(struct sgpu_transfer *transfer, enum sgpu_transfer_step step,
			uint64_t begin_ns, uint64_t end_ns, uint64_t bytes);

/* ---- store.c ---- */
void sgpu_transfer_store(void *to, const void *from, size_t size);

#endif
