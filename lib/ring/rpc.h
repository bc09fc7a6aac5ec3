/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: what both sides share.
 */
#ifndef SGPU_RING_RPC_H
#define SGPU_RING_RPC_H

#include <pthread.h>

#include <sgpu/ring.h>

#include "ring/ring.h"

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
	char *data;	     /* the area, as the inside has mapped it */
	struct sgpu_ring *client;
	struct sgpu_error why; /* why there are no more calls: a fault of the outside */
	/* the thread outside */
	struct sgpu_ring *worker;
	char *outside_data;
	pthread_t thread;
	bool runs;
};

/* As sgpu_rpc_open, but without a thread that serves the queue. */
SGPU_MUST_CHECK int sgpu_rpc_open_inside(enum sgpu_rpc_way way, uint64_t exit_cycles,
					 struct sgpu_rpc **rpc, struct sgpu_error *error);
/* Starts a thread that serves the ring until the doorbell is shut down. */
SGPU_MUST_CHECK int sgpu_rpc_serve(struct sgpu_rpc *rpc, struct sgpu_error *error);

#endif
