/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: a block for a row. Long rows are cut into parts of a fixed size, whose maxima, and then
 * sums, are combined before every element is divided.
 */
#include "ops/cpu/math64.h"
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };

/* ---- a thread's share of a row ----
 * The largest element; a NaN is ignored here and makes the sum NaN. */
template <typename T> SGPU_DEVICE double scan_top(const T *row, uint64_t count)
{
	T top = -(T)INFINITY;

	for (uint64_t i = threadIdx.x; i < count; i += SGPU_CUDA_BLOCK) {
		top = row[i] > top ? row[i] : top;
	}
	return (double)top;
}

template <typename T>
SGPU_DEVICE double scan_exponentials(const T *row, T *output, uint64_t count, double top)
{
	double total = 0;

	for (uint64_t i = threadIdx.x; i < count; i += SGPU_CUDA_BLOCK) {
		double e = sgpu_math_exp((double)row[i] - top);

		output[i] = (T)e;
		total += e;
	}
	return total;
}

template <typename T> SGPU_DEVICE void scan_divide(T *output, uint64_t count, double total)
{
	double share = 1 / total;

	for (uint64_t i = threadIdx.x; i < count; i += SGPU_CUDA_BLOCK) {
		output[i] = (T)((double)output[i] * share);
	}
}

template <typename T>
SGPU_KERNEL block_rows(uint64_t rows, uint64_t count, const T *input, T *output)
{
	/* Two arrays, since each is still being read while the other is written. */
	__shared__ double shared_top[32], shared_sum[32];

	for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
		const T *from = input + row * count;
		T *to = output + row * count;
		double mine = scan_top(from, count);
		double top = sgpu_cuda_block_reduce(mine, sgpu_cuda_larger(), shared_top);
		double total = scan_exponentials(from, to, count, top);

		total = sgpu_cuda_block_reduce(total, sgpu_cuda_sum(), shared_sum);
		scan_divide(to, count, total);
	}
}

/* ---- rows in parts ---- */
struct long_rows {
	uint64_t rows, count, parts;
	double *tops, *sums; /* [rows][parts] */
};

SGPU_DEVICE uint64_t part_size(const long_rows &job, uint64_t part)
{
	uint64_t left = job.count - part * SGPU_ROW_PART;

	return sgpu_ops_min(left, SGPU_ROW_PART);
}

template <typename F>
SGPU_DEVICE double combine(const long_rows &job, const double *values, double start, F f,
			   double *shared)
{
	for (uint64_t i = threadIdx.x; i < job.parts; i += SGPU_CUDA_BLOCK) {
		start = f(start, values[i]);
	}
	return sgpu_cuda_block_reduce(start, f, shared);
}

template <typename T> SGPU_KERNEL part_tops(long_rows job, const T *input)
{
	__shared__ double shared[32];

	for (uint64_t item = blockIdx.x; item < job.rows * job.parts; item += gridDim.x) {
		uint64_t row = item / job.parts, part = item % job.parts;
		const T *from = input + row * job.count + part * SGPU_ROW_PART;
		double top = scan_top(from, part_size(job, part));

		top = sgpu_cuda_block_reduce(top, sgpu_cuda_larger(), shared);
		if (threadIdx.x == 0) {
			job.tops[item] = top;
		}
		__syncthreads();
	}
}

template <typename T> SGPU_KERNEL part_sums(long_rows job, const T *input, T *output)
{
	__shared__ double shared_top[32], shared_sum[32];

	for (uint64_t item = blockIdx.x; item < job.rows * job.parts; item += gridDim.x) {
		uint64_t row = item / job.parts, part = item % job.parts,
			 at = row * job.count + part * SGPU_ROW_PART;
		double top = combine(job, job.tops + row * job.parts, -(double)INFINITY,
				     sgpu_cuda_larger(), shared_top);
		double total =
			scan_exponentials(input + at, output + at, part_size(job, part), top);

		total = sgpu_cuda_block_reduce(total, sgpu_cuda_sum(), shared_sum);
		if (threadIdx.x == 0) {
			job.sums[item] = total;
		}
		__syncthreads();
	}
}

template <typename T> SGPU_KERNEL part_divide(long_rows job, T *output)
{
	__shared__ double shared[32];

	for (uint64_t item = blockIdx.x; item < job.rows * job.parts; item += gridDim.x) {
		uint64_t row = item / job.parts, part = item % job.parts;
		double total =
			combine(job, job.sums + row * job.parts, 0.0, sgpu_cuda_sum(), shared);

		scan_divide(output + row * job.count + part * SGPU_ROW_PART, part_size(job, part),
			    total);
		__syncthreads();
	}
}

template <typename T>
static int start_long(struct sgpu_launch *launch, const struct sgpu_op_call *call, uint64_t rows,
		      uint64_t count)
{
	uint64_t parts = sgpu_ops_parts(count);
	double *scratch = (double *)call->scratch;
	long_rows job = { rows, count, parts, scratch, scratch + rows * parts };
	unsigned grid = sgpu_cuda_grid(rows * parts, 1);
	void *input = call->data[INPUT], *output = call->data[OUTPUT];
	int rc = sgpu_cuda_run(launch, part_tops<T>, grid, job, input);

	rc = rc ? rc : sgpu_cuda_run(launch, part_sums<T>, grid, job, input, output);
	return rc ? rc : sgpu_cuda_run(launch, part_divide<T>, grid, job, output);
}

extern "C" int sgpu_softmax_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const struct sgpu_type *type = &call->type[INPUT];
	uint64_t rows = sgpu_ops_extent(type, 0, type->rank - 1),
		 count = type->shape[type->rank - 1];

	return SGPU_CUDA_FLOATS(type->dtype, T,
				count > SGPU_ROW_PART
					? start_long<T>(launch, call, rows, count)
					: sgpu_cuda_run(launch, block_rows<T>,
							sgpu_cuda_grid(rows, 1), rows, count,
							call->data[INPUT], call->data[OUTPUT]));
}
