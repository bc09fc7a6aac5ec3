/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions through f64, with the bits of convert.c, also for NaN, whose sign and payload the
 * device's own conversions would lose.
 */
#ifndef SGPU_OPS_CUDA_KERNELS_CONVERT_CUH
#define SGPU_OPS_CUDA_KERNELS_CONVERT_CUH

#include "ops/cpu/math64.h"
#include "ops/cuda/kernels/common.cuh"

/* The elements that one access converts: 16 bytes of the wider type. */
template <typename A, typename B>
constexpr int sgpu_cuda_together = 16 / (sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

/* Element i of data of a type that operations compute with. */
SGPU_DEVICE double sgpu_cuda_element(const void *data, enum sgpu_dtype dtype, uint64_t i)
{
	switch (dtype) {
		SGPU_CUDA_CASE(SGPU_F32, float, T, sgpu_cuda_f64(((const T *)data)[i]))
		SGPU_CUDA_CASE(SGPU_I32, int32_t, T, sgpu_cuda_f64(((const T *)data)[i]))
		SGPU_CUDA_CASE(SGPU_U8, uint8_t, T, sgpu_cuda_f64(((const T *)data)[i]))
		SGPU_CUDA_CASE(SGPU_I16, int16_t, T, sgpu_cuda_f64(((const T *)data)[i]))
		SGPU_CUDA_CASE(SGPU_F16, sgpu_half, T, sgpu_cuda_f64(((const T *)data)[i]))
	default:
		return ((const double *)data)[i];
	}
}

/* Makes a NaN quiet as a CPU does, keeping sign and payload. */
SGPU_DEVICE double sgpu_cuda_quiet(double nan)
{
	return __longlong_as_double(__double_as_longlong(nan) | 0x0008000000000000ll);
}

SGPU_DEVICE double sgpu_cuda_widen_nan(uint32_t bits)
{
	return __longlong_as_double((long long)((uint64_t)(bits & 0x80000000u) << 32 |
						0x7ff8000000000000u |
						(uint64_t)(bits & 0x007fffffu) << 29));
}

/* As sgpu_cuda_f64, but a NaN has the bits that a CPU gives it. */
template <typename T> SGPU_DEVICE double sgpu_cuda_widen(T value)
{
	return (double)value;
}
template <> __device__ __forceinline__ double sgpu_cuda_widen<float>(float value)
{
	return value == value ? (double)value : sgpu_cuda_widen_nan(__float_as_uint(value));
}
template <> __device__ __forceinline__ double sgpu_cuda_widen<sgpu_half>(sgpu_half value)
{
	return sgpu_cuda_widen(sgpu_half_to_float(value.bits));
}

/* As sgpu_ops_store_f64, for one element. */
template <typename T> SGPU_DEVICE T sgpu_cuda_narrow(double value);
template <> __device__ __forceinline__ double sgpu_cuda_narrow<double>(double value)
{
	return value;
}
template <> __device__ __forceinline__ float sgpu_cuda_narrow<float>(double value)
{
	uint64_t bits = (uint64_t)__double_as_longlong(value);

	return value == value ? __double2float_rn(value)
			      : __uint_as_float((uint32_t)(bits >> 32) & 0x80000000u | 0x7fc00000u |
						(uint32_t)(bits >> 29) & 0x003fffffu);
}
template <> __device__ __forceinline__ sgpu_half sgpu_cuda_narrow<sgpu_half>(double value)
{
	uint16_t sign = (uint16_t)((uint64_t)__double_as_longlong(value) >> 48 & 0x8000u);

	return { value == value ? sgpu_half_from_double(value) : (uint16_t)(sign | 0x7e00u) };
}
#define SGPU_CUDA_NARROW(T, wide, low, high)                                       \
	template <> __device__ __forceinline__ T sgpu_cuda_narrow<T>(double value) \
	{                                                                          \
		return (T)(wide)sgpu_ops_round(value, low, high);                  \
	}
SGPU_CUDA_NARROW(int8_t, int32_t, INT8_MIN, INT8_MAX)
SGPU_CUDA_NARROW(uint8_t, int32_t, 0, UINT8_MAX)
SGPU_CUDA_NARROW(int16_t, int32_t, INT16_MIN, INT16_MAX)
SGPU_CUDA_NARROW(uint16_t, int32_t, 0, UINT16_MAX)
SGPU_CUDA_NARROW(int32_t, int32_t, INT32_MIN, INT32_MAX)
SGPU_CUDA_NARROW(uint32_t, int64_t, 0, UINT32_MAX)
/* The device's conversions to 64 bits saturate, but NaN would become 2^63. */
template <> __device__ __forceinline__ int64_t sgpu_cuda_narrow<int64_t>(double value)
{
	return value == value ? __double2ll_rn(value) : 0;
}
template <> __device__ __forceinline__ uint64_t sgpu_cuda_narrow<uint64_t>(double value)
{
	return value == value ? __double2ull_rn(value) : 0;
}

/* ---- the activations of dense and conv2d ---- */
template <typename T> SGPU_DEVICE T sgpu_cuda_activate(enum sgpu_activation activation, T x)
{
	return activation == SGPU_ACTIVATION_NONE ? x : (T)sgpu_activation(activation, (double)x);
}

#endif
