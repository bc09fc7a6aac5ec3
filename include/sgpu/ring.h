/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: a submission queue and a completion queue in sealed shared memory, between one client
 * process and one worker process that do not trust each other. While both are awake, no call here
 * makes a system call, and none blocks but the two named wait and sgpu_ring_call.
 *
 * Every word that the other side can write is read once, into a copy, and the copy is checked. A
 * side that breaks the protocol faults the ring for the other one: from then on each call returns
 * SGPU_EINVALID with the same text, and the only way on is to close the ring. sgpu-ring(5) has the
 * layout of the memory.
 */
#ifndef SGPU_RING_H
#define SGPU_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- entries ---- */

/* Opcodes below SGPU_RING_OPCODE_SERVICE are the ring's own; the others belong to the service
 * behind the worker. */
enum sgpu_ring_opcode {
	/* Completes. */
	SGPU_RING_NOP = 1,
	/* Runs the descriptors at handle, offset, length; completes after the last of them. */
	SGPU_RING_BATCH = 2,
	/* Completes when everything submitted before it has completed. */
	SGPU_RING_DRAIN = 3,
	/* argument: the id of a submission; completes with how many it found, 0 or 1. */
	SGPU_RING_CANCEL = 4,
	SGPU_RING_OPCODE_SERVICE = 16,
	SGPU_RING_OPCODES = 256,
};

enum sgpu_ring_flag {
	/* This operation starts only when all that were submitted before it have completed, and
	 * those submitted after it do not start before it. */
	SGPU_RING_FENCE = 1,
};

/* A submission descriptor: one cache line. What an opcode does not use is 0. */
struct sgpu_ring_descriptor {
	uint8_t opcode; /* enum sgpu_ring_opcode, or the service's */
	uint8_t flags;	/* enum sgpu_ring_flag */
	uint16_t reserved;
	uint32_t client;   /* 0 in shared memory; the worker's side puts in what it knows */
	uint64_t cookie;   /* comes back in the result; in shared memory: the submission's id */
	uint64_t handle;   /* a region or lease, never a pointer */
	uint64_t offset;   /* bytes, in what the handle names */
	uint64_t length;   /* bytes */
	uint64_t counter;  /* the service's, against replays */
	uint64_t argument; /* the operation's */
	uint32_t reserved2;
	uint32_t generation; /* the ring's */
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
	SGPU_RING_BATCH_MAX = 256, /* descriptors of a batch */
};

/* ---- memory ---- */

/* Makes the memory of a ring: a memory file, sealed against any change of its size. submissions and
 * completions are powers of two; completions, the most operations that may be between submission
 * and reaping, at least submissions. The descriptor goes to the other side over a Unix socket.
 * Errors: SGPU_EUSAGE, SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_memory_create(uint32_t submissions, uint32_t completions, int *fd,
					    struct sgpu_error *error);

/* How a side stores a descriptor of 64 bytes. */
enum sgpu_ring_store {
	SGPU_RING_STORE_AUTO,	/* what is fastest between processors: by words */
	SGPU_RING_STORE_WORDS,	/* eight stores of 8 bytes */
	SGPU_RING_STORE_VECTOR, /* one store of 64 bytes (AVX-512), then the generation */
	SGPU_RING_STORE_DIRECT, /* MOVDIR64B: past the caches, for who reads from memory */
};
/* Whether this CPU has what a store needs. */
bool sgpu_ring_store_available(enum sgpu_ring_store store);

/* How a side waits: it spins, for a time between least and most that adapts to what happens, then
 * sleeps. 0 stands for the standard: 1 us and 200 us, or no spinning at all where there is only one
 * processor for both sides. */
struct sgpu_ring_wait {
	uint64_t spin_least_ns, spin_most_ns;
	bool never_spin;
};

/* ---- the client's side ---- */
struct sgpu_ring_client;

struct sgpu_ring_client_config {
	/* One end of a pair of Unix stream sockets, borrowed, or -1. With it, a side sleeps until
	 * the other end wakes it or is closed: the worker's death is noticed. Without, sides sleep
	 * on a futex: for two threads of one process. */
	int doorbell;
	bool shared; /* many threads submit at once; otherwise one at a time */
	enum sgpu_ring_store store;
	struct sgpu_ring_wait wait;
};

/* A completion as the client's program gets it. */
struct sgpu_ring_result {
	uint64_t cookie; /* what was given to sgpu_ring_submit */
	int status;	 /* 0 or a code */
	uint64_t value;
};

/* Maps the memory of `fd`, which may come from the other side: checks its type, seals, size and
 * header first. The descriptor stays the caller's. Errors: SGPU_EINVALID, SGPU_EPOLICY (not
 * sealed), SGPU_EUNAVAILABLE (the store), SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_ring_client_open(int fd, const struct sgpu_ring_client_config *config,
					  struct sgpu_ring_client **client,
					  struct sgpu_error *error);
/* No other call may be running. Accepts a pointer to NULL. */
void sgpu_ring_client_close(struct sgpu_ring_client **client);
/* Submits one operation; never waits. *id (NULL if not wanted) receives the submission's id, for
 * sgpu_ring_cancel. SGPU_ERETRY, with no text: the queue is full, or too many operations have not
 * been reaped; nothing was submitted. The completion may be reaped before this returns. Other
 * errors: SGPU_EUSAGE for what the ring itself would refuse, SGPU_EINVALID for a fault. */
SGPU_MUST_CHECK int sgpu_ring_submit(struct sgpu_ring_client *client,
				     const struct sgpu_ring_descriptor *descriptor, uint64_t *id,
				     struct sgpu_error *error);
/* Submits SGPU_RING_CANCEL for a submission. One that has not started does not start; of one that
 * has, the worker is asked to end it. Either completes by itself, with SGPU_ECANCELED if that came
 * in time. */
SGPU_MUST_CHECK int sgpu_ring_cancel(struct sgpu_ring_client *client, uint64_t id, uint64_t cookie,
				     struct sgpu_error *error);
/* Takes up to `room` completions, without waiting; one thread at a time. A completion that answers
 * no submission is a fault, so a cookie may be a pointer. */
SGPU_MUST_CHECK int sgpu_ring_reap(struct sgpu_ring_client *client,
				   struct sgpu_ring_result *results, size_t room, size_t *count,
				   struct sgpu_error *error);
/* Waits until there is a completion, on the thread that reaps. deadline_ns: by sgpu_now_ns(), 0:
 * none. Errors: SGPU_ETIMEOUT; SGPU_ESYSTEM if the worker has closed its end. */
SGPU_MUST_CHECK int sgpu_ring_client_wait(struct sgpu_ring_client *client, uint64_t deadline_ns,
					  struct sgpu_error *error);
/* For a program with an event loop of its own, in place of sgpu_ring_client_wait. arm asks for a
 * wake-up and returns true; false: there is a completion, do not sleep. After arm, sleep until the
 * doorbell is readable, and call disarm, which returns SGPU_ESYSTEM if the other end is closed and
 * nothing is left to reap. */
bool sgpu_ring_client_arm(struct sgpu_ring_client *client);
SGPU_MUST_CHECK int sgpu_ring_client_disarm(struct sgpu_ring_client *client,
					    struct sgpu_error *error);

/* ---- the client's side: calls of many threads ---- */

/* Turns submissions into calls. Each thread waits for its own completion; one of those that wait
 * reaps for all of them. */
struct sgpu_ring_calls;

/* Borrows a client that was opened with `shared`. From then on nobody else submits to it, reaps or
 * waits. doorbell: that of the client, or -1. */
SGPU_MUST_CHECK int sgpu_ring_calls_open(struct sgpu_ring_client *client, int doorbell,
					 struct sgpu_ring_calls **calls, struct sgpu_error *error);
/* No call may be under way. Accepts a pointer to NULL. */
void sgpu_ring_calls_close(struct sgpu_ring_calls **calls);
/* Submits one operation and waits until it has completed; any number of threads. The cookie is
 * that of the calls: the descriptor's is ignored, and the result's is 0. SGPU_ERETRY, with no text:
 * there was no room, nothing was submitted. Any other error ends all calls, but for SGPU_EUSAGE:
 * SGPU_EINVALID for a fault of the ring, SGPU_ESYSTEM if the worker has closed its end, that of
 * sgpu_ring_calls_end. */
SGPU_MUST_CHECK int sgpu_ring_call(struct sgpu_ring_calls *calls,
				   const struct sgpu_ring_descriptor *descriptor,
				   struct sgpu_ring_result *result, struct sgpu_error *error);
/* The same for several operations, 1 to SGPU_RING_CALLS_MAX, whose results come in the order of the
 * descriptors: waits until all have completed, and waits in between if there is no room for all at
 * once. After SGPU_ERETRY or SGPU_EUSAGE those before the one that was refused have been carried
 * out. */
enum { SGPU_RING_CALLS_MAX = 64 };
SGPU_MUST_CHECK int sgpu_ring_call_all(struct sgpu_ring_calls *calls,
				       const struct sgpu_ring_descriptor *descriptors, size_t count,
				       struct sgpu_ring_result *results, struct sgpu_error *error);
/* Ends the calls under way and those to come with this error, unless they have ended before. With a
 * doorbell, that is shut down, which also tells the worker. Without, the one thread that reaps
 * returns only when the worker completes something. */
void sgpu_ring_calls_end(struct sgpu_ring_calls *calls, const struct sgpu_error *why);

/* ---- the worker's side: one thread at a time ---- */
struct sgpu_ring_worker;

/* Which members of a descriptor an opcode uses; the others must be 0. */
enum sgpu_ring_member {
	SGPU_RING_HANDLE = 1,
	SGPU_RING_OFFSET = 2,
	SGPU_RING_LENGTH = 4,
	SGPU_RING_COUNTER = 8,
	SGPU_RING_ARGUMENT = 16,
};

struct sgpu_ring_worker_config {
	int doorbell;	 /* as the client's */
	uint32_t client; /* what descriptors are stamped with */
	/* By opcode from SGPU_RING_OPCODE_SERVICE on: enum sgpu_ring_member, and SGPU_RING_KNOWN.
	 * An opcode without is a fault. Copied. */
	uint8_t members[SGPU_RING_OPCODES];
	/* Copies `size` bytes of the client's memory, for SGPU_RING_BATCH. The handle and the range
	 * are the client's, so it checks them; its error becomes the batch's status. NULL: batches
	 * are refused with SGPU_EUNAVAILABLE. */
	int (*read)(void *context, uint64_t handle, uint64_t offset, void *data, size_t size,
		    struct sgpu_error *error);
	void *context;
	struct sgpu_ring_wait wait;
};
enum { SGPU_RING_KNOWN = 128 };

enum sgpu_ring_event {
	/* Nothing can start now; the next event comes with a submission or a finish. */
	SGPU_RING_IDLE,
	/* There may be more: call again, after other clients had their turn. */
	SGPU_RING_BUSY,
	/* Run the operation and finish its ticket, now or later. */
	SGPU_RING_START,
	/* The client wants this started operation ended; it is still to be finished. */
	SGPU_RING_STOP,
};

struct sgpu_ring_operation {
	uint32_t ticket; /* names it until it is finished */
	/* A checked copy, stamped. The cookie of a batch's member is the batch's. */
	struct sgpu_ring_descriptor descriptor;
};

SGPU_MUST_CHECK int sgpu_ring_worker_open(int fd, const struct sgpu_ring_worker_config *config,
					  struct sgpu_ring_worker **worker,
					  struct sgpu_error *error);
void sgpu_ring_worker_close(struct sgpu_ring_worker **worker);
/* Says what to do next; does a bounded amount of work. */
SGPU_MUST_CHECK int sgpu_ring_next(struct sgpu_ring_worker *worker,
				   struct sgpu_ring_operation *operation,
				   enum sgpu_ring_event *event, struct sgpu_error *error);
/* Ends a started operation, in any order, also while another thread is in sgpu_ring_worker_wait;
 * never waits: a completion has room, since a client that left too many unreaped could not
 * submit more. status: 0 or a code. Errors: SGPU_EUSAGE for a ticket that is not started. */
SGPU_MUST_CHECK int sgpu_ring_finish(struct sgpu_ring_worker *worker, uint32_t ticket, int status,
				     uint64_t value, struct sgpu_error *error);
/* How many submissions have been taken and not completed. */
uint32_t sgpu_ring_outstanding(const struct sgpu_ring_worker *worker);
/* As the client's, for submissions. arm comes after SGPU_RING_IDLE. */
SGPU_MUST_CHECK int sgpu_ring_worker_wait(struct sgpu_ring_worker *worker, uint64_t deadline_ns,
					  struct sgpu_error *error);
bool sgpu_ring_worker_arm(struct sgpu_ring_worker *worker);
SGPU_MUST_CHECK int sgpu_ring_worker_disarm(struct sgpu_ring_worker *worker,
					    struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
