/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of addresses in a search tree of the C library.
 */
#include <search.h>
#include <stddef.h>

#include <base/base.h>

/* Ranges that overlap compare as equal, so a search for one byte finds the range that has it. */
static int compare(const void *a, const void *b)
{
	const struct sgpu_range *left = a, *right = b;

	if (left->address + left->extent <= right->address) {
		return -1;
	}
	return left->address >= right->address + right->extent ? 1 : 0;
}

bool sgpu_ranges_insert(void **tree, struct sgpu_range *range)
{
	struct sgpu_range **node = tsearch(range, tree, compare);

	return node && *node == range;
}

void sgpu_ranges_remove(void **tree, struct sgpu_range *range)
{
	tdelete(range, tree, compare);
}

struct sgpu_range *sgpu_ranges_find(void *const *tree, uint64_t address)
{
	const struct sgpu_range one = { .address = address, .extent = 1 };
	struct sgpu_range **node = tfind(&one, tree, compare);

	return node ? *node : NULL;
}

struct sgpu_range *sgpu_ranges_any(void *const *tree)
{
	return *tree ? *(struct sgpu_range **)*tree : NULL;
}
