/* SPDX-License-Identifier: Apache-2.0
 *
 * The enclave's side, for this part and its tests.
 */
#ifndef SGPU_RPC_INSIDE_H
#define SGPU_RPC_INSIDE_H

#include <stdbool.h>

#include <sgpu/rpc.h>

#include "rpc/outside.h"

/* As sgpu_rpc_open, but nobody serves the queue. *shared is the rpc's. */
SGPU_MUST_CHECK int sgpu_rpc_open_inside(const struct sgpu_rpc_config *config,
					 struct sgpu_rpc **rpc,
					 const struct sgpu_rpc_shared **shared,
					 struct sgpu_error *error);

/* Lets this many cycles go by. */
void sgpu_rpc_lose(uint64_t cycles);
/* Whether cycles can be counted here. */
bool sgpu_rpc_has_cycles(void);

#endif
