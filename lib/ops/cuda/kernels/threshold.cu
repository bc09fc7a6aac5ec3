/* SPDX-License-Identifier: Apache-2.0
 *
 * threshold: as cpu/threshold.c. For indexes, CUB selects them by the mask, in their order.
 */
#include <cub/device/device_select.cuh>
#include <math.h>
#include <thrust/iterator/counting_iterator.h>

#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };
enum { LOW, HIGH, MODE };
enum { MASK, INDICES };

template <typename T> struct band {
	double low, high;

	__device__ uint8_t operator()(T value) const
	{
		double x = sgpu_cuda_f64(value);

		return x >= low && x <= high;
	}
};

template <typename T>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count,
		 uint8_t *mask)
{
	struct band<T> inside = {
		call->param[LOW].given ? call->param[LOW].number : -(double)INFINITY,
			call->param[HIGH].given ? call->param[HIGH].number : (double)INFINITY
	};

	return sgpu_cuda_map<16 / sizeof(T)>(launch, count, inside, mask,
					     (const T *)call->data[INPUT]);
}

/* CUB's own memory is behind the mask. */
static int list(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count,
		uint8_t *mask)
{
	size_t bytes = 0, used = (count + 255) / 256 * 256;
	auto select = [&](void *memory) {
		return sgpu_cuda_runtime_check(
			launch, cub::DeviceSelect::Flagged(
					memory, bytes, thrust::counting_iterator<int32_t>(0), mask,
					(int32_t *)call->data[OUTPUT], launch->status + 1,
					(int32_t)count, sgpu_cuda_stream(launch)));
	};
	int rc = select(NULL); /* asks for the size */

	if (!rc && used + bytes > call->op->scratch(call)) {
		rc = sgpu_fail(launch->error, SGPU_EDEVICE, "CUB needs %zu bytes", bytes);
	}
	return rc ? rc : select(mask + used);
}

extern "C" int sgpu_threshold_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	bool indices = call->param[MODE].number == INDICES;
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);
	uint8_t *mask = (uint8_t *)(indices ? call->scratch : call->data[OUTPUT]);
	int rc = SGPU_CUDA_TYPES(call->type[INPUT].dtype, T, start<T>(call, launch, count, mask));

	return rc || !indices ? rc : list(call, launch, count, mask);
}
