/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes: prices of European call and put options (F. Black and M. Scholes, 1973), computed
 * in f64 and rounded once to f32.
 */
/* gcc does not vectorise code that must keep exception flags and errno, which nothing here
 * reads. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "no-math-errno")
#endif
#include "ops/cpu/math64.h"
#include "ops/ops_private.h"

enum { PRICE, STRIKE, YEARS, CALL, PUT };
enum { RATE, VOLATILITY };
enum { BLOCK = 256, GRAIN = 16384 };

static void infer(struct sgpu_op_call *call, struct sgpu_op_report *report)
{
	sgpu_ops_same_type(call, report, PRICE, STRIKE);
	sgpu_ops_same_type(call, report, PRICE, YEARS);
	call->type[CALL] = call->type[PRICE];
	call->type[PUT] = call->type[PRICE];
}

/* The values of one block of options. They are in arrays, so that each loop vectorises. */
struct block {
	double price[BLOCK], strike[BLOCK], years[BLOCK], deviation[BLOCK], call[BLOCK], put[BLOCK];
};

SGPU_CLONES_ATTR static void prepare(struct block *b, double volatility)
{
	for (int i = 0; i < BLOCK; i++) {
		b->deviation[i] = volatility * sqrt(b->years[i]);
	}
}

SGPU_CLONES_ATTR static void evaluate(struct block *b, double rate)
{
	for (int i = 0; i < BLOCK; i++) {
		struct sgpu_option option = sgpu_math_option(b->price[i], b->strike[i], b->years[i],
							     b->deviation[i], rate);

		b->call[i] = option.call;
		b->put[i] = option.put;
	}
}

/* A price that rounding made negative becomes 0. Meaningless inputs give NaN. */
SGPU_CLONES_ATTR static void finish(struct block *b)
{
	for (int i = 0; i < BLOCK; i++) {
		int good = (b->price[i] >= 0.0) & (b->strike[i] >= 0.0) & (b->years[i] >= 0.0);

		b->call[i] = b->call[i] < 0.0 ? 0.0 : b->call[i];
		b->put[i] = b->put[i] < 0.0 ? 0.0 : b->put[i];
		b->call[i] = good ? b->call[i] : (double)NAN;
		b->put[i] = good ? b->put[i] : (double)NAN;
	}
}

static void body(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	struct block b;

	memset(&b, 0, sizeof(b));
	for (uint64_t at = begin; at < end; at += BLOCK) {
		uint64_t count = sgpu_ops_min(end - at, BLOCK);

		sgpu_ops_load_f64(SGPU_F32, call->data[PRICE], at, count, b.price);
		sgpu_ops_load_f64(SGPU_F32, call->data[STRIKE], at, count, b.strike);
		sgpu_ops_load_f64(SGPU_F32, call->data[YEARS], at, count, b.years);
		prepare(&b, call->param[VOLATILITY].number);
		evaluate(&b, call->param[RATE].number);
		finish(&b);
		if (call->data[CALL]) {
			sgpu_ops_store_f64(SGPU_F32, call->data[CALL], at, count, b.call);
		}
		if (call->data[PUT]) {
			sgpu_ops_store_f64(SGPU_F32, call->data[PUT], at, count, b.put);
		}
	}
	sgpu_wipe(&b, sizeof(b));
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
	.infer = infer,
	.cpu = cpu,
};
