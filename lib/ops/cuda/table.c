/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of the CUDA device by name.
 */
#include <string.h>

#include "ops/cuda/ops_cuda.h"
#include "ops/ops_private.h"

/* clang-format off */
static const struct {
	const char *name;
	sgpu_op_fn run;
} table[] = {
#define ROW(name) { #name, sgpu_##name##_cuda },
	SGPU_OPS(ROW)
#undef ROW
};
/* clang-format on */

sgpu_op_fn sgpu_cuda_op(const char *name)
{
	for (size_t i = 0; name && i < SGPU_ARRAY_LENGTH(table); i++) {
		if (strcmp(table[i].name, name) == 0) {
			return table[i].run;
		}
	}
	return NULL;
}
