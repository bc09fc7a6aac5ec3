/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes: prices of European call and put options (F. Black and M. Scholes, 1973), in f64,
 * rounded once to f32.
 */
/* gcc vectorises no code that must keep exception flags and errno, which nothing here reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "no-math-errno")
#endif
#include "ops/cpu/math64.h"
#include "ops/ops_private.h"

enum { PRICE, STRIKE, YEARS, CALL, PUT };
enum { RATE, VOLATILITY };
enum { BLOCK = 256, GRAIN = 16384 };

/* Deviations come first, since loops with a root do not vectorise. */
SGPU_CLONES_ATTR static void evaluate(const float *price, const float *strike, const float *years,
				      const double *deviation, float *restrict call,
				      float *restrict put, uint64_t count, double rate)
{
	for (uint64_t i = 0; i < count; i++) {
		struct sgpu_option option = sgpu_math_option((double)price[i], (double)strike[i],
							     (double)years[i], deviation[i], rate);

		call[i] = (float)option.call;
		put[i] = (float)option.put;
	}
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	const float *years = call->data[YEARS];
	float *calls = call->data[CALL], *puts = call->data[PUT], spare[BLOCK];
	double deviation[BLOCK];

	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		for (uint64_t i = 0; i < count; i++) {
			deviation[i] = call->param[VOLATILITY].number * sqrt((double)years[at + i]);
		}
		evaluate((const float *)call->data[PRICE] + at,
			 (const float *)call->data[STRIKE] + at, years + at, deviation,
			 calls ? calls + at : spare, puts ? puts + at : spare, count,
			 call->param[RATE].number);
	}
	sgpu_wipe(spare, sizeof(spare));
	sgpu_wipe(deviation, sizeof(deviation));
}

static int cpu(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	return sgpu_ops_for(launch, sgpu_ops_count(&call->type[PRICE]), GRAIN, body, call);
}

const struct sgpu_op sgpu_op_black_scholes = {
	.name = "black_scholes",
	.help = "prices of European call and put options",
	.args = {
	{ "price", false, SGPU_TYPE_BIT(SGPU_F32), 1, SGPU_RANK_MAX, "price of the share" },
	{ "strike", false, SGPU_TYPE_BIT(SGPU_F32), 1, SGPU_RANK_MAX,
	  "price at which the option is exercised" },
	{ "years", false, SGPU_TYPE_BIT(SGPU_F32), 1, SGPU_RANK_MAX, "time until then" },
	{ "output_call", true, SGPU_TYPE_BIT(SGPU_F32), 1, SGPU_RANK_MAX, "prices of the calls" },
	{ "output_put", true, SGPU_TYPE_BIT(SGPU_F32), 1, SGPU_RANK_MAX, "prices of the puts" },
	},
	.params = {
	{ "rate", SGPU_PARAM_NUMBER, true, -1.0, 1.0, 0.0, NULL,
	  "riskless interest a year, compounded continuously" },
	{ "volatility", SGPU_PARAM_NUMBER, true, 0.0, 100.0, 0.0, NULL,
	  "standard deviation of the return a year" },
	},
	.infer = sgpu_ops_infer_same,
	.cpu = cpu,
};
