/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations' kernels share.
 *
 * Rules for an implementation:
 * - It enqueues on launch->native and does not wait. If a call fails, the implementation returns
 *   the code of sgpu_cuda_runtime_check.
 * - The result depends on inputs and parameters alone: not on the grid, the device's size, or the
 *   order of blocks. So sums keep a partial result for each part of a fixed size, added in the
 *   order of the parts; atomics never add floats.
 * - Kernels are compiled without contraction (-fmad=false), as the CPU's code is: a * b + c rounds
 *   twice. Where one rounding is wanted, fmaf() and fma() say so. half.h and cpu/math64.h give the
 *   same bits on both.
 * - Sizes and indexes of elements are uint64_t. A grid has at most 2^31 - 1 blocks: kernels loop
 *   over the rest.
 * - All of an output is written. Data start at multiples of 64 bytes.
 * - One thread writes codes and sizes found at run time to launch->status; launch->counters start
 *   at zero.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_COMMON_CUH
#define SGPU_OPS_CUDA_KERNELS_COMMON_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "ops/cuda/ops_cuda.h"
#include "ops/half.h"
#include "ops/ops_private.h"

enum { SGPU_CUDA_BLOCK = 256, SGPU_CUDA_WARP = 32 };

/* Marks a function of the device, and a kernel for sgpu_cuda_run. */
#define SGPU_DEVICE static __device__ __forceinline__
#define SGPU_KERNEL static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK)

/* ---- host side ---- */
static inline cudaStream_t sgpu_cuda_stream(const struct sgpu_launch *launch)
{
	return (cudaStream_t)launch->native;
}

/* sgpu_cuda_start(launch, kernel<float>, grid, block, shared bytes, arguments...) starts a kernel.
 * A `void *` becomes the pointer that the kernel takes. The kernel may have more than 48 KiB of
 * shared memory. */
template <typename... P, typename... A>
static inline int sgpu_cuda_start(struct sgpu_launch *launch, void (*kernel)(P...), dim3 grid,
				  dim3 block, size_t shared, A... arguments)
{
	int rc = 0;

	if (shared > 48 * 1024) {
		rc = sgpu_cuda_runtime_check(
			launch, cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
						     cudaFuncAttributeMaxDynamicSharedMemorySize,
						     (int)shared));
	}
	if (rc) {
		return rc;
	}
	(void)cudaGetLastError(); /* clears an error of an earlier call */
	kernel<<<grid, block, shared, sgpu_cuda_stream(launch)>>>(static_cast<P>(arguments)...);
	return sgpu_cuda_runtime_check(launch, cudaGetLastError());
}

/* The same in blocks of SGPU_CUDA_BLOCK threads, without dynamic shared memory. */
template <typename... P, typename... A>
static inline int sgpu_cuda_run(struct sgpu_launch *launch, void (*kernel)(P...), unsigned grid,
				A... arguments)
{
	return sgpu_cuda_start(launch, kernel, grid, SGPU_CUDA_BLOCK, 0, arguments...);
}

/* An attribute of the device in use; 0 if it is unknown. */
static inline unsigned sgpu_cuda_attribute(cudaDeviceAttr attribute)
{
	int device = 0, value = 0;

	return cudaGetDevice(&device) == cudaSuccess &&
			       cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess
		       ? (unsigned)value
		       : 0;
}

static inline unsigned sgpu_cuda_multiprocessors()
{
	unsigned count = sgpu_cuda_attribute(cudaDevAttrMultiProcessorCount);

	return count ? count : 1;
}

/* Blocks, each taking `per_block` at a time, for a grid-stride loop over `items`: at least 1, at
 * most 16 per multiprocessor. */
static inline unsigned sgpu_cuda_grid(uint64_t items, uint64_t per_block)
{
	uint64_t blocks = sgpu_ops_ceil(items, per_block),
		 most = 16ull * sgpu_cuda_multiprocessors();

	return blocks < 1 ? 1 : (unsigned)sgpu_ops_min(blocks, most);
}

/* Blocks for a kernel in which a block takes every gridDim.x-th item. */
static inline unsigned sgpu_cuda_blocks(uint64_t items)
{
	return items < 1 ? 1 : items < 0x7fffffffu ? (unsigned)items : 0x7fffffffu;
}

/* This thread's number in the grid, and how many threads there are. */
SGPU_DEVICE uint64_t sgpu_cuda_self()
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

SGPU_DEVICE uint64_t sgpu_cuda_step()
{
	return (uint64_t)gridDim.x * blockDim.x;
}

/* ---- element types ---- */
struct sgpu_half { /* a type of its own, apart from integers */
	uint16_t bits;
};

/* The value of the expression with T naming the C type of a dtype, or 0:
 *	return SGPU_CUDA_TYPES(type->dtype, T, start<T>(call, launch)); */
#define SGPU_CUDA_CASE(code, type, T, ...) \
	case code: {                       \
		using T = type;            \
		return __VA_ARGS__;        \
	}
#define SGPU_CUDA_FLOAT_CASES(T, ...)                    \
	SGPU_CUDA_CASE(SGPU_F32, float, T, __VA_ARGS__)  \
	SGPU_CUDA_CASE(SGPU_F64, double, T, __VA_ARGS__) \
	default:                                         \
		return 0;
#define SGPU_CUDA_FLOATS(dtype, T, ...)                       \
	[&] {                                                 \
		switch (dtype) {                              \
			SGPU_CUDA_FLOAT_CASES(T, __VA_ARGS__) \
		}                                             \
	}()
#define SGPU_CUDA_TYPES(dtype, T, ...)                                      \
	[&] {                                                               \
		switch (dtype) {                                            \
			SGPU_CUDA_CASE(SGPU_I32, int32_t, T, __VA_ARGS__)   \
			SGPU_CUDA_CASE(SGPU_U8, uint8_t, T, __VA_ARGS__)    \
			SGPU_CUDA_CASE(SGPU_I16, int16_t, T, __VA_ARGS__)   \
			SGPU_CUDA_CASE(SGPU_F16, sgpu_half, T, __VA_ARGS__) \
			SGPU_CUDA_FLOAT_CASES(T, __VA_ARGS__)               \
		}                                                           \
	}()

/* The same with T the unsigned integer of a size in bytes. */
#define SGPU_CUDA_SIZES(size, T, ...)                               \
	[&] {                                                       \
		switch (size) {                                     \
			SGPU_CUDA_CASE(1, uint8_t, T, __VA_ARGS__)  \
			SGPU_CUDA_CASE(2, uint16_t, T, __VA_ARGS__) \
			SGPU_CUDA_CASE(4, uint32_t, T, __VA_ARGS__) \
			SGPU_CUDA_CASE(8, uint64_t, T, __VA_ARGS__) \
		default:                                            \
			return 0;                                   \
		}                                                   \
	}()

/* The element as f64, which is exact for every type. */
template <typename T> SGPU_DEVICE double sgpu_cuda_f64(T value)
{
	return (double)value;
}
template <> __device__ __forceinline__ double sgpu_cuda_f64<sgpu_half>(sgpu_half value)
{
	return (double)sgpu_half_to_float(value.bits);
}

/* ---- packs: several elements in one access ---- */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) sgpu_pack {
	T at[N];
};

/* output[i] = f(inputs[i]...), N (2, 4, 8 or 16) elements an access; output may not be an input. */
template <int N, typename F, typename O, typename... I>
SGPU_KERNEL sgpu_cuda_map_kernel(uint64_t count, F f, O *output, const I *...inputs)
{
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();
	auto map_pack = [&f](const sgpu_pack<I, N> &...in) {
		sgpu_pack<O, N> out;
#pragma unroll
		for (int j = 0; j < N; j++) {
			out.at[j] = f(in.at[j]...);
		}
		return out;
	};

	for (uint64_t i = self; i < count / N; i += step) {
		reinterpret_cast<sgpu_pack<O, N> *>(output)[i] =
			map_pack(reinterpret_cast<const sgpu_pack<I, N> *>(inputs)[i]...);
	}
	for (uint64_t i = count - count % N + self; i < count; i += step) {
		output[i] = f(inputs[i]...);
	}
}

/* f is a struct with `__device__ O operator()(I...) const`. */
template <int N, typename F, typename O, typename... I>
static inline int sgpu_cuda_map(struct sgpu_launch *launch, uint64_t count, F f, O *output,
				const I *...inputs)
{
	return sgpu_cuda_run(launch, sgpu_cuda_map_kernel<N, F, O, I...>,
			     sgpu_cuda_grid(count, SGPU_CUDA_BLOCK * N), count, f, output,
			     inputs...);
}

/* ---- reductions in a fixed order ---- */
struct sgpu_cuda_larger {
	template <typename T> __device__ T operator()(T a, T b) const
	{
		return b > a ? b : a;
	}
};

struct sgpu_cuda_sum {
	template <typename T> __device__ T operator()(T a, T b) const
	{
		return a + b;
	}
};

/* Combines a warp's lanes as a tree, the same for every grid; every lane gets the result. f(a, b)
 * gets the lower lane's value first. T has 4 or 8 bytes. */
template <typename T, typename F> SGPU_DEVICE T sgpu_cuda_warp_reduce(T value, F f)
{
#pragma unroll
	for (unsigned step = 1; step < SGPU_CUDA_WARP; step *= 2) {
		T other = __shfl_xor_sync(0xffffffffu, value, step);

		value = threadIdx.x & step ? f(other, value) : f(value, other);
	}
	return value;
}

/* Adds eight neighbouring lanes as sgpu_ops_add_lanes does. */
SGPU_DEVICE double sgpu_cuda_add_lanes(double mine)
{
	mine += __shfl_xor_sync(0xffffffffu, mine, 4);
	mine += __shfl_xor_sync(0xffffffffu, mine, 2);
	mine += __shfl_xor_sync(0xffffffffu, mine, 1);
	return mine;
}

/* As sgpu_cuda_warp_reduce, for all threads of a block of one dimension and a multiple of 32
 * threads, at most 1024; `shared` holds 32 values and may be reused after a __syncthreads(). */
template <typename T, typename F> SGPU_DEVICE T sgpu_cuda_block_reduce(T value, F f, T *shared)
{
	unsigned warps = blockDim.x / SGPU_CUDA_WARP;

	value = sgpu_cuda_warp_reduce(value, f);
	if (threadIdx.x % SGPU_CUDA_WARP == 0) {
		shared[threadIdx.x / SGPU_CUDA_WARP] = value;
	}
	__syncthreads();
	value = shared[0];
	for (unsigned i = 1; i < warps; i++) {
		value = f(value, shared[i]);
	}
	return value;
}

#endif
