/* SPDX-License-Identifier: Apache-2.0
 *
 * One queue between two sides that do not trust each other: submissions one way, completions the
 * other.
 *
 * Each entry carries a generation: how many times its place has been filled. The place of position
 * p holds an entry if its generation is that of p, and is empty if it is one less; any other value
 * is a fault. So the consumer reads only the entry and no tail. The producer needs the consumer's
 * head, to know which places are free. Each end is used by one thread at a time.
 *
 * Positions count from 0 and have 64 bits: they do not wrap. Generations have 32 bits and may wrap.
 */
#ifndef SGPU_RING_QUEUE_H
#define SGPU_RING_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sgpu/error.h>

struct sgpu_queue {
	_Atomic uint64_t *entries; /* shared */
	_Atomic uint64_t *head;	   /* shared; the consumer writes it */
	uint32_t count;		   /* a power of two */
	uint32_t shift;		   /* log2 of count */
	unsigned words;		   /* of an entry */
};

struct sgpu_producer {
	struct sgpu_queue queue;
	uint64_t tail;	    /* the next position to fill; private to this process */
	uint64_t head_seen; /* the newest head that was read and checked */
};

struct sgpu_consumer {
	struct sgpu_queue queue;
	uint64_t position; /* the next position to take */
};

void sgpu_queue_set(struct sgpu_queue *queue, _Atomic uint64_t *entries, unsigned words,
		    uint32_t count, _Atomic uint64_t *head);

/* Puts one entry, and fills in its generation. Never waits. SGPU_ERETRY without a text: the queue
 * is full. SGPU_EINVALID: the consumer has published an impossible head. */
SGPU_MUST_CHECK int sgpu_producer_put(struct sgpu_producer *producer, const uint64_t *words,
				      struct sgpu_error *error);
/* Counts the entries that the consumer has not taken, by its head. */
SGPU_MUST_CHECK int sgpu_producer_pending(struct sgpu_producer *producer, uint64_t *pending,
					  struct sgpu_error *error);

/* Takes a copy of the next entry, with the generation cleared. SGPU_ERETRY without a text: there is
 * no entry. SGPU_EINVALID: the generation is neither that of a new entry nor that of an empty
 * place. */
SGPU_MUST_CHECK int sgpu_consumer_take(struct sgpu_consumer *consumer, uint64_t *words,
				       struct sgpu_error *error);
/* Returns the word that changes when the next entry is put; *empty: its value until then. */
const _Atomic uint32_t *sgpu_consumer_word(const struct sgpu_consumer *consumer, uint32_t *empty);
/* Whether the next place is not empty. The load is sequentially consistent, so it follows all
 * earlier such stores of this thread. */
bool sgpu_consumer_ready(const struct sgpu_consumer *consumer);

#endif
