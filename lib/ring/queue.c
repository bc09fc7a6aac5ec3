/* SPDX-License-Identifier: Apache-2.0
 *
 * tests/model/ring.pml is this file's protocol for spin, which finds a fault if any memory order
 * named here is left out.
 */
#include "ring/private.h"

static uint32_t generation_of(const struct sgpu_queue *queue, uint64_t position)
{
	return (uint32_t)(position >> queue->shift) + 1;
}

static _Atomic uint64_t *place_of(const struct sgpu_queue *queue, uint64_t position)
{
	return queue->entries + (size_t)(position & (queue->count - 1)) * queue->words;
}

void sgpu_queue_set(struct sgpu_queue *queue, _Atomic uint64_t *entries, unsigned words,
		    uint32_t count, _Atomic uint64_t *head)
{
	queue->entries = entries;
	queue->head = head;
	queue->count = count;
	queue->shift = (uint32_t)__builtin_ctz(count);
	queue->words = words;
}

/* The consumer's head only grows: an honest head lies between the last one seen and the tail.
 * acquire: the consumer has read an entry before its head counts it, so a new entry may overwrite
 * it. */
static int look_at_head(struct sgpu_producer *producer, struct sgpu_error *error)
{
	const uint64_t head = atomic_load_explicit(producer->queue.head, memory_order_acquire);

	if (head - producer->head_seen > producer->tail - producer->head_seen) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the ring's other side has taken %llu entries of %llu, it says",
				 (unsigned long long)head, (unsigned long long)producer->tail);
	}
	producer->head_seen = head;
	return SGPU_OK;
}

int sgpu_producer_put(struct sgpu_producer *producer, const uint64_t *words,
		      struct sgpu_error *error)
{
	const struct sgpu_queue *queue = &producer->queue;
	const unsigned last = queue->words - 1;
	_Atomic uint64_t *place;
	uint64_t position;
	int rc;

	if (producer->tail - producer->head_seen >= queue->count) {
		rc = look_at_head(producer, error);
		if (rc < 0) {
			return rc;
		}
		/* The place is free once the consumer has taken its entry. */
		if (producer->tail - producer->head_seen >= queue->count) {
			return SGPU_ERETRY;
		}
	}
	position = producer->tail++;
	place = place_of(queue, position);
	for (unsigned i = 0; i < last; i++) {
		atomic_store_explicit(&place[i], words[i], memory_order_relaxed);
	}
	/* The last store is sequentially consistent, which is two orders in one:
	 * - release: the other words come before it, so a consumer that sees the generation sees
	 *   the entry;
	 * - no later load passes it: sgpu_wake looks next whether the consumer sleeps. On x86 the
	 *   store is an XCHG. */
	atomic_store_explicit(&place[last],
			      (uint32_t)words[last] | (uint64_t)generation_of(queue, position)
							      << 32,
			      memory_order_seq_cst);
	return SGPU_OK;
}

int sgpu_producer_pending(struct sgpu_producer *producer, uint64_t *pending,
			  struct sgpu_error *error)
{
	int rc = look_at_head(producer, error);

	*pending = producer->tail - producer->head_seen;
	return rc;
}

int sgpu_consumer_take(struct sgpu_consumer *consumer, uint64_t *words, struct sgpu_error *error)
{
	const struct sgpu_queue *queue = &consumer->queue;
	const uint32_t wanted = generation_of(queue, consumer->position);
	_Atomic uint64_t *place = place_of(queue, consumer->position);
	/* acquire: the other words are read after the generation, which says they are valid. */
	const uint64_t last = atomic_load_explicit(&place[queue->words - 1], memory_order_acquire);

	if ((uint32_t)(last >> 32) != wanted) {
		if ((uint32_t)(last >> 32) == wanted - 1) {
			return SGPU_ERETRY;
		}
		return sgpu_fail(error, SGPU_EINVALID,
				 "an entry of the ring has generation %u, not %u or %u",
				 (uint32_t)(last >> 32), wanted - 1, wanted);
	}
	/* A hostile producer may change the words, so only the copy is checked. */
	for (unsigned i = 0; i + 1 < queue->words; i++) {
		words[i] = atomic_load_explicit(&place[i], memory_order_relaxed);
	}
	words[queue->words - 1] = (uint32_t)last;
	consumer->position++;
	/* release: the copy is complete before the producer may fill the place again. */
	atomic_store_explicit(queue->head, consumer->position, memory_order_release);
	return SGPU_OK;
}

const _Atomic uint32_t *sgpu_consumer_word(const struct sgpu_consumer *consumer, uint32_t *empty)
{
	const struct sgpu_queue *queue = &consumer->queue;

	*empty = generation_of(queue, consumer->position) - 1;
	return (const _Atomic uint32_t *)&place_of(queue, consumer->position)[queue->words - 1] + 1;
}

bool sgpu_consumer_ready(const struct sgpu_consumer *consumer)
{
	const struct sgpu_queue *queue = &consumer->queue;
	const uint64_t last = atomic_load_explicit(
		&place_of(queue, consumer->position)[queue->words - 1], memory_order_seq_cst);

	return (uint32_t)(last >> 32) != generation_of(queue, consumer->position) - 1;
}
