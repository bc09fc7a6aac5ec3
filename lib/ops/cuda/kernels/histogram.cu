/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: as cpu/histogram.c. A block counts in shared memory, few bins with a copy for each
 * lane, so that equal values do not wait for each other, and then adds its counts to the output.
 * Very many bins are counted directly in the output.
 */
#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };
enum {
	COPIED_WORDS = 8192,	  /* words of shared memory for several copies of the table */
	SMALL_BLOCK_BINS = 12288, /* bins whose table fits several times into shared memory */
	WIDE_BLOCK = 1024,	  /* threads of a block that uses a multiprocessor alone */
	BLOCKS_EACH = 6,	  /* blocks for each multiprocessor */
};

/* copies: of the table in shared memory, a power of 2; 0: counts in the output. */
template <typename T>
static __global__ void __launch_bounds__(WIDE_BLOCK)
	count_any(const T *in, uint64_t count, struct sgpu_bins bins, unsigned copies, int32_t *out)
{
	extern __shared__ unsigned table[];
	unsigned *to = copies ? table + threadIdx.x % copies : (unsigned *)out,
		 step = copies ? copies : 1;

	for (unsigned i = threadIdx.x; i < (unsigned)bins.count * copies; i += blockDim.x) {
		table[i] = 0;
	}
	__syncthreads();
	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		unsigned bin = (unsigned)sgpu_histogram_bin(&bins, sgpu_cuda_f64(in[i]));

		if (bin < (unsigned)bins.count) {
			atomicAdd(to + bin * step, 1);
		}
	}
	__syncthreads();
	for (unsigned bin = threadIdx.x; copies && bin < (unsigned)bins.count; bin += blockDim.x) {
		unsigned sum = 0;

		/* threads start at different copies, so as to use different banks */
		for (unsigned i = 0; i < copies; i++) {
			sum += table[bin * copies + (threadIdx.x + i) % copies];
		}
		if (sum) {
			atomicAdd(out + bin, (int32_t)sum);
		}
	}
}

template <typename T>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count,
		 struct sgpu_bins bins)
{
	uint64_t words = (uint64_t)bins.count,
		 most = (uint64_t)sgpu_cuda_multiprocessors() * BLOCKS_EACH, blocks;
	unsigned copies = SGPU_CUDA_WARP, block = SGPU_CUDA_BLOCK;

	while (copies > 1 && words * copies > COPIED_WORDS) {
		copies /= 2;
	}
	if (words > SMALL_BLOCK_BINS) {
		copies =
			words * sizeof(unsigned) <=
					sgpu_cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)
				? 1
				: 0;
		block = WIDE_BLOCK;
	}
	/* more blocks would lose more time adding up tables than they save */
	blocks = count / ((words + block) * 16) + 1;
	blocks = sgpu_ops_min(blocks, most);
	return sgpu_cuda_start(launch, count_any<T>, (unsigned)blocks, block,
			       words * copies * sizeof(unsigned), call->data[INPUT], count, bins,
			       copies, call->data[OUTPUT]);
}

extern "C" int sgpu_histogram_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);
	const struct sgpu_bins bins = sgpu_histogram_bins(call);
	int rc = sgpu_cuda_runtime_check(
		launch, cudaMemsetAsync(call->data[OUTPUT], 0, (size_t)bins.count * sizeof(int32_t),
					sgpu_cuda_stream(launch)));

	return rc ? rc
		  : SGPU_CUDA_TYPES(call->type[INPUT].dtype, T,
				    start<T>(call, launch, count, bins));
}
