/* SPDX-License-Identifier: Apache-2.0
 *
 * scale: as cpu/scale.c: in f64, product and sum rounded separately.
 */
#include "ops/cuda/kernels/convert.cuh"

enum { INPUT, CALIBRATION, OUTPUT, GAIN = 0, BIAS = 1 };

/* The NaN that a CPU gives: the first operand that is NaN, made quiet, else the default NaN. */
static __device__ double nan_of(double value, double gain, double bias)
{
	const double own = __longlong_as_double((long long)0xfff8000000000000u);
	double product = __dmul_rn(value, gain);

	if (product != product) {
		return value != value ? sgpu_cuda_quiet(value)
		       : gain != gain ? sgpu_cuda_quiet(gain)
				      : own;
	}
	return bias != bias ? sgpu_cuda_quiet(bias) : own;
}

template <typename I, typename O> struct affine {
	double gain, bias;
	const float *calibration; /* NULL: `gain` and `bias` are used */

	__device__ O operator()(I in) const
	{
		double a = calibration ? sgpu_cuda_widen(__ldg(calibration)) : gain;
		double b = calibration ? sgpu_cuda_widen(__ldg(calibration + 1)) : bias;
		double value = sgpu_cuda_widen(in), result = __dadd_rn(__dmul_rn(value, a), b);

		return sgpu_cuda_narrow<O>(result == result ? result : nan_of(value, a, b));
	}
};

template <typename I, typename O>
static int start(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	struct affine<I, O> f = {
		call->param[GAIN].number, call->param[BIAS].number,
			(const float *)call->data[CALIBRATION]
	};

	return sgpu_cuda_map<sgpu_cuda_together<I, O>>(launch, sgpu_ops_count(&call->type[INPUT]),
						       f, (O *)call->data[OUTPUT],
						       (const I *)call->data[INPUT]);
}

extern "C" int sgpu_scale_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	if (call->type[INPUT].dtype == SGPU_F64) {
		return start<double, double>(call, launch);
	}
	return SGPU_CUDA_TYPES(call->type[INPUT].dtype, I, start<I, float>(call, launch));
}
