/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies: what their two files share.
 */
#ifndef SGPU_TRANSFER_LIVE_H
#define SGPU_TRANSFER_LIVE_H

#include "transfer/engine.h"

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

#endif
