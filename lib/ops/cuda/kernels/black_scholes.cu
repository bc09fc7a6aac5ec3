/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes: within the tolerance of sgpu-ops(7) at the speed of memory. Ordinary options are
 * computed in f32, with the device's own exponential, logarithm and root; others as in
 * cpu/black_scholes.c.
 *
 * An error of f32 that d1 and d2 share hardly matters: the price's derivative by a common shift is
 * 0. Only errors of their difference, the deviation itself, and of the two probabilities do.
 */
#include "ops/cpu/math64.h"
#include "ops/cuda/kernels/common.cuh"

enum { PRICE, STRIKE, YEARS, CALL, PUT };
enum { RATE, VOLATILITY };
enum { TOGETHER = 4 };

struct option {
	float call, put;
};

/* ---- in f64, where f32 is not precise enough ---- */
static __device__ __noinline__ struct option evaluate(float price, float strike, float years,
						      double rate, double volatility)
{
	struct sgpu_option o =
		sgpu_math_option(price, strike, years, volatility * sqrt((double)years), rate);

	return { (float)o.call, (float)o.put };
}

/* ---- in f32 ---- */
#define APPROXIMATION(name, instruction)                                   \
	SGPU_DEVICE float name(float x)                                    \
	{                                                                  \
		float y;                                                   \
                                                                           \
		asm(instruction ".approx.f32 %0, %1;" : "=f"(y) : "f"(x)); \
		return y;                                                  \
	}
APPROXIMATION(root, "sqrt")
APPROXIMATION(inverse, "rcp")
APPROXIMATION(exp_2, "ex2")

/* factor * e^x, for |x| up to about 0.5. The error is small, as is the term added to the factor. */
SGPU_DEVICE float times_exp(float factor, float x)
{
	float p = 2.4801587e-5f;

	p = fmaf(p, x, 1.98412698e-4f);
	p = fmaf(p, x, 1.38888889e-3f);
	p = fmaf(p, x, 8.33333333e-3f);
	p = fmaf(p, x, 0.0416666667f);
	p = fmaf(p, x, 0.166666667f);
	p = fmaf(p, x, 0.5f);
	p = fmaf(p * x, x, x);
	return fmaf(factor, p, factor);
}

/* P(X > x) for x >= 0 and a normal X: the density times a polynomial in 1 / (1 + 0.45 x), fitted to
 * within 2.2e-9 (the form of M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions,
 * 1964, 26.2.17). */
SGPU_DEVICE float normal_tail(float x)
{
	float y = fmaf(0.45f, x, 1.0f), t = inverse(y), p = -0.094884462f;

	t = fmaf(t, fmaf(-y, t, 1.0f), t); /* Newton's step leaves only the rounding error */
	p = fmaf(p, t, 0.545053548f);
	p = fmaf(p, t, -1.188236084f);
	p = fmaf(p, t, 0.986698562f);
	p = fmaf(p, t, 0.045466006f);
	p = fmaf(p, t, 0.514862367f);
	p = fmaf(p, t, 0.444354195f);
	return p * t * (0.39894228f * exp_2(x * x * -0.72134752f));
}

/* Whether f32 stays within half of the tolerance; false for NaN. */
SGPU_DEVICE bool ordinary(float price, float strike, float interest, float deviation)
{
	return price >= 1e-30f && price <= 1e30f && strike >= 1e-30f && strike <= 1e30f &&
	       fabsf(interest) <= 0.5f && deviation >= 1e-3f && deviation <= 4.0f &&
	       price <= strike * 1e6f && strike <= price * 1e6f;
}

SGPU_DEVICE struct option price_one(float price, float strike, float years, double rate,
				    double volatility)
{
	float interest = (float)rate * years, deviation = (float)volatility * root(years);
	float discounted = times_exp(strike, -interest), d1, d2, tail1, tail2, up1, up2, call, put;

	if (!ordinary(price, strike, interest, deviation)) {
		return evaluate(price, strike, years, rate, volatility);
	}
	d1 = fmaf(0.5f, deviation,
		  __fdividef(__log2f(__fdividef(price, discounted)) * 0.69314718f, deviation));
	d2 = d1 - deviation;
	tail1 = normal_tail(fabsf(d1));
	tail2 = normal_tail(fabsf(d2));
	up1 = 1.0f - tail1;
	up2 = 1.0f - tail2;
	call = fmaf(price, d1 < 0.0f ? tail1 : up1, -discounted * (d2 < 0.0f ? tail2 : up2));
	put = fmaf(discounted, d2 < 0.0f ? up2 : tail2, -price * (d1 < 0.0f ? up1 : tail1));
	return { fmaxf(call, 0.0f), fmaxf(put, 0.0f) };
}

/* call_to or put_to may be NULL. */
SGPU_KERNEL price_all(uint64_t count, const float *price_of, const float *strike_of,
		      const float *years_of, float *call_to, float *put_to, double rate,
		      double volatility)
{
	typedef sgpu_pack<float, TOGETHER> pack;
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();

	for (uint64_t i = self; i < count / TOGETHER; i += step) {
		pack price = reinterpret_cast<const pack *>(price_of)[i];
		pack strike = reinterpret_cast<const pack *>(strike_of)[i];
		pack years = reinterpret_cast<const pack *>(years_of)[i], call, put;

#pragma unroll
		for (int j = 0; j < TOGETHER; j++) {
			struct option o =
				price_one(price.at[j], strike.at[j], years.at[j], rate, volatility);

			call.at[j] = o.call;
			put.at[j] = o.put;
		}
		if (call_to) {
			reinterpret_cast<pack *>(call_to)[i] = call;
		}
		if (put_to) {
			reinterpret_cast<pack *>(put_to)[i] = put;
		}
	}
	for (uint64_t i = count - count % TOGETHER + self; i < count; i += step) {
		struct option o =
			price_one(price_of[i], strike_of[i], years_of[i], rate, volatility);

		if (call_to) {
			call_to[i] = o.call;
		}
		if (put_to) {
			put_to[i] = o.put;
		}
	}
}

extern "C" int sgpu_black_scholes_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[PRICE]);

	return sgpu_cuda_run(launch, price_all, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK * TOGETHER),
			     count, call->data[PRICE], call->data[STRIKE], call->data[YEARS],
			     call->data[CALL], call->data[PUT], call->param[RATE].number,
			     call->param[VOLATILITY].number);
}
