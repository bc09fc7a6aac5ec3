/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that are priced by black_scholes, for the cases app and sizes.
 */
#include <math.h>

#include "job.h"

enum { PRICE, STRIKE, YEARS, CHECKED = 1000 };
static const double rate = 0.02, volatility = 0.30;

static double normal(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

static double call_price(double price, double strike, double years)
{
	double deviation = volatility * sqrt(years);
	double d1 =
		(log(price / strike) + (rate + volatility * volatility / 2) * years) / deviation;

	return price * normal(d1) - strike * exp(-rate * years) * normal(d1 - deviation);
}

/* Checks some calls by the formula, and all puts by put-call parity. */
static int check_prices(const struct job_side *side, const void *results, uint64_t size,
			struct sgpu_error *error)
{
	const uint64_t count = size / sizeof(float) / 2;
	const float *price = side->data, *strike = price + count, *years = strike + count;
	const float *call = results, *put = call + count;

	for (uint64_t i = 0; i < count; i++) {
		double parity = (double)call[i] - price[i] +
				strike[i] * exp(-rate * (double)years[i]) - put[i];
		double wanted = i % (count / CHECKED + 1) == 0
					? call_price(price[i], strike[i], years[i])
					: call[i];

		if (!(fabs(parity) < 1e-3 && fabs(wanted - call[i]) < 1e-3)) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "option %llu has the prices %g and %g",
					 (unsigned long long)i, (double)call[i], (double)put[i]);
		}
	}
	return SGPU_OK;
}

/* Fills in options in the ranges of the NVIDIA toolkit's sample: price 5 to 30, strike 1 to 100,
 * 0.25 to 10 years. */
static void fill_options(float *price, uint64_t count)
{
	float *strike = price + count, *years = strike + count;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;

		z ^= z >> 31;
		price[i] = 5.0f + 25.0f * (float)(z & 0xffff) / 65535.0f;
		strike[i] = 1.0f + 99.0f * (float)(z >> 16 & 0xffff) / 65535.0f;
		years[i] = 0.25f + 9.75f * (float)(z >> 32 & 0xffff) / 65535.0f;
	}
}

static void options_add(struct bench_job *job, const struct job_side *side)
{
	const uint64_t count = side->size / sizeof(float);
	const struct job_type type = { "f32", { count } };
	const float *inputs = side->data;

	job_segment(job, JOB_INPUT, "price", type, inputs + PRICE * count);
	job_segment(job, JOB_INPUT, "strike", type, inputs + STRIKE * count);
	job_segment(job, JOB_INPUT, "years", type, inputs + YEARS * count);
	job_segment(job, JOB_OUTPUT, "call", type, NULL);
	job_segment(job, JOB_OUTPUT, "put", type, NULL);
	job_operation(job, "PRICE", "black_scholes",
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "price", "price", "strike", "strike",
				"years", "years", "output_call", "call", "output_put", "put"),
		      json_pack("{s:f, s:f}", "rate", rate, "volatility", volatility), NULL);
}

void options_describe(const struct job_side *side, struct sgpu_op_call *call)
{
	call->op = sgpu_op_find("black_scholes");
	for (int k = 0; k < OPTIONS_VECTORS; k++) {
		call->type[k] =
			(struct sgpu_type){ SGPU_F32, 1, { side->size / sizeof(float), 0, 0, 0 } };
		call->present[k] = true;
	}
	call->param[sgpu_op_param(call->op, "rate")] = (struct sgpu_op_value){ true, rate };
	call->param[sgpu_op_param(call->op, "volatility")] =
		(struct sgpu_op_value){ true, volatility };
}

int options_check(const struct job_side *side, const void *results, struct sgpu_error *error)
{
	return check_prices(side, results, OPTIONS_OUTPUTS * side->size, error);
}

int options_new(struct sgpu_bench *bench, uint64_t size, struct job_side *side,
		struct sgpu_error *error)
{
	void *inputs = sgpu_bench_new(bench, OPTIONS_INPUTS * size, NULL, error);

	if (!inputs) {
		return SGPU_ENOMEM;
	}
	fill_options(inputs, size / sizeof(float));
	side->add = options_add;
	side->check = check_prices;
	side->data = inputs;
	side->size = size;
	return SGPU_OK;
}
