/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations, and how one of them is run.
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
	for (int i = 0; name && table[i]; i++) {
		if (strcmp(table[i]->name, name) == 0) {
			return table[i];
		}
	}
	return NULL;
}

bool sgpu_op_is_output(const struct sgpu_op_argument *argument)
{
	return strncmp(argument->name, "output", 6) == 0;
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
	for (int i = 0; op->params[i].name; i++) {
		if (strcmp(op->params[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

int sgpu_op_run(struct sgpu_op_call *call, sgpu_op_fn on_device, struct sgpu_launch *launch)
{
	const struct sgpu_op_argument *args = call->op->args;
	bool empty = true;

	for (int i = 0; args[i].name; i++) {
		empty &= !sgpu_op_is_output(&args[i]) || !call->data[i] ||
			 sgpu_ops_count(&call->type[i]) == 0;
	}
	return empty ? 0 : (on_device ? on_device : call->op->cpu)(call, launch);
}
