/* SPDX-License-Identifier: Apache-2.0
 *
 * The foldings of reduce.cu. Each has keys of elements, a neutral key, and the f64 value of a key:
 *	F::in_order   whether the order of elements changes the result
 *	f.nothing()   f.key(element)   f(key, key)   f.value(key)
 */
#ifndef SGPU_OPS_CUDA_KERNELS_REDUCE_CUH
#define SGPU_OPS_CUDA_KERNELS_REDUCE_CUH

#include "ops/cuda/kernels/convert.cuh"
#include "ops/cuda/kernels/volume.cuh"

/* The element types of outputs. */
template <typename T> struct sgpu_reduce_types {
	typedef double sum;
	typedef T extreme;
};
template <> struct sgpu_reduce_types<float> {
	typedef float sum, extreme;
};
template <> struct sgpu_reduce_types<sgpu_half> {
	typedef float sum, extreme;
};

/* Divides and rounds; every NaN becomes the same one. */
template <typename O> SGPU_DEVICE O sgpu_reduce_result(double value, double divisor)
{
	value = __ddiv_rn(value, divisor);
	return sgpu_cuda_narrow<O>(value == value ? value
						  : __longlong_as_double(0x7ff8000000000000ll));
}

/* ---- sums: integers are added as integers within a piece, exactly ---- */
template <typename T> struct sgpu_reduce_sum {
	static constexpr bool in_order = false;

	__device__ long long nothing() const
	{
		return 0;
	}
	__device__ long long key(T element) const
	{
		return element;
	}
	__device__ long long operator()(long long a, long long b) const
	{
		return a + b;
	}
	__device__ double value(long long key) const
	{
		return (double)key;
	}
};

template <typename T> struct sgpu_reduce_float_sum {
	static constexpr bool in_order = true;

	__device__ double key(T element) const
	{
		return sgpu_cuda_f64(element);
	}
	__device__ double operator()(double a, double b) const
	{
		return __dadd_rn(a, b);
	}
	__device__ double value(double key) const
	{
		return key;
	}
};
template <> struct sgpu_reduce_sum<float> : sgpu_reduce_float_sum<float> {
};
template <> struct sgpu_reduce_sum<double> : sgpu_reduce_float_sum<double> {
};
template <> struct sgpu_reduce_sum<sgpu_half> : sgpu_reduce_float_sum<sgpu_half> {
};

/* ---- the least and the greatest ----
 * The greatest is the least of inverted keys. The key of a float is its bits, as an integer that
 * sorts as the float does: -0 below +0, and NaN below all, so that NaN is the result of both. The
 * order of the reduction does not matter. */
template <typename K, typename T> struct sgpu_reduce_least {
	static constexpr bool in_order = false;
	static constexpr K low = (K)((K)1 << (sizeof(K) * 8 - 2)) * -2;
	bool greatest;

	__device__ K nothing() const
	{
		return (K)~low;
	}
	__device__ K operator()(K a, K b) const
	{
		return b < a ? b : a;
	}
};

template <typename T> struct sgpu_reduce_extreme : sgpu_reduce_least<int, T> {
	__device__ int key(T element) const
	{
		return this->greatest ? ~(int)element : (int)element;
	}
	__device__ double value(int key) const
	{
		return this->greatest ? ~key : key;
	}
};

/* Maps a float's bits to an integer that sorts as the float does. It is its own inverse. */
template <typename K> SGPU_DEVICE K sgpu_reduce_fold_bits(K bits)
{
	return bits < 0 ? (K)(bits ^ ~sgpu_reduce_least<K, float>::low) : bits;
}

template <> struct sgpu_reduce_extreme<float> : sgpu_reduce_least<int, float> {
	__device__ int key(float element) const
	{
		int bits = sgpu_reduce_fold_bits(__float_as_int(greatest ? -element : element));

		return element == element ? bits : low;
	}
	__device__ double value(int key) const
	{
		float value = __int_as_float(sgpu_reduce_fold_bits(key));

		return key == low ? __longlong_as_double(0x7ff8000000000000ll)
				  : (double)(greatest ? -value : value);
	}
};
template <> struct sgpu_reduce_extreme<sgpu_half> : sgpu_reduce_extreme<float> {
	__device__ int key(sgpu_half element) const
	{
		return sgpu_reduce_extreme<float>::key(sgpu_half_to_float(element.bits));
	}
};
template <> struct sgpu_reduce_extreme<double> : sgpu_reduce_least<long long, double> {
	__device__ long long key(double element) const
	{
		long long bits =
			sgpu_reduce_fold_bits(__double_as_longlong(greatest ? -element : element));

		return element == element ? bits : low;
	}
	__device__ double value(long long key) const
	{
		double value = __longlong_as_double(sgpu_reduce_fold_bits(key));

		return key == low ? __longlong_as_double(0x7ff8000000000000ll)
		       : greatest ? -value
				  : value;
	}
};

#endif
