/* SPDX-License-Identifier: Apache-2.0
 *
 * argmax: a block for a row, and several blocks for a long one, whose results are compared
 * afterwards. The order of elements is total, so the order of comparisons does not matter.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT, WARPS = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP };

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

SGPU_DEVICE best warp_best(best mine)
{
#pragma unroll
	for (unsigned step = 1; step < SGPU_CUDA_WARP; step *= 2) {
		best other = { __shfl_xor_sync(0xffffffffu, mine.value, step),
			       __shfl_xor_sync(0xffffffffu, mine.at, step) };

		mine = wins(other, mine) ? other : mine;
	}
	return mine;
}

/* `shared` has an entry for each warp; call __syncthreads() before it is used again. */
SGPU_DEVICE best block_best(best mine, best *shared)
{
	mine = warp_best(mine);
	if (threadIdx.x % SGPU_CUDA_WARP == 0) {
		shared[threadIdx.x / SGPU_CUDA_WARP] = mine;
	}
	__syncthreads();
	mine = shared[0];
	for (int i = 1; i < WARPS; i++) {
		mine = wins(shared[i], mine) ? shared[i] : mine;
	}
	return mine;
}

/* The best of elements begin + first, begin + first + step, ... below `end`. */
template <typename T>
SGPU_DEVICE best scan(const T *row, uint64_t begin, uint64_t end, unsigned first, unsigned step)
{
	best mine = nothing();

#pragma unroll 4
	for (uint64_t i = begin + first; i < end; i += step) {
		best one = { sgpu_cuda_f64(row[i]), i };

		mine = wins(one, mine) ? one : mine;
	}
	return mine;
}

/* An item is one of a row's `parts` parts. Writes the answer if a row has one part, else the part's
 * best to `results`. */
template <typename T>
SGPU_KERNEL parts_of_rows(uint64_t rows, uint64_t parts, uint64_t width, const T *input,
			  best *results, int32_t *output)
{
	__shared__ best shared[WARPS];

	for (uint64_t item = blockIdx.x; item < rows * parts; item += gridDim.x) {
		uint64_t begin = item % parts * SGPU_ROW_PART;
		uint64_t end = width - begin < SGPU_ROW_PART ? width : begin + SGPU_ROW_PART;
		best mine = scan(input + item / parts * width, begin, end, threadIdx.x,
				 SGPU_CUDA_BLOCK);

		mine = block_best(mine, shared);
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
	__shared__ best shared[WARPS];

	for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		best mine = nothing();

		for (uint64_t i = threadIdx.x; i < parts; i += SGPU_CUDA_BLOCK) {
			best one = results[row * parts + i];

			mine = wins(one, mine) ? one : mine;
		}
		mine = block_best(mine, shared);
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
