/* SPDX-License-Identifier: Apache-2.0
 *
 * What is outside of the enclave: system calls, and the threads that make them for a queue.
 */
#ifndef SGPU_RPC_OUTSIDE_H
#define SGPU_RPC_OUTSIDE_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>
#include <sgpu/ring.h>

/* Opcodes of the ring. handle: the descriptor; offset and length: the data in the shared area;
 * argument: the offset in the file, or poll's limit in milliseconds. A completion's value is the
 * system call's result, or minus errno. */
enum sgpu_rpc_operation {
	SGPU_RPC_PREAD = SGPU_RING_OPCODE_SERVICE,
	SGPU_RPC_PWRITE,
	SGPU_RPC_RECV,
	SGPU_RPC_SEND,
	SGPU_RPC_POLL, /* data: array of struct pollfd */
	SGPU_RPC_EMPTY,
	SGPU_RPC_OPERATIONS,
};

struct sgpu_rpc_request {
	enum sgpu_rpc_operation operation;
	int fd;
	void *data;
	size_t size; /* bytes */
	uint64_t argument;
};

/* Makes the system call. stop: a socket; when its other end is shut down, a poll ends with
 * -ECANCELED. */
int64_t sgpu_rpc_perform(const struct sgpu_rpc_request *request, int stop);

/* How long both sides spin. A call that does not wait ends within microseconds. To spin much longer
 * saves no sleep then, and keeps the other side's thread from running where processors are scarce.
 * The time does not adapt: where both sides sleep, a call takes two wake-ups, longer than this, and
 * a time that has shrunk once would stay short. */
struct sgpu_ring_wait sgpu_rpc_spinning(void);

/* The ring puts a call between what its caller did before and does after. It does so through two
 * mappings of the same memory, which ThreadSanitizer takes for different memory: a descriptor that
 * the caller closes after the call would be a race. So that tool is shown the order. */
void sgpu_rpc_show_order(void);

/* What both sides share. */
struct sgpu_rpc_shared {
	int ring, area; /* memory files */
	size_t area_size;
	int inside, outside; /* ends of the doorbell */
	unsigned threads;    /* outside */
};

struct sgpu_rpc_server;

/* Starts threads that serve the ring until it ends. Borrows the descriptors. */
SGPU_MUST_CHECK int sgpu_rpc_server_start(const struct sgpu_rpc_shared *shared,
					  struct sgpu_rpc_server **server,
					  struct sgpu_error *error);
/* Waits for the threads: the other end of the doorbell has been shut down. Accepts a pointer to
 * NULL. */
void sgpu_rpc_server_end(struct sgpu_rpc_server **server);

#endif
