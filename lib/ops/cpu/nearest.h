/* SPDX-License-Identifier: Apache-2.0
 *
 * How nearest divides its work on a device with many threads, which the operation's scratch memory
 * must fit.
 */
#ifndef SGPU_OPS_CPU_NEAREST_H
#define SGPU_OPS_CPU_NEAREST_H

#include "ops/ops_private.h"

enum { SGPU_NEAREST_K_MAX = 256, SGPU_NEAREST_RESERVE = 16 };

/* A block of queries meets a tile of rows at a time. Every query has `parts` lists of candidates,
 * each of its own part of the tile's rows: the fewer queries, the more. */
struct sgpu_nearest_plan {
	uint64_t queries, rows, parts;
	uint64_t keep; /* candidates in a list: k and a reserve */
};
#ifdef __cplusplus
extern "C"
#endif
	struct sgpu_nearest_plan
	sgpu_nearest_plan(const struct sgpu_op_call *call);

#endif
