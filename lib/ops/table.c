/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations.
 */
#include <string.h>

#include "ops_private.h"

/* clang-format off */
static const struct sgpu_op *const table[] = {
#define ROW(name) &sgpu_op_##name,
	SGPU_OPS(ROW)
#undef ROW
	NULL,
};
/* clang-format on */

const struct sgpu_op *const *sgpu_ops(void)
{
	return table;
}

const struct sgpu_op *sgpu_op_find(const char *name)
{
	size_t low = 0, high = SGPU_ARRAY_LENGTH(table) - 1;

	while (name && low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(name, table[middle]->name);

		if (order == 0) {
			return table[middle];
		}
		if (order < 0) {
			high = middle;
		} else {
			low = middle + 1;
		}
	}
	return NULL;
}

int sgpu_op_arg(const struct sgpu_op *op, const char *name)
{
	for (int i = 0; op->args[i].name; i++) {
		if (strcmp(op->args[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

int sgpu_op_param(const struct sgpu_op *op, const char *name)
{
	for (int i = 0; op->params && op->params[i].name; i++) {
		if (strcmp(op->params[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}
