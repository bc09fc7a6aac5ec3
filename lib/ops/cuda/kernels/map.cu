/* SPDX-License-Identifier: Apache-2.0
 *
 * map: as cpu/map.c. All values are in shared memory, where every thread has its own columns:
 * inputs are brought there once, instructions read operands and leave results there. A thread
 * carries out an instruction on several groups of elements, so that decoding counts little. All
 * threads go the same way through the program.
 */
#include <cuda_pipeline.h>
#include <type_traits>

#include "ops/cuda/kernels/common.cuh"
#include "ops/map_element.h"

/* W holds a value: uint32_t for small programs, else uint64_t. A group is one access. */
template <typename W> constexpr int together = 16 / sizeof(W);
template <typename W> using group = sgpu_pack<W, together<W>>;

/* Shared memory has a column for each slot, then for each input that is read, of all groups of a
 * thread; then the constants, a group each. With this much, four blocks run at once on a
 * multiprocessor. */
enum { GROUPS_MAX = 4, SHARED_BYTES = 48 << 10, COLUMN_BYTES = SGPU_CUDA_BLOCK * 16 };

static_assert(sizeof(struct sgpu_map_job) <= 4080, "the parameters of a kernel");

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

/* ---- inputs and the output ---- */
/* For each type in memory; a small program has no elements of 8 bytes. */
#define EACH_TYPE(dtype, type, ...)                        \
	case dtype:                                        \
		if constexpr (sizeof(type) <= sizeof(W)) { \
			__VA_ARGS__;                       \
		}                                          \
		break;

/* Where a thread's group begins in the output. */
template <typename W> SGPU_DEVICE uint64_t group_at(uint64_t base, int i)
{
	return base + ((uint64_t)i * SGPU_CUDA_BLOCK + threadIdx.x) * together<W>;
}

template <typename W, typename T> SGPU_DEVICE void load_group(const T *data, group<W> *to)
{
	if constexpr (sizeof(T) == sizeof(W)) {
		__pipeline_memcpy_async(to, data, sizeof(*to));
	} else {
		const sgpu_pack<T, together<W>> pack =
			*reinterpret_cast<const sgpu_pack<T, together<W>> *>(data);
#pragma unroll
		for (int i = 0; i < together<W>; i++) {
			to->at[i] = bits_of<W>(pack.at[i]);
		}
	}
}

template <typename W> SGPU_DEVICE W load_one(const struct sgpu_map_view &view, uint64_t place)
{
	switch (view.dtype) {
#define LOAD_ONE(dtype, type) \
	EACH_TYPE(dtype, type, return bits_of<W>(((const type *)view.data)[place]))
		TYPES(LOAD_ONE)
	default:
		return 0;
	}
	return 0;
}

/* `whole`: all groups of the block are within the output. */
template <typename W>
SGPU_DEVICE void load(const struct sgpu_map_job &job, const struct sgpu_map_view &view,
		      uint64_t base, int groups, bool whole, group<W> *to)
{
	if (whole && view.whole) {
		switch (view.dtype) {
#define LOAD(dtype, type)                                                               \
	EACH_TYPE(dtype, type,                                                          \
		  _Pragma("unroll 4") for (int i = 0; i < groups; i++)                  \
			  load_group<W>((const type *)view.data + group_at<W>(base, i), \
					to + i * SGPU_CUDA_BLOCK))
			TYPES(LOAD)
		default:
			break;
		}
		return;
	}
#pragma unroll 1
	for (int i = 0; i < groups * together<W>; i++) {
		const int j = i % together<W>, k = i / together<W>;
		const uint64_t at = sgpu_ops_min(group_at<W>(base, k) + j, job.count - 1);

		to[k * SGPU_CUDA_BLOCK].at[j] =
			load_one<W>(view, view.whole ? at : sgpu_map_place(&job, &view, at));
	}
}

template <typename W, typename T> SGPU_DEVICE void store_group(T *data, const group<W> &from)
{
	sgpu_pack<T, together<W>> pack;

#pragma unroll
	for (int i = 0; i < together<W>; i++) {
		pack.at[i] = value_of<T>(from.at[i]);
	}
	*reinterpret_cast<sgpu_pack<T, together<W>> *>(data) = pack;
}

template <typename W>
SGPU_DEVICE void store(const struct sgpu_map_job &job, uint64_t base, int groups, bool whole,
		       const group<W> *from)
{
#pragma unroll 1
	for (int i = 0; i < groups; i++, from += SGPU_CUDA_BLOCK) {
		const uint64_t at = group_at<W>(base, i);

		switch (job.program.result) {
#define STORE(dtype, type)                                                            \
	EACH_TYPE(                                                                    \
		dtype, type, type *data = (type *)job.output + at;                    \
		if (whole) { store_group<W>(data, *from); } else {                    \
			for (int j = 0; j < together<W> && at + j < job.count; j++) { \
				data[j] = value_of<type>(from->at[j]);                \
			}                                                             \
		})
			TYPES(STORE)
		default:
			break;
		}
	}
}

/* ---- instructions ---- */
/* A thread's values of an operand: those of a constant are all one group. */
template <typename W> struct operand {
	const group<W> *first;
	int step; /* between groups */
};

#define ELEMENT(op, kind, A, B, C, R, expression)                                        \
	case SGPU_MAP_##op *SGPU_MAP_KIND_COUNT + SGPU_MAP_##kind:                       \
		_Pragma("unroll 1") for (int i = 0; i < groups; i++)                     \
		{                                                                        \
			const group<W> p = x.first[i * x.step], q = y.first[i * y.step], \
				       r = z.first[i * z.step];                          \
			group<W> result;                                                 \
                                                                                         \
			_Pragma("unroll") for (int j = 0; j < together<W>; j++)          \
			{                                                                \
				const A a = value_of<A>(p.at[j]);                        \
				const B b = value_of<B>(q.at[j]);                        \
				const C c = value_of<C>(r.at[j]);                        \
                                                                                         \
				(void)b;                                                 \
				(void)c;                                                 \
				result.at[j] = bits_of<W>((R)(expression));              \
			}                                                                \
			to[i * SGPU_CUDA_BLOCK] = result;                                \
		}                                                                        \
		return;
template <typename W>
SGPU_DEVICE void compute(unsigned operation, int groups, operand<W> x, operand<W> y, operand<W> z,
			 group<W> *to)
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

template <typename W> SGPU_DEVICE void narrow(unsigned type, int groups, group<W> *column)
{
	switch (type) {
#define NARROW(dtype, type)                                                         \
	EACH_TYPE(                                                                  \
		dtype, type, _Pragma("unroll 1") for (int i = 0; i < groups; i++) { \
			group<W> &one = column[i * SGPU_CUDA_BLOCK];                \
			_Pragma("unroll") for (int j = 0; j < together<W>; j++)     \
			{                                                           \
				one.at[j] = bits_of<W>(value_of<type>(one.at[j]));  \
			}                                                           \
		})
		TYPES(NARROW)
	default:
		break;
	}
}

template <typename W>
static __global__ void __launch_bounds__(SGPU_CUDA_BLOCK, sizeof(W) == 4 ? 4 : 3)
	interpret(const __grid_constant__ struct sgpu_map_job job, int groups)
{
	extern __shared__ uint4 shared[];
	const struct sgpu_map_program &program = job.program;
	const int size = groups * SGPU_CUDA_BLOCK; /* of a column */
	const int inputs = program.slots * size;   /* where theirs start */
	group<W> *const all = reinterpret_cast<group<W> *>(shared);
	group<W> *const constants = all + inputs + __popc(program.inputs) * size;
	group<W> *const own = all + threadIdx.x;
	const uint64_t block = (uint64_t)size * together<W>;
	auto column = [&](unsigned input) {
		return own + inputs + __popc(program.inputs & ((1u << input) - 1)) * size;
	};
	auto find = [&](unsigned from) -> operand<W> {
		return from >= SGPU_MAP_FROM_CONSTANT
			       ? operand<W>{ constants + from - SGPU_MAP_FROM_CONSTANT, 0 }
		       : from < SGPU_MAP_SLOTS
			       ? operand<W>{ own + from * size, SGPU_CUDA_BLOCK }
			       : operand<W>{ column(from - SGPU_MAP_FROM_INPUT), SGPU_CUDA_BLOCK };
	};

	for (unsigned i = threadIdx.x; i < program.constant_count; i += SGPU_CUDA_BLOCK) {
		for (int j = 0; j < together<W>; j++) {
			constants[i].at[j] = (W)program.constants[i];
		}
	}
	__syncthreads();
	for (uint64_t base = blockIdx.x * block; base < job.count; base += gridDim.x * block) {
		const bool whole = base + block <= job.count;
		group<W> *to = own;

		for (unsigned i = 0; i < SGPU_MAP_INPUTS; i++) {
			if (program.inputs >> i & 1) {
				load<W>(job, job.view[i], base, groups, whole, column(i));
			}
		}
		__pipeline_commit();
		__pipeline_wait_prior(0);
		for (unsigned at = 0; at < program.count; at++) {
			const struct sgpu_map_instruction in = program.list[at];

			to = own + in.to * size;
			compute<W>(in.op * SGPU_MAP_KIND_COUNT + in.kind, groups, find(in.from[0]),
				   find(in.from[1]), find(in.from[2]), to);
			narrow<W>(in.narrow, groups, to);
		}
		store<W>(job, base, groups, whole, to);
	}
}

template <typename W> static int start(const struct sgpu_map_job &job, struct sgpu_launch *launch)
{
	const unsigned columns = job.program.slots + __builtin_popcount(job.program.inputs);
	const unsigned constants = job.program.constant_count * 16;
	const unsigned room = (SHARED_BYTES - constants) / (columns * COLUMN_BYTES);
	const unsigned groups = room < 1 ? 1 : room > GROUPS_MAX ? GROUPS_MAX : room;
	const uint64_t block = (uint64_t)groups * SGPU_CUDA_BLOCK * together<W>;

	return sgpu_cuda_start(launch, interpret<W>, sgpu_cuda_grid(job.count, block),
			       SGPU_CUDA_BLOCK, groups * columns * COLUMN_BYTES + constants, job,
			       (int)groups);
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
