/* SPDX-License-Identifier: Apache-2.0
 *
 * Ancestors by bit sets: in graph order, an operation's set is the union of its predecessors' sets
 * and themselves.
 */
#include "run/reach.h"

#include <stdlib.h>

static void add_ancestors(struct sgpu_reach *reach, int operation, int before)
{
	uint64_t *row = reach->bits + (size_t)operation * (size_t)reach->words;
	const uint64_t *other = reach->bits + (size_t)before * (size_t)reach->words;

	for (int i = 0; i < reach->words; i++) {
		row[i] |= other[i];
	}
	row[before / 64] |= (uint64_t)1 << (before % 64);
}

int sgpu_reach_create(const struct sgpu_manifest *manifest, struct sgpu_reach **reach,
		      struct sgpu_error *error)
{
	struct sgpu_reach *r = calloc(1, sizeof(*r));

	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->count = manifest->operation_count;
	r->words = (r->count + 63) / 64;
	r->bits = calloc((size_t)r->count * (size_t)r->words + 1, sizeof(*r->bits));
	if (!r->bits) {
		sgpu_reach_free(&r);
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < r->count; i++) {
		int operation = manifest->order[i];
		const struct sgpu_operation *op = &manifest->operations[operation];

		for (int k = 0; k < op->before_count; k++) {
			add_ancestors(r, operation, op->before[k]);
		}
	}
	*reach = r;
	return SGPU_OK;
}

void sgpu_reach_free(struct sgpu_reach **reach)
{
	if (!reach || !*reach) {
		return;
	}
	free((*reach)->bits);
	free(*reach);
	*reach = NULL;
}
