/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of the CUDA device by name, and what their calls of CUDA return.
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

int sgpu_cuda_runtime_check(struct sgpu_launch *launch, const char *what, cudaError_t code)
{
	return code == cudaSuccess
		       ? 0
		       : sgpu_fail(launch->error,
				   code == cudaErrorMemoryAllocation ? SGPU_ENOMEM : SGPU_EDEVICE,
				   "%s: %s (%s)", what, cudaGetErrorString(code),
				   cudaGetErrorName(code));
}
