/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: as cpu/cast.c, through f64 but for some pairs. One kernel for each pair of sizes is told
 * the types: 16 kernels in place of 110.
 */
#include "ops/cuda/kernels/convert.cuh"

enum { INPUT, OUTPUT };

/* An element's value, from its bits. */
template <typename I> SGPU_DEVICE double load(I bits, enum sgpu_dtype dtype, bool is_signed)
{
	if (sizeof(I) == 2 && dtype == SGPU_F16) {
		return sgpu_cuda_widen(sgpu_half{ (uint16_t)bits });
	}
	if (sizeof(I) == 4 && dtype == SGPU_F32) {
		return sgpu_cuda_widen(__uint_as_float((uint32_t)bits));
	}
	if (sizeof(I) == 8 && dtype == SGPU_F64) {
		return __longlong_as_double((long long)bits);
	}
	return is_signed ? (double)(std::make_signed_t<I>)bits : (double)bits;
}

template <typename O> SGPU_DEVICE O store(double value, enum sgpu_dtype dtype, bool is_signed)
{
	if (sizeof(O) == 2 && dtype == SGPU_F16) {
		return (O)sgpu_cuda_narrow<sgpu_half>(value).bits;
	}
	if (sizeof(O) == 4 && dtype == SGPU_F32) {
		return (O)__float_as_uint(sgpu_cuda_narrow<float>(value));
	}
	if (sizeof(O) == 8 && dtype == SGPU_F64) {
		return (O)__double_as_longlong(value);
	}
	return is_signed ? (O)sgpu_cuda_narrow<std::make_signed_t<O>>(value)
			 : sgpu_cuda_narrow<O>(value);
}

static bool is_signed(enum sgpu_dtype dtype)
{
	return dtype == SGPU_I8 || dtype == SGPU_I16 || dtype == SGPU_I32 || dtype == SGPU_I64;
}

template <typename I, typename O> struct conversion {
	enum sgpu_dtype from, to;
	bool from_signed, to_signed;

	__device__ O operator()(I bits) const
	{
		if (sizeof(I) == 8 && from != SGPU_F64) {
			if (to == SGPU_F32) {
				return (O)__float_as_uint(from_signed
								  ? __ll2float_rn((long long)bits)
								  : __ull2float_rn(bits));
			}
			if (sizeof(O) == 8 && to != SGPU_F64) { /* the upper half differs */
				return (O)(bits <= INT64_MAX ? bits : to_signed ? INT64_MAX : 0);
			}
		}
		return store<O>(load(bits, from, from_signed), to, to_signed);
	}
};

template <typename I, typename O>
static int run(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	enum sgpu_dtype input = call->type[INPUT].dtype, output = call->type[OUTPUT].dtype;
	conversion<I, O> convert = { input, output, is_signed(input), is_signed(output) };

	return sgpu_cuda_map<sgpu_cuda_together<I, O>>(launch, sgpu_ops_count(&call->type[INPUT]),
						       convert, (O *)call->data[OUTPUT],
						       (const I *)call->data[INPUT]);
}

template <typename I> static int from(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return SGPU_CUDA_SIZES(sgpu_dtype_size(call->type[OUTPUT].dtype), O,
			       run<I, O>(call, launch));
}

extern "C" int sgpu_cast_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	/* A conversion would change the bits of a signalling NaN. */
	if (call->type[INPUT].dtype == call->type[OUTPUT].dtype) {
		return sgpu_copy_cuda(call, launch);
	}
	return SGPU_CUDA_SIZES(sgpu_dtype_size(call->type[INPUT].dtype), I, from<I>(call, launch));
}
