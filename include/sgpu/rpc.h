/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls for code in an enclave, which cannot make them itself. After SGXIO: a call goes
 * through a ring in shared memory to threads outside, so that the enclave is not left
 * ("exitless"). For comparison, the same calls can be made directly, or through an exit from the
 * enclave that is emulated.
 *
 * Whatever comes from outside is hostile: a result must be one that the call can have, and data are
 * copied once, from shared into the caller's memory. A result that cannot be ends the queue: every
 * later call returns the same error. That data are of the length that was asked for says nothing
 * about their content.
 */
#ifndef SGPU_RPC_H
#define SGPU_RPC_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sgpu_rpc_way {
	SGPU_RPC_DIRECT, /* a system call of the calling thread */
	SGPU_RPC_EXIT,	/* the same, with data through shared memory, and time lost as by an exit */
	SGPU_RPC_QUEUE, /* by a thread outside */
};

enum {
	/* Cycles of an exit and the entry after it, measured by the paper on SGXIO. */
	SGPU_RPC_EXIT_CYCLES = 7110,
	SGPU_RPC_THREADS_MAX = 16,
	SGPU_RPC_CALLS_MAX = 256,
	SGPU_RPC_BYTES_MAX = 1 << 20,
	SGPU_RPC_POLL_MAX = 256,
};

struct sgpu_rpc_config {
	enum sgpu_rpc_way way;
	/* Of SGPU_RPC_EXIT: half before the system call, half after it. */
	uint64_t exit_cycles;
	/* Of SGPU_RPC_QUEUE: threads outside; 0: 1. A poll that waits occupies one of them. */
	unsigned threads;
	/* Calls at once, a power of two; 0: 64. A thread that makes one more waits. */
	uint32_t calls;
	/* Bytes of one call, a multiple of 64; 0: 64 KiB. A call for more moves that many, in
	 * every way. */
	size_t bytes;
};

struct sgpu_rpc;

/* Errors: SGPU_EUSAGE; SGPU_EUNAVAILABLE: an exit cannot be emulated without a time-stamp counter;
 * SGPU_ENOMEM, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int sgpu_rpc_open(const struct sgpu_rpc_config *config, struct sgpu_rpc **rpc,
				  struct sgpu_error *error);
/* Ends the threads outside. No call may be under way. Accepts a pointer to NULL. */
void sgpu_rpc_close(struct sgpu_rpc **rpc);
/* Ends the calls under way and those to come with SGPU_ECANCELED; any thread. */
void sgpu_rpc_stop(struct sgpu_rpc *rpc);
/* How many calls have been made. */
uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc);

/* The system calls of these names; any thread. *done: how many bytes, or how many entries of `fds`
 * have events. Errors: SGPU_ERETRY without a text where the call would wait, or was interrupted;
 * SGPU_ESYSTEM, SGPU_ENOSPACE or SGPU_ENOMEM with that of errno; SGPU_EINVALID: a result that
 * cannot be; SGPU_ECANCELED: this side has stopped the calls; SGPU_EUSAGE: more than
 * SGPU_RPC_POLL_MAX entries.
 *
 * recv and send never wait: poll does. send raises no SIGPIPE. */
SGPU_MUST_CHECK int sgpu_rpc_pread(struct sgpu_rpc *rpc, int fd, void *data, size_t size,
				   uint64_t offset, size_t *done, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_rpc_pwrite(struct sgpu_rpc *rpc, int fd, const void *data, size_t size,
				    uint64_t offset, size_t *done, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_rpc_recv(struct sgpu_rpc *rpc, int fd, void *data, size_t size,
				  size_t *done, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_rpc_send(struct sgpu_rpc *rpc, int fd, const void *data, size_t size,
				  size_t *done, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_rpc_poll(struct sgpu_rpc *rpc, struct pollfd *fds, size_t count,
				  int timeout_ms, size_t *done, struct sgpu_error *error);
/* One of several calls that are made together. */
struct sgpu_rpc_io {
	int fd;
	void *data; /* receives, or is sent */
	size_t size, done;
	int code; /* of this call: SGPU_OK, SGPU_ERETRY, or an error of the system */
};
/* The same as a call for each, in their order. Through the queue they are under way together: the
 * thread outside makes one call while others are prepared, and neither side waits for the other
 * after each. Directly and through exits they are made one by one. Errors: those that end calls;
 * SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_rpc_recv_all(struct sgpu_rpc *rpc, struct sgpu_rpc_io *ios, size_t count,
				      struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_rpc_send_all(struct sgpu_rpc *rpc, struct sgpu_rpc_io *ios, size_t count,
				      struct sgpu_error *error);
/* A system call that does next to nothing, getppid(2): what a way costs by itself. */
SGPU_MUST_CHECK int sgpu_rpc_empty(struct sgpu_rpc *rpc, struct sgpu_error *error);

/* ---- what an exit costs ---- */
struct sgpu_rpc_costs {
	uint64_t cycles_per_second; /* of the time-stamp counter, in which exits are counted */
	/* What it takes this machine to leave a virtual machine and to come back, by the CPUID
	 * instruction; 0: it says that it is none. */
	uint64_t guest_exit_cycles;
};
/* Measures once a process, for some milliseconds. Errors: SGPU_EUNAVAILABLE: there is no time-stamp
 * counter. */
SGPU_MUST_CHECK int sgpu_rpc_measure(struct sgpu_rpc_costs *costs, struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
