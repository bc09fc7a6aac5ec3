/* SPDX-License-Identifier: Apache-2.0
 *
 * What operations on volumes share: places from indexes, and the two halves of morphology3d.
 */
#ifndef SGPU_OPS_CUDA_VOLUME_CUH
#define SGPU_OPS_CUDA_VOLUME_CUH

#include "ops/cuda/common.cuh"

/* number / by, and the rest; most numbers are short, and short divisions are quicker. */
static __device__ __forceinline__ uint64_t sgpu_cuda_split(uint64_t number, uint64_t by, uint64_t *rest)
{
	uint64_t quotient = (number | by) >> 32 ? number / by : (uint32_t)number / (uint32_t)by;

	*rest = number - quotient * by;
	return quotient;
}

/* As sgpu_ops_keep_largest, which says how much scratch memory it takes. */
int sgpu_cuda_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch, struct sgpu_launch *launch);

#endif
