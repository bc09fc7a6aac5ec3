/* SPDX-License-Identifier: Apache-2.0
 *
 * For both sides of a ring: its memory as sgpu-ring(5) lays it out, checks of the contents, and
 * faults of the other side.
 */
#ifndef SGPU_RING_MEMORY_H
#define SGPU_RING_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/queue.h"
#include "ring/ring.h"

/* Entries are read and written as words of 8 bytes. The upper half of the last word is the entry's
 * generation. */
enum {
	SGPU_RING_VERSION = 1,
	SGPU_RING_PAGE = 4096,
	SGPU_DESCRIPTOR_WORDS = 8,
	SGPU_COMPLETION_WORDS = 4,
	SGPU_STATUS_LEAST = -255, /* of a completion */
};
#define SGPU_RING_MAGIC "SGPURING"

/* The words that one side writes. Each has two cache lines of its own, since processors fetch lines
 * in pairs. */
struct sgpu_ring_side {
	/* number of entries that this side has taken from the queue it reads */
	_Alignas(128) _Atomic uint64_t head;
	/* enum sgpu_sleep; the other side clears it when it wakes this side */
	_Alignas(128) _Atomic uint32_t sleeping;
};

struct sgpu_ring_header {
	char magic[8];
	uint32_t version, submissions, completions;
	uint32_t reserved[11];
	_Alignas(256) struct sgpu_ring_side client;
	struct sgpu_ring_side worker;
};

struct sgpu_ring_memory {
	struct sgpu_ring_header *header;
	uint64_t size;
	/* have copies of the header's counts, which are not read again */
	struct sgpu_queue submissions, completions;
};

/* Checks and maps the memory. Errors: as sgpu_ring_open. */
SGPU_MUST_CHECK int sgpu_ring_map(int fd, struct sgpu_ring_memory *memory,
				  struct sgpu_error *error);
/* Accepts memory that is not mapped. */
void sgpu_ring_unmap(struct sgpu_ring_memory *memory);

/* Checks a copy of a descriptor. members: what each opcode uses, as in struct sgpu_ring_config;
 * NULL: not checked. Returns `code` for a bad descriptor. */
SGPU_MUST_CHECK int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor,
				    const uint8_t *members, int code, struct sgpu_error *error);

/* Returns code and text of `fault`, the other side's first breach of the protocol, or SGPU_OK if
 * there was none. */
static inline int sgpu_ring_fault_check(const struct sgpu_error *fault, struct sgpu_error *error)
{
	if (__builtin_expect(fault->code < 0, 0) && error) {
		*error = *fault;
	}
	return fault->code;
}

/* Remembers a breach, and returns its code. */
static inline int sgpu_ring_fault_set(struct sgpu_error *fault, const struct sgpu_error *found,
				      struct sgpu_error *error)
{
	*fault = *found;
	return sgpu_ring_fault_check(fault, error);
}

#endif
