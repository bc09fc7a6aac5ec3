/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that the command line names, and their arguments as text.
 */
#include <string.h>

#include <sgpu/base.h>

#include "ops/ops.h"
#include "cli.h"

const struct sgpu_op *cli_find_op(const char *name)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	const struct sgpu_op *op = sgpu_op_find(name);
	const char *names[256] = { NULL };

	if (op) {
		return op;
	}
	for (size_t i = 0; ops[i] && i + 1 < SGPU_ARRAY_LENGTH(names); i++) {
		names[i] = ops[i]->name;
	}
	cli_unknown("unknown operation", name, "", names, sizeof(*names));
	return NULL;
}

const char *cli_op_arguments(const struct sgpu_op *op, bool outputs, char text[CLI_OP_TEXT_MAX])
{
	text[0] = '\0';
	for (int i = 0; op->args[i].name; i++) {
		if (sgpu_op_is_output(&op->args[i]) == outputs) {
			cli_append(text, CLI_OP_TEXT_MAX, op->args[i].optional ? "%s[%s]" : "%s%s",
				   *text ? " " : "", op->args[i].name);
		}
	}
	return text;
}
