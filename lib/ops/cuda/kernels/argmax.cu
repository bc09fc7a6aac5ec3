/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: a block for a row, and several blocks for a long one, whose results are then compared.
 * The order of elements is total, so the order of comparisons does not matter.
 */
#include <cub/block/block_reduce.cuh>

#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

struct best {
	int64_t key; /* of the value; the largest is that of NaN */
	uint64_t at;
};

struct better {
	__device__ best operator()(const best &a, const best &b) const
	{
		return b.key > a.key || (b.key == a.key && b.at < a.at) ? b : a;
	}
};

/* Its result is the first thread's. */
using reduction = cub::BlockReduce<best, SGPU_CUDA_BLOCK>;

/* Element i of a row, or of its parts' results. */
template <typename T> SGPU_DEVICE best candidate(const T *row, uint64_t i)
{
	double value = sgpu_cuda_f64(row[i]) + 0.0; /* -0 is as large as 0 */

	return { value == value ? sgpu_reduce_key(value) : INT64_MAX, i };
}
SGPU_DEVICE best candidate(const best *results, uint64_t i)
{
	return results[i];
}

/* An item is a part of a row. Writes the answer if a row has one part, else the part's best to
 * `results`. */
template <typename T>
SGPU_KERNEL parts_of_rows(uint64_t rows, uint64_t parts, uint64_t width, const T *input,
			  best *results, int32_t *output)
{
	__shared__ reduction::TempStorage shared;

	for (uint64_t item = blockIdx.x; item < rows * parts; item += gridDim.x) {
		uint64_t begin = item % parts * SGPU_ROW_PART;
		uint64_t end = width - begin < SGPU_ROW_PART ? width : begin + SGPU_ROW_PART;
		const T *row = input + item / parts * width;
		best mine = { INT64_MIN, UINT64_MAX };

#pragma unroll 4
		for (uint64_t i = begin + threadIdx.x; i < end; i += SGPU_CUDA_BLOCK) {
			mine = better()(mine, candidate(row, i));
		}
		mine = reduction(shared).Reduce(mine, better());
		if (threadIdx.x == 0 && parts > 1) {
			results[item] = mine;
		} else if (threadIdx.x == 0) {
			output[item] = (int32_t)mine.at;
		}
		__syncthreads();
	}
}

template <typename T>
static int start(const struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t rows,
		 uint64_t width)
{
	void *input = call->data[INPUT], *results = call->scratch, *output = call->data[OUTPUT];
	uint64_t parts = sgpu_ops_parts(width);
	int rc = sgpu_cuda_run(launch, parts_of_rows<T>, sgpu_cuda_grid(rows * parts, 1), rows,
			       parts, width, input, results, output);

	return rc || parts == 1
		       ? rc
		       : sgpu_cuda_run(launch, parts_of_rows<best>, sgpu_cuda_grid(rows, 1), rows,
				       (uint64_t)1, parts, results, results, output);
}

extern "C" int sgpu_argmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t rows = sgpu_ops_count(&call->type[OUTPUT]);

	return SGPU_CUDA_TYPES(type->dtype, T,
			       start<T>(call, launch, rows, type->shape[type->rank - 1]));
}
