/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: a submission queue and a completion queue in sealed shared memory, between a client
 * process and a worker process that do not trust each other. While both are awake, no function here
 * makes a system call. Only sgpu_ring_await blocks.
 *
 * Every word that the other side can write is read once, into a copy that is checked. If a side
 * breaks the protocol, every later call of the other side returns SGPU_EINVALID with the same text;
 * the ring can only be closed. sgpu-ring(5) has the memory's layout.
 */
#ifndef SGPU_RING_RING_H
#define SGPU_RING_RING_H

#include <sgpu/ring.h>

/* ---- entries ---- */

/* Opcodes of the worker's service start here. */
enum { SGPU_RING_OPCODE_SERVICE = 16, SGPU_RING_OPCODES = 256 };

/* A submission descriptor: one cache line. */
struct sgpu_ring_descriptor {
	uint32_t opcode;
	uint32_t reserved;
	uint64_t cookie; /* returned in the result; in shared memory: the submission's id */
	uint64_t handle; /* never a pointer */
	uint64_t offset; /* into the object */
	uint64_t length; /* bytes */
	uint64_t reserved2;
	uint64_t argument; /* depends on the opcode */
	uint32_t reserved3;
	uint32_t generation; /* filled in by the ring */
};

/* A completion record as it lies in shared memory. */
struct sgpu_ring_completion {
	uint64_t cookie;
	uint64_t value;
	int32_t status; /* 0 or a code of sgpu/error.h */
	uint32_t flags; /* 0 */
	uint32_t reserved;
	uint32_t generation;
};

enum {
	SGPU_RING_DESCRIPTOR_SIZE = 64,
	SGPU_RING_COMPLETION_SIZE = 32,
	SGPU_RING_ENTRIES_MIN = 2,
	SGPU_RING_SUBMISSIONS_MAX = 4096,
	SGPU_RING_COMPLETIONS_MAX = 8192,
};

/* ---- memory ---- */

/* Makes the memory of a ring: a sealed memory file. Both counts are powers of two. completions: the
 * most operations submitted and not yet reaped; at least submissions. Errors: SGPU_EUSAGE,
 * SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_memory_create(uint32_t submissions, uint32_t completions, int *fd,
					    struct sgpu_error *error);

/* ---- both sides: each is used by one thread at a time ---- */
struct sgpu_ring;

/* Which members of a descriptor an opcode uses; the others must be 0. */
enum sgpu_ring_member {
	SGPU_RING_HANDLE = 1,
	SGPU_RING_OFFSET = 2,
	SGPU_RING_LENGTH = 4,
	SGPU_RING_ARGUMENT = 16,
	SGPU_RING_KNOWN = 128, /* in every set of an opcode that the worker has */
};

struct sgpu_ring_config {
	/* A borrowed end of a pair of Unix stream sockets: a side sleeps until the other end wakes
	 * it or is closed. -1: the sides are threads of one process and sleep on a futex. */
	int doorbell;
	/* How long a waiting side spins before it sleeps. 0: the time adapts, from 1 us to 200 us;
	 * no spinning if both sides share one processor. */
	uint64_t spin_ns;
	/* NULL: the client's side. Else the worker's: for each of SGPU_RING_OPCODES a set of enum
	 * sgpu_ring_member; 0: a fault. Borrowed. */
	const uint8_t *members;
};

/* Checks the type, seals, size and header of `fd`, which the other side may have made, and maps it.
 * The caller keeps the descriptor. Errors: SGPU_EINVALID, SGPU_EPOLICY (not sealed), SGPU_ENOMEM,
 * SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_open(int fd, const struct sgpu_ring_config *config,
				   struct sgpu_ring **ring, struct sgpu_error *error);
/* Accepts a pointer to NULL. */
void sgpu_ring_close(struct sgpu_ring **ring);
/* Waits for an entry of the other side. deadline_ns: a time of sgpu_now_ns(); 0: none. Errors:
 * SGPU_ETIMEOUT; SGPU_ESYSTEM if the other side has closed its end. */
SGPU_MUST_CHECK int sgpu_ring_await(struct sgpu_ring *ring, uint64_t deadline_ns,
				    struct sgpu_error *error);

/* ---- the client's side ---- */
/* A completion as the client's program gets it. */
struct sgpu_ring_result {
	uint64_t cookie; /* of the submission */
	int status;	 /* 0 or a code */
	uint64_t value;
};

/* Never waits. SGPU_ERETRY without a text: nothing was submitted, because the queue is full or too
 * many operations are not reaped. Other errors: SGPU_EUSAGE (a bad descriptor), SGPU_EINVALID (a
 * fault of the other side). */
SGPU_MUST_CHECK int sgpu_ring_submit(struct sgpu_ring *ring,
				     const struct sgpu_ring_descriptor *descriptor,
				     struct sgpu_error *error);
/* Takes up to `room` completions; never waits. A completion that answers no submission is a fault,
 * so the caller may use pointers as cookies. */
SGPU_MUST_CHECK int sgpu_ring_reap(struct sgpu_ring *ring, struct sgpu_ring_result *results,
				   size_t room, size_t *count, struct sgpu_error *error);
/* ---- the worker's side ---- */
/* Takes one submission, as a checked copy, and starts its operation. SGPU_ERETRY without a text:
 * there is none. */
SGPU_MUST_CHECK int sgpu_ring_next(struct sgpu_ring *ring, struct sgpu_ring_descriptor *descriptor,
				   struct sgpu_error *error);
/* Finishes the operation that was started last. Never waits: a completion always has room (ring.c).
 * status: 0 or a code. Errors: SGPU_EUSAGE if none was started. */
SGPU_MUST_CHECK int sgpu_ring_finish(struct sgpu_ring *ring, int status, uint64_t value,
				     struct sgpu_error *error);

#endif
