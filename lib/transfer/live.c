/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies, the processors' side: chunk runs lie in staging buffers, and workers take parts of
 * the oldest run that has any left. A worker prefers the same positions in every run, which its own
 * cache may still hold.
 */
#include <crypto/internal.h>
#include "transfer/engine.h"

enum { PARTS = 32 };
#define ALL_PARTS ((uint64_t)UINT32_MAX)

uint64_t sgpu_live_plain(const struct sgpu_live *live, uint64_t first, uint64_t count)
{
	uint64_t from = first * SGPU_CHUNK, bytes = count * SGPU_CHUNK;

	return bytes < live->size - from ? bytes : live->size - from;
}

uint64_t sgpu_live_bytes(const struct sgpu_live *live, uint64_t first, uint64_t count)
{
	return sgpu_live_plain(live, first, count) + count * SGPU_TAG_SIZE;
}

void sgpu_live_offer(struct sgpu_live *live, uint64_t number, struct sgpu_chunk_run run)
{
	struct sgpu_live_buffer *buffer = &live->buffers[number % live->buffer_count];

	unsigned parts = PARTS / live->workers * live->workers;

	parts = parts ? parts : PARTS;
	parts = run.count < parts ? (unsigned)run.count : parts;
	buffer->run = run;
	atomic_store_explicit(&buffer->parts, parts, memory_order_relaxed);
	atomic_store_explicit(&buffer->finished, 0, memory_order_relaxed);
	/* Bits without a part count as taken. */
	atomic_store_explicit(&buffer->taken,
			      number << PARTS | (ALL_PARTS & ~(((uint64_t)1 << parts) - 1)),
			      memory_order_release);
	atomic_store_explicit(&live->offered, number + 1, memory_order_release);
}

bool sgpu_live_finished(struct sgpu_live *live, uint64_t number)
{
	struct sgpu_live_buffer *buffer = &live->buffers[number % live->buffer_count];

	return atomic_load_explicit(&buffer->finished, memory_order_acquire) ==
	       atomic_load_explicit(&buffer->parts, memory_order_relaxed);
}

/* Takes the first free part in the bit mask `which`; -1 if none is free. */
static int take(struct sgpu_live_buffer *buffer, uint64_t number, uint32_t which)
{
	uint_fast64_t taken = atomic_load_explicit(&buffer->taken, memory_order_acquire);

	while (taken >> PARTS == (uint32_t)number) {
		int part = __builtin_ffs((int)(~(uint32_t)taken & which)) - 1;

		if (part < 0) {
			return part;
		}
		if (atomic_compare_exchange_weak_explicit(
			    &buffer->taken, &taken, taken | (uint64_t)1 << part,
			    memory_order_acq_rel, memory_order_acquire)) {
			return part;
		}
	}
	return -1;
}

/* Keeps the lowest chunk that fails, in whatever order the workers find them. */
static void fail(struct sgpu_live *live, int rc, uint64_t bad_chunk)
{
	pthread_mutex_lock(&live->lock);
	if (live->code == SGPU_OK || bad_chunk < live->bad_chunk) {
		live->code = rc;
		live->bad_chunk = bad_chunk;
	}
	pthread_mutex_unlock(&live->lock);
	atomic_store(&live->failed, true);
}

/* Bit mask of the parts of a run that this worker prefers. */
static uint32_t own_parts(const struct sgpu_live *live, const struct sgpu_live_buffer *buffer,
			  unsigned thread)
{
	unsigned parts = atomic_load_explicit(&buffer->parts, memory_order_relaxed);
	unsigned begin = thread * parts / live->workers, end = (thread + 1) * parts / live->workers;

	return (uint32_t)(((uint64_t)1 << end) - ((uint64_t)1 << begin));
}

/* Whether all parts of the run are taken, or the run is over. */
static bool all_taken(struct sgpu_live *live, uint64_t number)
{
	struct sgpu_live_buffer *buffer = &live->buffers[number % live->buffer_count];
	uint64_t taken = atomic_load_explicit(&buffer->taken, memory_order_acquire);

	return taken >> PARTS != (uint32_t)number || (uint32_t)taken == ALL_PARTS;
}

static void work_on(struct sgpu_live *live, struct sgpu_live_buffer *buffer, int part,
		    unsigned thread, void *scratch)
{
	unsigned parts = atomic_load_explicit(&buffer->parts, memory_order_relaxed);
	uint64_t begin = buffer->run.count * (unsigned)part / parts, bad_chunk = 0;
	uint64_t end = buffer->run.count * ((unsigned)part + 1) / parts;
	int rc = live->work(live, thread, buffer->run.first + begin, end - begin,
			    (uint8_t *)buffer->staging->host + begin * SGPU_SEALED_CHUNK, scratch,
			    &bad_chunk);

	if (rc != SGPU_OK) {
		fail(live, rc, bad_chunk);
	}
	if (live->demote) {
		sgpu_transfer_demote((uint8_t *)buffer->staging->host + begin * SGPU_SEALED_CHUNK,
				     (end - begin) * SGPU_SEALED_CHUNK);
	}
	atomic_fetch_add_explicit(&buffer->finished, 1, memory_order_release);
}

bool sgpu_live_help(struct sgpu_live *live, uint64_t *oldest, unsigned thread, void *scratch)
{
	uint64_t offered = atomic_load_explicit(&live->offered, memory_order_acquire);

	while (*oldest < offered && all_taken(live, *oldest)) {
		++*oldest;
	}
	for (uint64_t number = *oldest; number < offered; number++) {
		struct sgpu_live_buffer *buffer = &live->buffers[number % live->buffer_count];
		int part = take(buffer, number, own_parts(live, buffer, thread));

		part = part >= 0 ? part : take(buffer, number, UINT32_MAX);
		if (part >= 0) {
			work_on(live, buffer, part, thread, scratch);
			return true;
		}
	}
	return false;
}

int sgpu_live_seal(struct sgpu_live *live, unsigned thread, uint64_t begin, uint64_t count,
		   uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	bool last = begin + count == live->plan.total;

	(void)scratch;
	*bad_chunk = begin;
	return sgpu_seal_chunks(live->key->aeads[thread], &live->key->keys, live->base + begin,
				last, live->plaintext + begin * SGPU_CHUNK,
				sgpu_live_plain(live, begin, count), sealed);
}

/* Opens each chunk into `scratch`, which stays in the worker's cache, and stores it once it has
 * verified. */
int sgpu_live_open(struct sgpu_live *live, unsigned thread, uint64_t begin, uint64_t count,
		   uint8_t *sealed, void *scratch, uint64_t *bad_chunk)
{
	int rc = SGPU_OK;

	for (uint64_t chunk = begin; rc == SGPU_OK && chunk < begin + count; chunk++) {
		uint64_t size = sgpu_live_plain(live, chunk, 1);

		rc = sgpu_open_chunks(live->key->aeads[thread], &live->key->keys,
				      live->base + chunk, chunk + 1 == live->plan.total, sealed,
				      size + SGPU_TAG_SIZE, scratch, NULL);
		if (rc == SGPU_OK) {
			sgpu_transfer_store(live->plaintext + chunk * SGPU_CHUNK, scratch, size);
		}
		*bad_chunk = chunk;
		sealed += SGPU_SEALED_CHUNK;
	}
	sgpu_transfer_store_fence();
	return rc;
}
