/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of ranges of addresses that do not overlap. A range is the first member of the record that
 * it stands for. An empty tree is NULL.
 */
#ifndef SGPU_BASE_RANGES_H
#define SGPU_BASE_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct sgpu_range {
	uint64_t address;
	uint64_t extent; /* bytes, at least 1; changed only while nothing else lies there */
};

/* False: another range lies there, or there is no memory. */
bool sgpu_ranges_insert(void **tree, struct sgpu_range *range);
void sgpu_ranges_remove(void **tree, struct sgpu_range *range);
/* The range that an address lies in, or NULL. */
struct sgpu_range *sgpu_ranges_find(void *const *tree, uint64_t address);
/* One of them, to take a tree apart; NULL when it is empty. */
struct sgpu_range *sgpu_ranges_any(void *const *tree);

#endif
