/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls through a ring in shared memory, for code in an enclave. sgpu-ring(5) has the layout
 * of the memory.
 */
#ifndef SGPU_RING_H
#define SGPU_RING_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- system calls through a ring ----
 * As in SGXIO, a call goes through a ring in shared memory to a thread outside, so that the caller
 * does not leave the enclave ("exitless"). For comparison, the same calls can be made directly, or
 * through an emulated exit. Only one thread at a time may make calls.
 *
 * The outside is hostile. Therefore a result must be possible for its call, and data are copied
 * only once, from shared memory into the caller's. An impossible result ends the queue: every later
 * call returns the same error. A correct length says nothing about the content of the data. */
enum sgpu_rpc_way {
	SGPU_RPC_DIRECT, /* a system call of the calling thread */
	SGPU_RPC_EXIT,	 /* the same, but with data through shared memory, and as slow as an exit */
	SGPU_RPC_QUEUE,	 /* by a thread outside */
};

enum {
	/* Cycles of an exit and the entry after it, as the SGXIO paper measured them. */
	SGPU_RPC_EXIT_CYCLES = 7110,
	/* Most calls under way at the same time. */
	SGPU_RPC_CALLS_MAX = 64,
	/* Most bytes that one call moves, even if it asks for more. */
	SGPU_RPC_BYTES_MAX = 64 << 10,
	SGPU_RPC_POLL_MAX = 256,
};

struct sgpu_rpc;

/* Opens a way to make calls. exit_cycles: cycles that a call by SGPU_RPC_EXIT loses, half before
 * and half after the system call. Errors: SGPU_EUNAVAILABLE (no time-stamp counter to emulate an
 * exit), SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_rpc_open(enum sgpu_rpc_way way, uint64_t exit_cycles,
				  struct sgpu_rpc **rpc, struct sgpu_error *error);
/* Ends the thread outside. Accepts a pointer to NULL. */
void sgpu_rpc_close(struct sgpu_rpc **rpc);
/* How many calls have been made. */
uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc);

/* System calls; also the opcodes of the ring. */
enum sgpu_rpc_operation {
	SGPU_RPC_RECV = 16, /* never waits: sgpu_rpc_poll does */
	SGPU_RPC_SEND,	    /* never waits, and raises no SIGPIPE */
	SGPU_RPC_EMPTY,	    /* getppid(2), almost no work: shows what the way itself costs */
	SGPU_RPC_POLL,	    /* only for sgpu_rpc_poll */
	SGPU_RPC_OPERATIONS,
};
struct sgpu_rpc_io {
	int fd;
	void *data; /* room for received bytes, or bytes to send */
	size_t size, done;
	/* The call's own: SGPU_OK; SGPU_ERETRY (it would wait, or was interrupted); SGPU_ECANCELED
	 * (it was not made); SGPU_ESYSTEM, SGPU_ENOSPACE or SGPU_ENOMEM by errno. */
	int code;
};
/* Makes `count` calls: through the queue several at the same time, else one by one. Errors:
 * SGPU_EINVALID (an impossible result), SGPU_ESYSTEM (the thread outside has ended), SGPU_EUSAGE
 * (no descriptor). */
SGPU_MUST_CHECK int sgpu_rpc_call_all(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
				      struct sgpu_rpc_io *ios, size_t count,
				      struct sgpu_error *error);
/* Calls poll(2). *done: how many entries have events. Errors: as sgpu_rpc_call_all, and as `code`;
 * SGPU_EUSAGE (more than SGPU_RPC_POLL_MAX entries). */
SGPU_MUST_CHECK int sgpu_rpc_poll(struct sgpu_rpc *rpc, struct pollfd *fds, size_t count,
				  int timeout_ms, size_t *done, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
