/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking up an operation that the command line names.
 */
#include <stddef.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/ops.h>

#include "cli.h"

const struct sgpu_op *cli_find_op(const char *name)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	const struct sgpu_op *op = sgpu_op_find(name);
	const char *names[256] = { NULL }, *near;
	struct sgpu_error error = { 0 };

	if (op) {
		return op;
	}
	for (size_t i = 0; ops[i] && i + 1 < SGPU_ARRAY_LENGTH(names); i++) {
		names[i] = ops[i]->name;
	}
	near = sgpu_nearest_name(name, names);
	sgpu_fail(&error, SGPU_EUSAGE, "'%s' is not an operation", SGPU_EXCERPT(name));
	if (near) {
		sgpu_hint(&error, "did you mean '%s'?", near);
	}
	cli_error(&error);
	return NULL;
}
