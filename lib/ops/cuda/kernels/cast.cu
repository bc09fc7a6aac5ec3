/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: as cpu/cast.c, through f64 but for some pairs. There is one kernel for each pair of sizes,
 * which is told the types: 16 kernels in place of 110.
 */
#include "ops/cuda/kernels/convert.cuh"

enum { INPUT, OUTPUT };

/* The value of an element, whose bits are an unsigned integer of its size. */
template <typename I> SGPU_DEVICE double load(I bits, enum sgpu_dtype dtype)
{
	if constexpr (sizeof(I) == 1) {
		return dtype == SGPU_I8 ? (double)(int8_t)bits : (double)bits;
	} else if constexpr (sizeof(I) == 2) {
		return dtype == SGPU_F16   ? sgpu_cuda_widen(sgpu_half{ bits })
		       : dtype == SGPU_I16 ? (double)(int16_t)bits
					   : (double)bits;
	} else if constexpr (sizeof(I) == 4) {
		return dtype == SGPU_F32   ? sgpu_cuda_widen(__uint_as_float(bits))
		       : dtype == SGPU_I32 ? (double)(int32_t)bits
					   : (double)bits;
	} else {
		return dtype == SGPU_F64   ? __longlong_as_double((long long)bits)
		       : dtype == SGPU_I64 ? __ll2double_rn((long long)bits)
					   : __ull2double_rn(bits);
	}
}

template <typename O> SGPU_DEVICE O store(double value, enum sgpu_dtype dtype)
{
	if constexpr (sizeof(O) == 1) {
		return dtype == SGPU_I8 ? (O)sgpu_cuda_narrow<int8_t>(value)
					: sgpu_cuda_narrow<uint8_t>(value);
	} else if constexpr (sizeof(O) == 2) {
		return dtype == SGPU_F16   ? sgpu_cuda_narrow<sgpu_half>(value).bits
		       : dtype == SGPU_I16 ? (O)sgpu_cuda_narrow<int16_t>(value)
					   : sgpu_cuda_narrow<uint16_t>(value);
	} else if constexpr (sizeof(O) == 4) {
		return dtype == SGPU_F32   ? __float_as_uint(sgpu_cuda_narrow<float>(value))
		       : dtype == SGPU_I32 ? (O)sgpu_cuda_narrow<int32_t>(value)
					   : sgpu_cuda_narrow<uint32_t>(value);
	} else {
		return dtype == SGPU_F64   ? (O)__double_as_longlong(value)
		       : dtype == SGPU_I64 ? (O)sgpu_cuda_narrow<int64_t>(value)
					   : sgpu_cuda_narrow<uint64_t>(value);
	}
}

template <typename I, typename O> struct conversion {
	enum sgpu_dtype from, to;

	__device__ O operator()(I bits) const
	{
		if constexpr (sizeof(I) == 8 && sizeof(O) == 4) {
			if (to == SGPU_F32 && from != SGPU_F64) {
				return __float_as_uint(from == SGPU_I64
							       ? __ll2float_rn((long long)bits)
							       : __ull2float_rn(bits));
			}
		}
		if constexpr (sizeof(I) == 8 && sizeof(O) == 8) {
			if (from != SGPU_F64 && to != SGPU_F64) { /* only the upper half differs */
				return bits >> 63 == 0 ? bits : to == SGPU_I64 ? INT64_MAX : 0;
			}
		}
		return store<O>(load(bits, from), to);
	}
};

template <typename I, typename O>
static int run(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	conversion<I, O> convert = { call->type[INPUT].dtype, call->type[OUTPUT].dtype };

	return sgpu_cuda_map<sgpu_cuda_together<I, O>>(
		launch, "cast", sgpu_ops_count(&call->type[INPUT]), convert,
		(O *)call->data[OUTPUT], (const I *)call->data[INPUT]);
}

template <typename I> static int from(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return SGPU_CUDA_SIZES(sgpu_dtype_size(call->type[OUTPUT].dtype), O,
			       run<I, O>(call, launch));
}

extern "C" int sgpu_cast_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	/* The same type is copied: a conversion would change the bits of a signalling NaN. */
	if (call->type[INPUT].dtype == call->type[OUTPUT].dtype) {
		return sgpu_copy_cuda(call, launch);
	}
	return SGPU_CUDA_SIZES(sgpu_dtype_size(call->type[INPUT].dtype), I, from<I>(call, launch));
}
