/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram: as cpu/histogram.c. Each block counts in shared memory, with a copy of few bins for
 * each lane, so that equal values do not wait for each other, and then adds its counts to the
 * output. Very many bins are counted directly in the output.
 */
#include <math.h>

#include "ops/cuda/kernels/common.cuh"

enum { INPUT, OUTPUT };
enum { BINS, MIN, MAX };
enum {
	COPIED_WORDS = 8192,	  /* words of shared memory for several copies of the table */
	SMALL_BLOCK_BINS = 12288, /* bins whose table fits several times into shared memory */
	WIDE_BLOCK = 1024,	  /* threads of a block that uses a multiprocessor alone */
	VALUES_U8 = 256,
	BLOCKS_EACH = 6, /* blocks for each multiprocessor */
};

struct bins {
	int count;
	double min, max, width, inverse;
	bool quick; /* multiplying by `inverse` gives the exact quotient */
	/* For elements that f32 holds: the same bounds in f32, and the error in bins of a quotient
	 * in f32; 1: too large to use f32. */
	float min_f32, low_f32, high_f32, inverse_f32, error_f32;
};

/* (value - min) / width, rounded once: from the inverse of the width, corrected twice by the
 * remainder (P. Markstein, Computation of elementary functions on the IBM RISC System/6000
 * processor, 1990). */
SGPU_DEVICE double quotient(const struct bins &bins, double value)
{
	double distance = __dsub_rn(value, bins.min), near;

	if (!bins.quick) {
		return __ddiv_rn(distance, bins.width);
	}
	near = __dmul_rn(distance, bins.inverse);
	near = __fma_rn(__fma_rn(-bins.width, near, distance), bins.inverse, near);
	return __fma_rn(__fma_rn(-bins.width, near, distance), bins.inverse, near);
}

/* The bin of a value, or -1 if it is outside the range. */
SGPU_DEVICE int locate(const struct bins &bins, double value)
{
	double last = (double)(bins.count - 1), q, edge, next;
	int bin;

	if (!(value >= bins.min && value <= bins.max)) {
		return -1;
	}
	q = quotient(bins, value);
	bin = (int)(q < last ? q : last);
	edge = __dadd_rn(__dmul_rn((double)bin, bins.width), bins.min);
	next = __dadd_rn(__dmul_rn((double)(bin + 1), bins.width), bins.min);
	bin -= value < edge && bin > 0;
	bin += value >= next && bin < bins.count - 1;
	return bin;
}

/* The bin of an element of any type. Most values that f32 holds lie so far from the bins' edges
 * that f32 finds the bin. */
template <typename T> SGPU_DEVICE int locate_element(const struct bins &bins, T element)
{
	return locate(bins, sgpu_cuda_f64(element));
}

SGPU_DEVICE int locate_f32(const struct bins &bins, float value)
{
	float quotient = (value - bins.min_f32) * bins.inverse_f32, bin = floorf(quotient),
	      rest = quotient - bin;

	if (!(value >= bins.low_f32 && value <= bins.high_f32)) {
		return -1;
	}
	return rest > bins.error_f32 && rest < 1 - bins.error_f32 ? (int)bin
								  : locate(bins, (double)value);
}
template <>
__device__ __forceinline__ int locate_element<float>(const struct bins &bins, float element)
{
	return locate_f32(bins, element);
}
template <>
__device__ __forceinline__ int locate_element<int16_t>(const struct bins &bins, int16_t element)
{
	return locate_f32(bins, element);
}
template <>
__device__ __forceinline__ int locate_element<sgpu_half>(const struct bins &bins, sgpu_half element)
{
	return locate_f32(bins, sgpu_half_to_float(element.bits));
}

/* Calls f(element) for all elements of this thread's share, loading several per access. */
template <typename T, typename F> SGPU_DEVICE void for_each(const T *in, uint64_t count, F f)
{
	constexpr int N = 16 / sizeof(T);
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();

	for (uint64_t i = self; i < count / N; i += step) {
		sgpu_pack<T, N> pack = reinterpret_cast<const sgpu_pack<T, N> *>(in)[i];

#pragma unroll
		for (int j = 0; j < N; j++) {
			f(pack.at[j]);
		}
	}
	for (uint64_t i = count - count % N + self; i < count; i += step) {
		f(in[i]);
	}
}

/* Adds up a slot's copies. Each thread starts at a different copy, so that threads use different
 * banks. */
SGPU_DEVICE unsigned slot_sum(const unsigned *table, unsigned slot, unsigned copies)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < copies; i++) {
		sum += table[slot * copies + (threadIdx.x + i) % copies];
	}
	return sum;
}

SGPU_DEVICE void clear(unsigned *table, unsigned words)
{
	for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
		table[i] = 0;
	}
	__syncthreads();
}

/* copies: of the table in shared memory, a power of 2; 0: uses no shared memory. */
template <typename T>
static __global__ void __launch_bounds__(WIDE_BLOCK)
	count_any(const T *in, uint64_t count, struct bins bins, unsigned copies, int32_t *out)
{
	extern __shared__ unsigned table[];
	unsigned copy = copies ? threadIdx.x % copies : 0;

	if (copies == 0) {
		for_each(in, count, [&](T value) {
			int bin = locate_element(bins, value);

			if (bin >= 0) {
				atomicAdd(out + bin, 1);
			}
		});
		return;
	}
	clear(table, (unsigned)bins.count * copies);
	for_each(in, count, [&](T value) {
		int bin = locate_element(bins, value);

		if (bin >= 0) {
			atomicAdd(table + (unsigned)bin * copies + copy, 1);
		}
	});
	__syncthreads();
	for (unsigned bin = threadIdx.x; bin < (unsigned)bins.count; bin += blockDim.x) {
		unsigned sum = slot_sum(table, bin, copies);

		if (sum) {
			atomicAdd(out + bin, (int32_t)sum);
		}
	}
}

/* For bytes: counts how often each of the 256 values occurs, then adds each count to its bin. */
SGPU_KERNEL count_u8(const uint8_t *in, uint64_t count, struct bins bins, int32_t *out)
{
	__shared__ unsigned table[VALUES_U8 * SGPU_CUDA_WARP];
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	clear(table, VALUES_U8 * SGPU_CUDA_WARP);
	for_each(in, count,
		 [&](uint8_t value) { atomicAdd(table + value * SGPU_CUDA_WARP + lane, 1); });
	__syncthreads();
	for (unsigned value = threadIdx.x; value < VALUES_U8; value += blockDim.x) {
		unsigned sum = slot_sum(table, value, SGPU_CUDA_WARP);
		int bin = locate(bins, (double)value);

		if (sum && bin >= 0) {
			atomicAdd(out + bin, (int32_t)sum);
		}
	}
}

/* The most shared memory that a block may have on this device. */
static size_t shared_most()
{
	int device = 0, most = 0;

	if (cudaGetDevice(&device) != cudaSuccess ||
	    cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
		    cudaSuccess) {
		return 0;
	}
	return (size_t)most;
}

template <typename T>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count,
		 struct bins bins)
{
	const T *in = (const T *)call->data[INPUT];
	int32_t *out = (int32_t *)call->data[OUTPUT];
	uint64_t words = (uint64_t)bins.count,
		 most = (uint64_t)sgpu_cuda_multiprocessors() * BLOCKS_EACH, blocks;
	unsigned copies = SGPU_CUDA_WARP, block = SGPU_CUDA_BLOCK;

	while (copies > 1 && words * copies > COPIED_WORDS) {
		copies /= 2;
	}
	if (words > SMALL_BLOCK_BINS) {
		copies = words * sizeof(unsigned) <= shared_most() ? 1 : 0;
		block = WIDE_BLOCK;
	}
	/* more blocks would spend more time on adding up their tables than they save */
	blocks = count / ((words + block) * 16) + 1;
	blocks = sgpu_ops_min(blocks, most);
	return sgpu_cuda_start(launch, "histogram", count_any<T>, (unsigned)blocks, block,
			       words * copies * sizeof(unsigned), in, count, bins, copies, out);
}

template <>
int start<uint8_t>(struct sgpu_op_call *call, struct sgpu_launch *launch, uint64_t count,
		   struct bins bins)
{
	uint64_t most = (uint64_t)sgpu_cuda_multiprocessors() * BLOCKS_EACH;
	uint64_t blocks = count / (SGPU_CUDA_BLOCK * 64) + 1;

	blocks = sgpu_ops_min(blocks, most);
	return sgpu_cuda_run(launch, "histogram", count_u8, (unsigned)blocks,
			     (const uint8_t *)call->data[INPUT], count, bins,
			     (int32_t *)call->data[OUTPUT]);
}

/* The least f32 that is not below a value, and the greatest that is not above it. */
static float round_up(double value)
{
	float near = (float)value;

	return (double)near < value ? nextafterf(near, INFINITY) : near;
}

static float round_down(double value)
{
	return -round_up(-value);
}

static struct bins make_bins(int count, double min, double max)
{
	struct bins bins = { count, min, max };
	double size = fmax(fabs(min), fabs(max)), error;

	bins.width = (max - min) / count;
	bins.inverse = 1.0 / bins.width;
	bins.quick = bins.width > 0x1p-900 && bins.width < 0x1p900;
	bins.min_f32 = (float)min;
	bins.low_f32 = round_up(min);
	bins.high_f32 = round_down(max);
	bins.inverse_f32 = (float)bins.inverse;
	/* the quotient is rounded three times and the lower bound once; twice that, to be safe */
	error = count * 0x1p-21 + size / bins.width * 0x1p-23;
	bins.error_f32 = size < 0x1p120 && bins.width > 0x1p-100 && error < 0.25 ? (float)error : 1;
	return bins;
}

extern "C" int sgpu_histogram_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[INPUT]);
	struct bins bins = make_bins((int)call->param[BINS].number, call->param[MIN].number,
				     call->param[MAX].number);
	int rc;

	rc = sgpu_cuda_runtime_check(launch, "histogram",
				     cudaMemsetAsync(call->data[OUTPUT], 0,
						     (size_t)bins.count * sizeof(int32_t),
						     sgpu_cuda_stream(launch)));
	if (rc || count == 0) {
		return rc;
	}
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, T, start<T>(call, launch, count, bins));
}
