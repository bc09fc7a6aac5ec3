/* SPDX-License-Identifier: Apache-2.0
 *
 * The enclave's side, for this part and its tests.
 */
#ifndef SGPU_RPC_INSIDE_H
#define SGPU_RPC_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <sgpu/rpc.h>

#include "ring/outside.h"

struct sgpu_rpc {
	struct sgpu_rpc_config config;
	struct sgpu_rpc_shared shared;
	char *area;
	struct sgpu_ring_client *client;
	struct sgpu_ring_calls *calls;
	struct sgpu_rpc_server *server;
	_Atomic uint64_t count;
	pthread_mutex_t lock;
	pthread_cond_t freed;
	uint32_t free[SGPU_RPC_CALLS_MAX], free_count; /* places */
	bool ended;
	struct sgpu_error why;
};

/* As sgpu_rpc_open, but nobody serves the queue. *shared is the rpc's. */
SGPU_MUST_CHECK int sgpu_rpc_open_inside(const struct sgpu_rpc_config *config,
					 struct sgpu_rpc **rpc,
					 const struct sgpu_rpc_shared **shared,
					 struct sgpu_error *error);

/* Ends all calls. The first reason stays; *error receives it, and its code is returned. */
int sgpu_rpc_end_calls(struct sgpu_rpc *rpc, const struct sgpu_error *why,
		       struct sgpu_error *error);

/* Lets this many cycles go by. */
void sgpu_rpc_lose(uint64_t cycles);
/* Whether cycles can be counted here. */
bool sgpu_rpc_has_cycles(void);

#endif
