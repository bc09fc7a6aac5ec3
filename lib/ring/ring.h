/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: a submission queue and a completion queue in sealed shared memory, between one client
 * process and one worker process that do not trust each other. While both are awake, no function
 * here makes a system call. Only the two named wait block.
 *
 * Every word that the other side can write is read once, into a copy, and the copy is checked. If a
 * side breaks the protocol, every later call of the other side returns SGPU_EINVALID with the same
 * text; all that the other side can do is close the ring. sgpu-ring(5) has the layout of the
 * memory.
 */
#ifndef SGPU_RING_RING_H
#define SGPU_RING_RING_H

#include <sgpu/ring.h>

/* ---- entries ---- */

/* Opcodes of the worker's service start here. */
enum { SGPU_RING_OPCODE_SERVICE = 16, SGPU_RING_OPCODES = 256 };

/* A submission descriptor: one cache line. Members that the opcode does not use are 0. */
struct sgpu_ring_descriptor {
	uint32_t opcode;
	uint32_t reserved;
	uint64_t cookie; /* returned in the result; in shared memory: the submission's id */
	uint64_t handle; /* never a pointer */
	uint64_t offset; /* into the object */
	uint64_t length; /* bytes */
	uint64_t reserved2;
	uint64_t argument; /* its meaning depends on the opcode */
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

/* Makes the memory of a ring: a sealed memory file, for both sides. submissions and completions are
 * powers of two. completions: the most operations that are submitted and not yet reaped; at least
 * submissions. Errors: SGPU_EUSAGE, SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_memory_create(uint32_t submissions, uint32_t completions, int *fd,
					    struct sgpu_error *error);

/* How a side waits: it spins, then sleeps. spin_ns 0: the spinning time adapts, from 1 us to 200
 * us; no spinning if both sides share one processor. */
struct sgpu_ring_wait {
	uint64_t spin_ns;
	bool never_spin;
};

/* ---- the client's side: one thread at a time ---- */
struct sgpu_ring_client;

struct sgpu_ring_client_config {
	/* A borrowed end of a pair of Unix stream sockets: a side sleeps until the other end wakes
	 * it or is closed. -1: the sides are threads of one process and sleep on a futex. */
	int doorbell;
	struct sgpu_ring_wait wait;
};

/* A completion as the client's program gets it. */
struct sgpu_ring_result {
	uint64_t cookie; /* of the submission */
	int status;	 /* 0 or a code */
	uint64_t value;
};

/* Maps the memory of `fd`, which the other side may have made: its type, seals, size and header are
 * checked first. The caller keeps the descriptor. Errors: SGPU_EINVALID, SGPU_EPOLICY (not sealed),
 * SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_client_open(int fd, const struct sgpu_ring_client_config *config,
					  struct sgpu_ring_client **client,
					  struct sgpu_error *error);
/* Accepts a pointer to NULL. */
void sgpu_ring_client_close(struct sgpu_ring_client **client);
/* Submits one operation; never waits. SGPU_ERETRY without a text: nothing was submitted, because
 * the queue is full or too many operations are not reaped. Other errors: SGPU_EUSAGE for a
 * descriptor that the ring refuses, SGPU_EINVALID for a fault of the other side. */
SGPU_MUST_CHECK int sgpu_ring_submit(struct sgpu_ring_client *client,
				     const struct sgpu_ring_descriptor *descriptor,
				     struct sgpu_error *error);
/* Takes up to `room` completions; never waits. A completion that answers no submission is a fault,
 * so the caller may use pointers as cookies. */
SGPU_MUST_CHECK int sgpu_ring_reap(struct sgpu_ring_client *client,
				   struct sgpu_ring_result *results, size_t room, size_t *count,
				   struct sgpu_error *error);
/* Waits for a completion. deadline_ns: a time of sgpu_now_ns(); 0: none. Errors: SGPU_ETIMEOUT;
 * SGPU_ESYSTEM if the worker has closed its end. */
SGPU_MUST_CHECK int sgpu_ring_client_wait(struct sgpu_ring_client *client, uint64_t deadline_ns,
					  struct sgpu_error *error);
/* ---- the worker's side: one thread at a time ---- */
struct sgpu_ring_worker;

/* Which members of a descriptor an opcode uses; the others must be 0. */
enum sgpu_ring_member {
	SGPU_RING_HANDLE = 1,
	SGPU_RING_OFFSET = 2,
	SGPU_RING_LENGTH = 4,
	SGPU_RING_ARGUMENT = 16,
};

struct sgpu_ring_worker_config {
	int doorbell; /* as in the client's configuration */
	/* For each opcode: SGPU_RING_KNOWN and a set of enum sgpu_ring_member; 0: a fault. The
	 * array is copied. */
	uint8_t members[SGPU_RING_OPCODES];
	struct sgpu_ring_wait wait;
};
enum { SGPU_RING_KNOWN = 128 };

struct sgpu_ring_operation {
	uint32_t ticket;			/* names the operation until it is finished */
	struct sgpu_ring_descriptor descriptor; /* a checked copy */
};

SGPU_MUST_CHECK int sgpu_ring_worker_open(int fd, const struct sgpu_ring_worker_config *config,
					  struct sgpu_ring_worker **worker,
					  struct sgpu_error *error);
void sgpu_ring_worker_close(struct sgpu_ring_worker **worker);
/* Takes one submission, to be finished now or later. SGPU_ERETRY without a text: there is none. */
SGPU_MUST_CHECK int sgpu_ring_next(struct sgpu_ring_worker *worker,
				   struct sgpu_ring_operation *operation, struct sgpu_error *error);
/* Finishes an operation; any order is possible. Never waits: a completion always has room, since a
 * client with too many unreaped completions cannot submit. status: 0 or a code. Errors: SGPU_EUSAGE
 * for a ticket that is not in use. */
SGPU_MUST_CHECK int sgpu_ring_finish(struct sgpu_ring_worker *worker, uint32_t ticket, int status,
				     uint64_t value, struct sgpu_error *error);
/* As sgpu_ring_client_wait. */
SGPU_MUST_CHECK int sgpu_ring_worker_wait(struct sgpu_ring_worker *worker, uint64_t deadline_ns,
					  struct sgpu_error *error);

#endif
