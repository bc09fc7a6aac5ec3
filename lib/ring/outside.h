/* SPDX-License-Identifier: Apache-2.0
 *
 * The outside of the enclave: system calls, and the thread that makes them for a queue.
 */
#ifndef SGPU_RING_OUTSIDE_H
#define SGPU_RING_OUTSIDE_H

#include "ring/ring.h"
#include "base/base.h"

/* A call. In the ring, handle is the file descriptor, offset and length locate the data in the
 * shared area, and argument is poll's timeout in ms. A completion's value is the system call's
 * result, or minus errno. */
struct sgpu_rpc_request {
	enum sgpu_rpc_operation operation;
	int fd;
	void *data; /* of POLL: array of struct pollfd */
	size_t size;
	uint64_t argument;
};

enum { SGPU_RPC_AREA_SIZE = SGPU_RPC_CALLS_MAX * SGPU_RPC_BYTES_MAX };

static inline int sgpu_rpc_map(int area, void **memory, struct sgpu_error *error)
{
	uint64_t size;

	return sgpu_memory_file_map(area, "the data of calls", SGPU_RPC_AREA_SIZE,
				    SGPU_RPC_AREA_SIZE, memory, &size, error);
}

int64_t sgpu_rpc_perform(const struct sgpu_rpc_request *request);

/* How both sides spin. A call that does not wait ends within microseconds, so longer spinning saves
 * no sleep and takes the processor from the other side. The time does not adapt: a call for which
 * both sides sleep takes longer than they spin, so a time that has shrunk would stay short. */
struct sgpu_ring_wait sgpu_rpc_spinning(void);

/* Shows ThreadSanitizer, to which the two mappings are different memory, that a call through the
 * ring comes after what its caller did before, and before what it does next. */
void sgpu_rpc_show_order(void);

/* Shared by both sides. */
struct sgpu_rpc_shared {
	int ring, area;	     /* memory files */
	int inside, outside; /* ends of the doorbell */
	char *data;	     /* the area, as the inside has mapped it */
};

/* As sgpu_rpc_open with SGPU_RPC_QUEUE, but without a thread that serves the queue. *shared belongs
 * to the rpc. */
SGPU_MUST_CHECK int sgpu_rpc_open_inside(enum sgpu_rpc_way way, uint64_t exit_cycles,
					 struct sgpu_rpc **rpc,
					 const struct sgpu_rpc_shared **shared,
					 struct sgpu_error *error);

struct sgpu_rpc_server;

/* Starts a thread that serves the ring until the doorbell is shut down. Borrows the descriptors. */
SGPU_MUST_CHECK int sgpu_rpc_server_start(const struct sgpu_rpc_shared *shared,
					  struct sgpu_rpc_server **server,
					  struct sgpu_error *error);
/* Waits for the thread; the other end of the doorbell must be shut down. Accepts a pointer to
 * NULL. */
void sgpu_rpc_server_end(struct sgpu_rpc_server **server);

#endif
