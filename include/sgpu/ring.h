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
 * After SGXIO: a call goes through a ring in shared memory to a thread outside, so that the enclave
 * is not left ("exitless"). For comparison, the same calls can be made directly, or through an
 * emulated exit. One thread at a time makes calls.
 *
 * Whatever comes from outside is hostile: a result must be one that the call can have, and data are
 * copied once, from shared into the caller's memory. A result that cannot be ends the queue: every
 * later call returns the same error. That data are of the length that was asked for says nothing
 * about their content. */
enum sgpu_rpc_way {
	SGPU_RPC_DIRECT, /* a system call of the calling thread */
	SGPU_RPC_EXIT,	/* the same, with data through shared memory, and time lost as by an exit */
	SGPU_RPC_QUEUE, /* by a thread outside */
};

enum {
	/* Cycles of an exit and the entry after it, measured by the paper on SGXIO. */
	SGPU_RPC_EXIT_CYCLES = 7110,
	/* Calls that are under way together. */
	SGPU_RPC_CALLS_MAX = 64,
	/* Bytes of one call: a call for more moves that many, in every way. */
	SGPU_RPC_BYTES_MAX = 64 << 10,
	SGPU_RPC_POLL_MAX = 256,
};

struct sgpu_rpc;

/* exit_cycles: of SGPU_RPC_EXIT, half before the system call, half after it. Errors:
 * SGPU_EUNAVAILABLE: an exit cannot be emulated without a time-stamp counter; SGPU_ENOMEM,
 * SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_rpc_open(enum sgpu_rpc_way way, uint64_t exit_cycles,
				  struct sgpu_rpc **rpc, struct sgpu_error *error);
/* Ends the thread outside. Accepts a pointer to NULL. */
void sgpu_rpc_close(struct sgpu_rpc **rpc);
/* How many calls have been made. */
uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc);

/* System calls; also the opcodes of the ring. */
enum sgpu_rpc_operation {
	SGPU_RPC_RECV = 16, /* never waits: poll does */
	SGPU_RPC_SEND,	    /* never waits, and raises no SIGPIPE */
	SGPU_RPC_EMPTY,	    /* getppid(2), next to nothing: what a way costs by itself */
	SGPU_RPC_POLL,	    /* sgpu_rpc_poll alone */
	SGPU_RPC_OPERATIONS,
};
struct sgpu_rpc_io {
	int fd;
	void *data; /* receives, or is sent */
	size_t size, done;
	/* Of this call: SGPU_OK; SGPU_ERETRY where it would wait, or was interrupted; SGPU_ESYSTEM,
	 * SGPU_ENOSPACE or SGPU_ENOMEM with that of errno. */
	int code;
};
/* Through the queue, several calls are under way together; in the other ways they are made one by
 * one. Errors: SGPU_EINVALID: a result that cannot be; SGPU_ESYSTEM: the thread outside has gone;
 * SGPU_EUSAGE: no descriptor. */
SGPU_MUST_CHECK int sgpu_rpc_call_all(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
				      struct sgpu_rpc_io *ios, size_t count,
				      struct sgpu_error *error);
/* poll(2). *done: how many entries have events. Errors: as above, and as `code`; SGPU_EUSAGE: more
 * than SGPU_RPC_POLL_MAX entries. */
SGPU_MUST_CHECK int sgpu_rpc_poll(struct sgpu_rpc *rpc, struct pollfd *fds, size_t count,
				  int timeout_ms, size_t *done, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
