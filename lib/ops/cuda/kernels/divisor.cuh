/* SPDX-License-Identifier: Apache-2.0
 *
 * Quick divisions, for places of elements in images and kernels.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_DIVISOR_CUH
#define SGPU_OPS_CUDA_KERNELS_DIVISOR_CUH

#include "ops/cuda/kernels/common.cuh"

/* Division by one number again and again: n / by = n * factor >> shift, exact for n and `by` below
 * 2^31. */
struct divisor {
	uint64_t by;
	uint32_t factor, shift; /* factor 0: `by` is too large */
};

static divisor make_divisor(uint64_t by)
{
	divisor made = { by, 0, 31 };

	if (by == 0 || by >> 31) {
		return made;
	}
	while ((uint64_t)1 << (made.shift - 31) < by) {
		made.shift++;
	}
	/* by <= 2^(shift - 31) < 2 by, so the factor is at least 2^31 and at most 2^32 - 1, or 2^31
	 * when `by` is 1 */
	made.factor = (uint32_t)((((uint64_t)1 << made.shift) - 1) / by + 1);
	return made;
}

static __device__ __forceinline__ uint64_t divide(uint64_t n, const divisor &d, uint64_t *rest)
{
	uint64_t quotient =
		d.factor && n >> 31 == 0 ? (uint64_t)(uint32_t)n * d.factor >> d.shift : n / d.by;

	*rest = n - quotient * d.by;
	return quotient;
}

#endif
