/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes: as cpu/black_scholes.c.
 */
#include "ops/cpu/math64.h"
#include "ops/cuda/kernels/common.cuh"

enum { PRICE, STRIKE, YEARS, CALL, PUT };
enum { RATE, VOLATILITY };
enum { TOGETHER = 4 };

struct option {
	float call, put;
};

SGPU_DEVICE struct option price_one(float price, float strike, float years, double rate,
				    double volatility)
{
	struct sgpu_option o =
		sgpu_math_option(price, strike, years, volatility * sqrt((double)years), rate);

	if (!(price >= 0.0f && strike >= 0.0f && years >= 0.0f)) {
		return { __uint_as_float(0x7fc00000u), __uint_as_float(0x7fc00000u) };
	}
	return { (float)(o.call < 0.0 ? 0.0 : o.call), (float)(o.put < 0.0 ? 0.0 : o.put) };
}

/* call or put may be NULL. */
struct arrays {
	const float *price, *strike, *years;
	float *call, *put;
};

SGPU_KERNEL price_all(uint64_t count, struct arrays a, double rate, double volatility)
{
	typedef sgpu_pack<float, TOGETHER> pack;
	uint64_t self = sgpu_cuda_self(), step = sgpu_cuda_step();

	for (uint64_t i = self; i < count / TOGETHER; i += step) {
		pack price = reinterpret_cast<const pack *>(a.price)[i];
		pack strike = reinterpret_cast<const pack *>(a.strike)[i];
		pack years = reinterpret_cast<const pack *>(a.years)[i], call, put;

#pragma unroll
		for (int j = 0; j < TOGETHER; j++) {
			struct option o =
				price_one(price.at[j], strike.at[j], years.at[j], rate, volatility);

			call.at[j] = o.call;
			put.at[j] = o.put;
		}
		if (a.call) {
			reinterpret_cast<pack *>(a.call)[i] = call;
		}
		if (a.put) {
			reinterpret_cast<pack *>(a.put)[i] = put;
		}
	}
	for (uint64_t i = count - count % TOGETHER + self; i < count; i += step) {
		struct option o = price_one(a.price[i], a.strike[i], a.years[i], rate, volatility);

		if (a.call) {
			a.call[i] = o.call;
		}
		if (a.put) {
			a.put[i] = o.put;
		}
	}
}

extern "C" int sgpu_black_scholes_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[PRICE]);
	struct arrays arrays = { (const float *)call->data[PRICE],
				 (const float *)call->data[STRIKE],
				 (const float *)call->data[YEARS], (float *)call->data[CALL],
				 (float *)call->data[PUT] };

	if (count == 0) {
		return 0;
	}
	return sgpu_cuda_run(launch, "black_scholes", price_all,
			     sgpu_cuda_grid(count, SGPU_CUDA_BLOCK * TOGETHER), count, arrays,
			     call->param[RATE].number, call->param[VOLATILITY].number);
}
