/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a ring share.
 */
#ifndef SGPU_RING_PRIVATE_H
#define SGPU_RING_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/ring.h>

#include "ring/ring.h"

/* ---- queue.c: one queue between two sides that do not trust each other: submissions one way,
 * completions the other ----
 * Each entry carries a generation: how often its place was filled. The place of position p holds an
 * entry if its generation is that of p, and is empty if it is one less; any other value is a fault.
 * So the consumer reads no tail. The producer needs the consumer's head, to know which places are
 * free. Each end is used by one thread at a time. Positions count from 0 and, with 64 bits, do not
 * wrap; generations, with 32, may. */
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
	uint64_t head_seen; /* the newest checked head */
};

struct sgpu_consumer {
	struct sgpu_queue queue;
	uint64_t position; /* the next position to take */
};

void sgpu_queue_set(struct sgpu_queue *queue, _Atomic uint64_t *entries, unsigned words,
		    uint32_t count, _Atomic uint64_t *head);

/* Fills in the entry's generation. Never waits. SGPU_ERETRY without a text: the queue is full.
 * SGPU_EINVALID: the consumer's head is impossible. */
SGPU_MUST_CHECK int sgpu_producer_put(struct sgpu_producer *producer, const uint64_t *words,
				      struct sgpu_error *error);
/* Counts the entries that the consumer has not taken, by its head. */
SGPU_MUST_CHECK int sgpu_producer_pending(struct sgpu_producer *producer, uint64_t *pending,
					  struct sgpu_error *error);

/* Takes a copy of the next entry, with the generation cleared. SGPU_ERETRY without a text: there is
 * no entry. SGPU_EINVALID: the generation is a fault. */
SGPU_MUST_CHECK int sgpu_consumer_take(struct sgpu_consumer *consumer, uint64_t *words,
				       struct sgpu_error *error);
/* Returns the word that changes when the next entry is put; *empty: its value until then. */
const _Atomic uint32_t *sgpu_consumer_word(const struct sgpu_consumer *consumer, uint32_t *empty);
/* Whether the next place is not empty. The load is sequentially consistent, so it follows all
 * earlier such stores of this thread. */
bool sgpu_consumer_ready(const struct sgpu_consumer *consumer);

/* ---- memory.c: the memory as sgpu-ring(5) lays it out, and its checks ---- */
/* Entries are read and written as words of 8 bytes. The last word's upper half is the
 * generation. */
enum {
	SGPU_RING_VERSION = 1,
	SGPU_RING_PAGE = 4096,
	SGPU_DESCRIPTOR_WORDS = 8,
	SGPU_COMPLETION_WORDS = 4,
	SGPU_STATUS_LEAST = -255, /* of a completion */
};
#define SGPU_RING_MAGIC "SGPURING"

/* The words that one side writes, each in two cache lines of its own, since processors fetch lines
 * in pairs. */
struct sgpu_ring_side {
	/* entries that this side has taken from the queue it reads */
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

/* Errors: as sgpu_ring_open. */
SGPU_MUST_CHECK int sgpu_ring_map(int fd, struct sgpu_ring_memory *memory,
				  struct sgpu_error *error);
/* Accepts memory that is not mapped. */
void sgpu_ring_unmap(struct sgpu_ring_memory *memory);

/* Checks a copy of a descriptor. members: as in struct sgpu_ring_config; NULL: not checked. Returns
 * `code` for a bad descriptor. */
SGPU_MUST_CHECK int sgpu_ring_check(const struct sgpu_ring_descriptor *descriptor,
				    const uint8_t *members, int code, struct sgpu_error *error);

/* Returns code and text of `fault`, the other side's first breach of the protocol, or SGPU_OK. */
static inline int sgpu_ring_fault_check(const struct sgpu_error *fault, struct sgpu_error *error)
{
	if (__builtin_expect(fault->code < 0, 0) && error) {
		*error = *fault;
	}
	return fault->code;
}

/* Remembers a breach; returns its code. */
static inline int sgpu_ring_fault_set(struct sgpu_error *fault, const struct sgpu_error *found,
				      struct sgpu_error *error)
{
	*fault = *found;
	return sgpu_ring_fault_check(fault, error);
}

/* ---- wait.c: spins for a time that adapts, then sleeps; wakes the other side, which costs a
 * system call only if it sleeps ---- */
/* How a side sleeps, in its word `sleeping`. */
enum sgpu_sleep { SGPU_AWAKE, SGPU_SLEEPS_ON_FUTEX, SGPU_SLEEPS_ON_DOORBELL };

/* ---- how long to spin ---- */
struct sgpu_spin_time {
	uint64_t ns, least, most;
};

/* spin_ns: as in struct sgpu_ring_config. alone: the other side cannot run while this thread spins,
 * so this thread should not. */
void sgpu_spin_time_set(struct sgpu_spin_time *time, uint64_t spin_ns, bool alone);
/* After a wait of `waited_ns` that ended in sleep, doubles the time if longer spinning would have
 * saved the sleep, otherwise halves it. entry: whether there is an entry now. */
void sgpu_spin_time_adapt(struct sgpu_spin_time *time, uint64_t waited_ns, bool entry);

/* ---- one side of a ring ---- */
struct sgpu_sleeper {
	_Atomic uint32_t *own, *other; /* shared: the words `sleeping` of both sides */
	int doorbell;		       /* or -1 */
	struct sgpu_spin_time time;
};

void sgpu_sleeper_set(struct sgpu_sleeper *sleeper, struct sgpu_ring_side *own,
		      struct sgpu_ring_side *other, int doorbell, uint64_t spin_ns);
/* Errors: as sgpu_ring_await. */
SGPU_MUST_CHECK int sgpu_sleeper_wait(struct sgpu_sleeper *sleeper,
				      const struct sgpu_consumer *consumer, uint64_t deadline_ns,
				      struct sgpu_error *error);

void sgpu_wake_sleeper(struct sgpu_sleeper *sleeper);
/* Called after an entry was put; never waits. This load, the store that published the entry, and
 * both accesses of a side that goes to sleep are sequentially consistent. So this side sees the
 * announced sleep, or the other side sees the entry. */
static inline void sgpu_wake(struct sgpu_sleeper *sleeper)
{
	if (atomic_load_explicit(sleeper->other, memory_order_seq_cst) != SGPU_AWAKE) {
		sgpu_wake_sleeper(sleeper);
	}
}

/* ---- rpc.c: calls ---- */
enum { SGPU_RPC_AREA_SIZE = SGPU_RPC_CALLS_MAX * SGPU_RPC_BYTES_MAX };

/* A call is a descriptor of the ring, also where none is used: the opcode is the operation, handle
 * the file descriptor, offset and length locate the data in the shared area, or from address 0 for
 * a direct call, and argument is poll's timeout in ms. A completion's value is the system call's
 * result, or minus errno. */
struct sgpu_rpc {
	enum sgpu_rpc_way way;
	uint64_t exit_cycles, count;
	int ring, area;	     /* memory files, or -1; the area has a place for each call */
	int inside, outside; /* ends of the doorbell, or -1 */
	char *data;	     /* the area */
	struct sgpu_ring *client;
	struct sgpu_error why; /* why there are no more calls: a fault of the outside */
	/* the thread outside */
	struct sgpu_ring *worker;
	pthread_t thread;
	bool runs;
};

/* As sgpu_rpc_open, but no thread serves the queue. */
SGPU_MUST_CHECK int sgpu_rpc_open_inside(enum sgpu_rpc_way way, uint64_t exit_cycles,
					 struct sgpu_rpc **rpc, struct sgpu_error *error);
/* Starts a thread that serves the ring until the doorbell is shut down. */
SGPU_MUST_CHECK int sgpu_rpc_serve(struct sgpu_rpc *rpc, struct sgpu_error *error);

#endif
