/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunk runs: how large they are. Small ones stand where the other stages would have to wait, at
 * the begin and at the end.
 */
#include "transfer/engine.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct sgpu_chunk_run sgpu_chunk_run_at(const struct sgpu_run_plan *plan, uint64_t first)
{
	struct sgpu_chunk_run run = { .first = first, .count = plan->largest };
	uint64_t rest = plan->total - first, left;

	if (plan->at_begin) {
		run.count = min_u64(run.count,
				    max_u64(first, plan->at_begin)); /* as much as all before */
	}
	if (plan->at_end) {
		/* Most of what is left: a device opens more than three times as fast as the bus
		 * brings it. */
		run.count = min_u64(run.count, max_u64(rest / 4 * 3, plan->at_end));
	}
	run.count = min_u64(run.count, rest);
	/* A little rest goes with it. One chunk never goes alone: when it is empty its address is
	 * past the end. */
	left = rest - run.count;
	if (left < 2 || 2 * left < max_u64(plan->at_begin, plan->at_end)) {
		run.count = rest;
	}
	return run;
}

/* A run and the little rest that may go with it. */
uint64_t sgpu_chunk_run_most(uint64_t largest, uint64_t smallest)
{
	return largest + smallest / 2 + 2;
}
