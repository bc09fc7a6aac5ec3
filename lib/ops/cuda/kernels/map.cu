/* SPDX-License-Identifier: Apache-2.0
 *
 * map: as cpu/map.c. A thread carries out each instruction on several elements, so that decoding it
 * counts little. The last result is in registers; those that are read later are in shared memory,
 * where every thread has its own column. All threads go the same way through the program.
 */
#include <type_traits>

#include "ops/cuda/kernels/common.cuh"
#include "ops/map_element.h"

/* W holds a value: uint32_t for small programs, else uint64_t. A thread has several groups of
 * values, each of one access: as many as registers allow. */
template <typename W> constexpr int together = 16 / sizeof(W);
template <typename W> constexpr int groups = sizeof(W) == 4 ? 4 : 2;
template <typename W> constexpr int values = groups<W> *together<W>;
template <typename W> using group = sgpu_pack<W, together<W>>;

static_assert(sizeof(struct sgpu_map_job) <= 4096, "the parameters of a kernel");

/* ---- values as bits; elements of narrower types are widened, and f16 to f32 ---- */
template <typename W, typename T> SGPU_DEVICE W bits_of(T value)
{
	if constexpr (std::is_same<T, sgpu_half>::value) {
		return __float_as_uint(sgpu_half_to_float(value.bits));
	} else if constexpr (std::is_same<T, float>::value) {
		return __float_as_uint(value);
	} else if constexpr (std::is_same<T, double>::value) {
		return (W)__double_as_longlong(value);
	} else {
		return (W)value;
	}
}

template <typename T, typename W> SGPU_DEVICE T value_of(W bits)
{
	if constexpr (std::is_same<T, sgpu_half>::value) {
		return { sgpu_map_half(__uint_as_float((uint32_t)bits)) };
	} else if constexpr (std::is_same<T, float>::value) {
		return __uint_as_float((uint32_t)bits);
	} else if constexpr (std::is_same<T, double>::value) {
		return __longlong_as_double((long long)bits);
	} else if constexpr (sizeof(W) == 4) {
		return (T)(int32_t)bits;
	} else {
		return (T)bits;
	}
}

/* clang-format off */
/* X(dtype, type in memory) */
#define TYPES(X) \
	X(SGPU_F32, float) X(SGPU_F64, double) X(SGPU_F16, sgpu_half) X(SGPU_I8, int8_t) X(SGPU_U8, uint8_t) \
	X(SGPU_I16, int16_t) X(SGPU_U16, uint16_t) X(SGPU_I32, int32_t) X(SGPU_U32, uint32_t) \
	X(SGPU_I64, int64_t) X(SGPU_U64, uint64_t)
/* clang-format on */

/* One group of elements of an input, from index `at` of the output. */
template <typename T, typename W>
SGPU_DEVICE void load_group(const struct sgpu_map_job &job, const struct sgpu_map_view &view,
			    uint64_t at, W *to)
{
	const T *data = (const T *)view.data;

	if (view.whole && at + together<W> <= job.count) {
		const sgpu_pack<T, together<W>> pack =
			*reinterpret_cast<const sgpu_pack<T, together<W>> *>(data + at);
#pragma unroll
		for (int i = 0; i < together<W>; i++) {
			to[i] = bits_of<W>(pack.at[i]);
		}
		return;
	}
#pragma unroll
	for (int i = 0; i < together<W>; i++) {
		uint64_t place = sgpu_ops_min(at + i, job.count - 1);

		place = view.whole ? place : sgpu_map_place(&job, &view, place);
		to[i] = bits_of<W>(data[place]);
	}
}

template <typename T, typename W>
SGPU_DEVICE void store_group(const struct sgpu_map_job &job, uint64_t at, const W *from)
{
	T *data = (T *)job.output;
	sgpu_pack<T, together<W>> pack;

#pragma unroll
	for (int i = 0; i < together<W>; i++) {
		pack.at[i] = value_of<T>(from[i]);
	}
	if (at + together<W> <= job.count) {
		*reinterpret_cast<sgpu_pack<T, together<W>> *>(data + at) = pack;
		return;
	}
#pragma unroll
	for (int i = 0; i < together<W>; i++) {
		if (at + i < job.count) {
			data[at + i] = pack.at[i];
		}
	}
}

/* ---- instructions ---- */
/* Where a thread's values of a slot are: one access for each group. */
template <typename W> SGPU_DEVICE group<W> *slot(uint4 *shared, unsigned slot, int i)
{
	return reinterpret_cast<group<W> *>(shared) + (slot * groups<W> + i) * SGPU_CUDA_BLOCK +
	       threadIdx.x;
}

/* The element at which a group of this thread starts. */
template <typename W> SGPU_DEVICE uint64_t group_at(uint64_t base, int i)
{
	return base + ((uint64_t)i * SGPU_CUDA_BLOCK + threadIdx.x) * together<W>;
}

/* A small program has no elements of 8 bytes. */
#define EACH_GROUP(dtype, type, ...)                                          \
	case dtype:                                                           \
		if constexpr (sizeof(type) <= sizeof(W)) {                    \
			_Pragma("unroll") for (int i = 0; i < groups<W>; i++) \
			{                                                     \
				__VA_ARGS__;                                  \
			}                                                     \
		}                                                             \
		break;
template <typename W>
SGPU_DEVICE void load(const struct sgpu_map_job &job, const struct sgpu_map_view &view,
		      uint64_t base, W *to)
{
	switch (view.dtype) {
#define LOAD(dtype, type)       \
	EACH_GROUP(dtype, type, \
		   load_group<type>(job, view, group_at<W>(base, i), to + i * together<W>))
		TYPES(LOAD)
	default:
		break;
	}
}

template <typename W>
SGPU_DEVICE void store(const struct sgpu_map_job &job, uint64_t base, const W *from)
{
	switch (job.program.result) {
#define STORE(dtype, type)      \
	EACH_GROUP(dtype, type, \
		   store_group<type>(job, group_at<W>(base, i), from + i * together<W>))
		TYPES(STORE)
	default:
		break;
	}
}

/* Reads an operand. `last` is the slot of the previous result, which is in `result`. */
template <typename W>
SGPU_DEVICE void fetch(const struct sgpu_map_job &job, unsigned from, uint64_t base, uint4 *shared,
		       unsigned last, const W *result, W *to)
{
	if (from < SGPU_MAP_SLOTS) {
#pragma unroll
		for (int i = 0; i < values<W> && from == last; i++) {
			to[i] = result[i];
		}
#pragma unroll
		for (int i = 0; i < groups<W> && from != last; i++) {
			const group<W> pack = *slot<W>(shared, from, i);

#pragma unroll
			for (int j = 0; j < together<W>; j++) {
				to[i * together<W> + j] = pack.at[j];
			}
		}
	} else if (from >= SGPU_MAP_FROM_CONSTANT) {
		const W bits = (W)job.program.constants[from - SGPU_MAP_FROM_CONSTANT];

#pragma unroll
		for (int i = 0; i < values<W>; i++) {
			to[i] = bits;
		}
	} else if (from != SGPU_MAP_UNUSED) {
		load<W>(job, job.view[from - SGPU_MAP_FROM_INPUT], base, to);
	}
}

#define ELEMENT(op, kind, A, B, C, R, expression)                     \
	case SGPU_MAP_##op *SGPU_MAP_KIND_COUNT + SGPU_MAP_##kind:    \
		_Pragma("unroll") for (int i = 0; i < values<W>; i++) \
		{                                                     \
			const A a = value_of<A>(x[i]);                \
			const B b = value_of<B>(y[i]);                \
			const C c = value_of<C>(z[i]);                \
                                                                      \
			(void)b;                                      \
			(void)c;                                      \
			result[i] = bits_of<W>((R)(expression));      \
		}                                                     \
		return;
template <typename W>
SGPU_DEVICE void compute(unsigned operation, const W *x, const W *y, const W *z, W *result)
{
	switch (operation) {
		SGPU_MAP_SMALL_ELEMENTS(ELEMENT)
	default:
		break;
	}
	if constexpr (sizeof(W) == 8) {
		switch (operation) {
			SGPU_MAP_LARGE_ELEMENTS(ELEMENT)
		default:
			break;
		}
	}
}

/* Brings results to a narrower type. */
template <typename W> SGPU_DEVICE void narrow(unsigned type, W *bits)
{
	if (type == SGPU_NONE) {
		return;
	}
	switch (type) {
#define NARROW(dtype, type)                                            \
	case dtype:                                                    \
		_Pragma("unroll") for (int i = 0; i < values<W>; i++)  \
		{                                                      \
			bits[i] = bits_of<W>(value_of<type>(bits[i])); \
		}                                                      \
		break;
		TYPES(NARROW)
	default:
		break;
	}
}

/* Several blocks at a time, so that enough loads are under way. */
template <typename W>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK, 2)
	interpret(const __grid_constant__ struct sgpu_map_job job)
{
	extern __shared__ uint4 shared[];
	const uint64_t block = (uint64_t)SGPU_CUDA_BLOCK * values<W>;

	for (uint64_t base = blockIdx.x * block; base < job.count; base += gridDim.x * block) {
		unsigned last = SGPU_MAP_UNUSED;
		W x[values<W>], y[values<W>], z[values<W>], result[values<W>];

		for (unsigned at = 0; at < job.program.count; at++) {
			const struct sgpu_map_instruction in = job.program.list[at];

			fetch<W>(job, in.from[0], base, shared, last, result, x);
			fetch<W>(job, in.from[1], base, shared, last, result, y);
			fetch<W>(job, in.from[2], base, shared, last, result, z);
			compute<W>(in.op * SGPU_MAP_KIND_COUNT + in.kind, x, y, z, result);
			narrow<W>(in.narrow, result);
#pragma unroll
			for (int i = 0; i < groups<W> && in.kept; i++) {
				*slot<W>(shared, in.to, i) =
					*reinterpret_cast<group<W> *>(result + i * together<W>);
			}
			last = in.to;
		}
		store<W>(job, base, result);
	}
}

template <typename W> static int start(const struct sgpu_map_job &job, struct sgpu_launch *launch)
{
	const uint64_t block = (uint64_t)SGPU_CUDA_BLOCK * values<W>;

	return sgpu_cuda_start(
		launch, "map", interpret<W>, sgpu_cuda_grid(job.count, block), SGPU_CUDA_BLOCK,
		(size_t)job.program.slots * groups<W> * SGPU_CUDA_BLOCK * sizeof(uint4), job);
}

extern "C" int sgpu_map_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct sgpu_type output;
	struct sgpu_map_job job;
	int rc = sgpu_map_prepare(call, &job, &output, launch->error);

	if (rc || job.count == 0) {
		return rc;
	}
	return job.program.small ? start<uint32_t>(job, launch) : start<uint64_t>(job, launch);
}
