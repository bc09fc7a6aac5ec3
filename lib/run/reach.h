/* SPDX-License-Identifier: Apache-2.0
 *
 * Which operation is an ancestor of which: a bit for each pair, from the edges of a manifest's
 * graph.
 */
#ifndef SGPU_RUN_REACH_H
#define SGPU_RUN_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/manifest.h>

/* Beyond this many operations the matrix is not made: 4096 squared bits are 2 MiB, and grow with
 * the square. */
enum { SGPU_REACH_OPERATIONS_MAX = 4096 };

struct sgpu_reach {
	int count;
	int words;	/* 64-bit words a row */
	uint64_t *bits; /* row of an operation: its ancestors */
};

/* The manifest has an order (no cycle) and at most SGPU_REACH_OPERATIONS_MAX operations. */
SGPU_MUST_CHECK int sgpu_reach_create(const struct sgpu_manifest *manifest,
				      struct sgpu_reach **reach, struct sgpu_error *error);
void sgpu_reach_free(struct sgpu_reach **reach);

static inline bool sgpu_reach_ancestor(const struct sgpu_reach *reach, int ancestor, int operation)
{
	const uint64_t *row = reach->bits + (size_t)operation * (size_t)reach->words;

	return (row[ancestor / 64] >> (ancestor % 64)) & 1;
}

#endif
