/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: a block for a row, and several blocks for a long one, whose results are compared
 * afterwards. The order of elements is total, so the order of comparisons does not matter.
 */
#include <cub/block/block_reduce.cuh>

#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

struct best {
	double value;
	uint64_t at;
};

/* Whether a is better than b: a NaN is best, then the larger value, then the first position. */
SGPU_DEVICE bool wins(const best &a, const best &b)
{
	bool strange_a = a.value != a.value, strange_b = b.value != b.value;

	if (strange_a || strange_b) {
		return strange_a && (!strange_b || a.at < b.at);
	}
	return a.value > b.value || (a.value == b.value && a.at < b.at);
}

SGPU_DEVICE best nothing()
{
	return { -(double)INFINITY, UINT64_MAX };
}

struct better {
	__device__ best operator()(const best &a, const best &b) const
	{
		return wins(b, a) ? b : a;
	}
};

/* Its result is the first thread's. */
using reduction = cub::BlockReduce<best, SGPU_CUDA_BLOCK>;

/* The best of elements begin + first, begin + first + step, ... below `end`. */
template <typename T>
SGPU_DEVICE best scan(const T *row, uint64_t begin, uint64_t end, unsigned first, unsigned step)
{
	best mine = nothing();

#pragma unroll 4
	for (uint64_t i = begin + first; i < end; i += step) {
		mine = better()(mine, { sgpu_cuda_f64(row[i]), i });
	}
	return mine;
}

/* An item is one of a row's `parts` parts. Writes the answer if a row has one part, else the part's
 * best to `results`. */
template <typename T>
SGPU_KERNEL parts_of_rows(uint64_t rows, uint64_t parts, uint64_t width, const T *input,
			  best *results, int32_t *output)
{
	__shared__ reduction::TempStorage shared;

	for (uint64_t item = blockIdx.x; item < rows * parts; item += gridDim.x) {
		uint64_t begin = item % parts * SGPU_ROW_PART;
		uint64_t end = width - begin < SGPU_ROW_PART ? width : begin + SGPU_ROW_PART;
		best mine = scan(input + item / parts * width, begin, end, threadIdx.x,
				 SGPU_CUDA_BLOCK);

		mine = reduction(shared).Reduce(mine, better());
		if (threadIdx.x == 0 && parts > 1) {
			results[item] = mine;
		} else if (threadIdx.x == 0) {
			output[item] = (int32_t)mine.at;
		}
		__syncthreads();
	}
}

SGPU_KERNEL compare_parts(uint64_t rows, uint64_t parts, const best *results, int32_t *output)
{
	__shared__ reduction::TempStorage shared;

	for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		best mine = nothing();

		for (uint64_t i = threadIdx.x; i < parts; i += SGPU_CUDA_BLOCK) {
			mine = better()(mine, results[row * parts + i]);
		}
		mine = reduction(shared).Reduce(mine, better());
		if (threadIdx.x == 0) {
			output[row] = (int32_t)mine.at;
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

	return rc || parts == 1 ? rc
				: sgpu_cuda_run(launch, compare_parts, sgpu_cuda_grid(rows, 1),
						rows, parts, results, output);
}

extern "C" int sgpu_argmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t rows = sgpu_ops_count(&call->type[OUTPUT]);

	return SGPU_CUDA_TYPES(type->dtype, T,
			       start<T>(call, launch, rows, type->shape[type->rank - 1]));
}
