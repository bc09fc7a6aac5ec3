/* SPDX-License-Identifier: Apache-2.0
 *
 * transition: what it costs to cross a border and to come back: between functions, processes, the
 * kernel, and what lies beneath it. A part for each kind of border.
 */
#include "cases.h"
#include "made.h"
#include "transition.h"

/* The clock takes some tens of nanoseconds: less than a hundredth of a block. */
enum { BLOCK_NS = 5000, BLOCK_MAX = 1 << 16, TRIES = 5 };

struct block {
	const struct crossing *crossing;
	uint64_t count;
};

static int run_block(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct block *b = argument;
	const uint64_t begin = sgpu_now_ns();
	const int rc = b->crossing->cross(b->crossing->argument, b->count, error);

	*ns = sgpu_now_ns() - begin;
	return rc;
}

/* By the shortest of some tries, so that no interrupt makes the blocks shorter. */
static int size_block(struct block *b, struct sgpu_error *error)
{
	uint64_t least = 0, ns;
	int rc = SGPU_OK;

	for (b->count = 1; b->count < BLOCK_MAX; b->count *= 2) {
		least = UINT64_MAX;
		for (int i = 0; rc == SGPU_OK && i < TRIES; i++) {
			rc = run_block(b, &ns, error);
			least = ns < least ? ns : least;
		}
		if (rc < 0 || least >= BLOCK_NS || b->crossing->single) {
			return rc;
		}
	}
	return SGPU_OK;
}

int bench_cross(struct sgpu_bench *bench, struct sgpu_bench_point point,
		const struct crossing *crossing, struct sgpu_error *error)
{
	struct block block = { .crossing = crossing };
	const struct sgpu_bench_variant variant = { .name = crossing->name,
						    .run = run_block,
						    .argument = &block };
	const int rc = size_block(&block, error);

	point.operations = block.count;
	return rc == SGPU_OK ? sgpu_bench_measure(bench, &point, &variant, 1, error)
			     : bench_or_waive(bench, &point, crossing->name, rc, error);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	int rc = bench_transition_call(bench, error);

	rc = rc ? rc : bench_transition_kvm(bench, error);
	rc = rc ? rc : bench_transition_switch(bench, error);
	rc = rc ? rc : bench_transition_report(bench, error);
	return rc ? rc : bench_transition_gpu(bench, error);
}

const struct sgpu_bench_case case_transition = {
	.name = "transition",
	.help = "crossing a border and back: calls, the kernel, other processes, the hypervisor, "
		"reports",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE, /* of the part for GPUs */
	.run = run,
};
