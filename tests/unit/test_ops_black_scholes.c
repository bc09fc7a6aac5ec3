/* SPDX-License-Identifier: Apache-2.0
 *
 * black_scholes: against the formula with erfc in long double, the limits, and the functions of
 * math64.h.
 */
#include "ops/cpu/math64.h"
#include "ops_device.h"
#include "ops_harness.h"
#include "unit.h"

static long double normal(long double x)
{
	return erfcl(-x / sqrtl(2.0L)) / 2.0L;
}

static void naive(double price, double strike, double years, double rate, double volatility,
		  double out[2])
{
	long double s = (long double)price, t = (long double)years, v = (long double)volatility;
	long double present = (long double)strike * expl(-(long double)rate * t);
	long double d1 = (logl(s / present) + v * v / 2 * t) / (v * sqrtl(t)),
		    d2 = d1 - v * sqrtl(t);

	out[0] = (double)(s * normal(d1) - present * normal(d2));
	out[1] = (double)(present * normal(-d2) - s * normal(-d1));
}

/* What sgpu-ops(7) grants a device: the second times the larger of price and strike. */
#define RELATIVE 2e-6
#define ABSOLUTE 1e-6
#define PRICE_MAX 150

static bool run(struct ops_case *c, uint64_t count, const float *price, const float *strike,
		const float *years, double rate, double volatility)
{
	ops_begin(c, "black_scholes");
	ops_input(c, "price", SGPU_F32, 1, OPS_SHAPE(count), price);
	ops_input(c, "strike", SGPU_F32, 1, OPS_SHAPE(count), strike);
	ops_input(c, "years", SGPU_F32, 1, OPS_SHAPE(count), years);
	ops_number(c, "rate", rate);
	ops_number(c, "volatility", volatility);
	ops_tolerance(c, RELATIVE, ABSOLUTE * PRICE_MAX);
	c->call.present[ops_arg(c, "output_call")] = c->call.present[ops_arg(c, "output_put")] =
		true;
	return ops_run(c);
}

/* On the CPU within one rounding of f32, and 1e-14 of the larger of price and strike. */
static void check_prices(uint64_t count, const float *price, const float *strike,
			 const float *years, double rate, double volatility)
{
	double relative = ops_device_wanted() ? RELATIVE : 6e-8;
	double absolute = ops_device_wanted() ? ABSOLUTE : 1e-14;
	struct ops_case c;
	const float *call, *put;
	int wrong = 0;

	REQUIRE(run(&c, count, price, strike, years, rate, volatility));
	call = ops_data(&c, "output_call");
	put = ops_data(&c, "output_put");
	for (uint64_t i = 0; i < count; i++) {
		double bound = absolute * (double)fmaxf(price[i], strike[i]), expected[2];

		naive((double)price[i], (double)strike[i], (double)years[i], rate, volatility,
		      expected);
		wrong += !ops_close((double)call[i], expected[0], bound, relative);
		wrong += !ops_close((double)put[i], expected[1], bound, relative);
	}
	CHECK(wrong == 0);
	ops_end(&c);
}

UNIT_TEST(prices_are_the_formula)
{
	enum { COUNT = 40001 };
	static float price[COUNT], strike[COUNT], years[COUNT];

	for (int i = 0; i < COUNT; i++) {
		price[i] = (float)ops_uniform(5, 100);
		strike[i] = (float)ops_uniform(1, 150);
		years[i] = (float)ops_uniform(0.01, 10);
	}
	check_prices(COUNT, price, strike, years, 0.02, 0.3);
	check_prices(COUNT, price, strike, years, -0.01, 0.05);
	check_prices(COUNT, price, strike, years, 0.3, 2.0);
}

UNIT_TEST(limits)
{
	/* no time left: in, at and out of the money; worthless shares; a free option; no price at
	 * all */
	const float price[] = { 12, 10, 7, 0, 10, -1, 10, NAN, 0 },
		    strike[] = { 10, 10, 10, 10, 0, 10, 10, 10, 0 };
	const float years[] = { 0, 0, 0, 1, 1, 1, -1, 1, 1 };
	const float calls[] = { 2, 0, 0, 0, 10, NAN, NAN, NAN, 0 },
		    puts[] = { 0, 0, 3, 10, 0, NAN, NAN, NAN, 0 };
	struct ops_case c;

	for (int set = 0; set < 2; set++) {
		REQUIRE(run(&c, 9, price, strike, years, 0, set ? 0.2 : 0));
		CHECK(ops_close_f32((float *)ops_data(&c, "output_call"), calls, 8, 1e-12, 0));
		CHECK(ops_close_f32((float *)ops_data(&c, "output_put"), puts, 8, 1e-12, 0));
		ops_end(&c);
	}
}

/* Around the bounds of what a device may compute in f32: from one price to another ten orders
 * apart, from hours to centuries, with rates of either sign. */
UNIT_TEST(options_out_of_the_ordinary)
{
	enum { COUNT = 20000 };
	static float price[COUNT], strike[COUNT], years[COUNT];

	for (int set = 0; set < 6; set++) {
		double rate = ops_uniform(-1, 1), volatility = exp(ops_uniform(-6, 2));

		for (int i = 0; i < COUNT; i++) {
			price[i] = (float)exp(ops_uniform(-6, 5));
			strike[i] = fminf(
				price[i] * (float)exp(ops_uniform(-1, 1) * ops_uniform(0, 20)),
				PRICE_MAX);
			years[i] = (float)exp(ops_uniform(-7, 4));
		}
		check_prices(COUNT, price, strike, years, rate, volatility);
	}
}

UNIT_TEST(one_output_is_enough)
{
	const float one[] = { 100 }, year[] = { 1 };
	struct ops_case c;

	ops_begin(&c, "black_scholes");
	ops_input(&c, "price", SGPU_F32, 1, OPS_SHAPE(1), one);
	ops_input(&c, "strike", SGPU_F32, 1, OPS_SHAPE(1), one);
	ops_input(&c, "years", SGPU_F32, 1, OPS_SHAPE(1), year);
	ops_number(&c, "rate", 0.05);
	ops_number(&c, "volatility", 0.2);
	c.call.present[ops_arg(&c, "output_put")] = true;
	ops_tolerance(&c, RELATIVE, ABSOLUTE * PRICE_MAX);
	REQUIRE(ops_run(&c));
	CHECK(ops_close((double)*(float *)ops_data(&c, "output_put"), 5.573526022256971,
			ops_device_wanted() ? ABSOLUTE * 100 : 0, 6e-8));
	ops_end(&c);
}

UNIT_TEST(functions_are_close_to_those_of_libm)
{
	double worst_exp = 0, worst_log = 0, worst_tail = 0;

	for (int i = 0; i < 200000; i++) {
		double x = ops_uniform(-700, 700), y = exp(ops_uniform(-300, 300)),
		       z = ops_uniform(0, 7);
		long double tail = normal(-(long double)z);

		y = i % 2 ? y : ops_uniform(0.5, 2);
		worst_exp =
			fmax(worst_exp, (double)fabsl((long double)sgpu_math_exp(x) / expl(x) - 1));
		worst_log =
			fmax(worst_log, (double)(fabsl((long double)sgpu_math_log(y) - logl(y)) /
						 fabsl(logl(y))));
		worst_tail = fmax(worst_tail,
				  (double)fabsl((long double)sgpu_math_normal_tail(z) / tail - 1));
	}
	CHECK(worst_exp < 2.3e-16);
	CHECK(worst_log < 4.5e-16);
	CHECK(worst_tail < 3e-9);
	CHECK(sgpu_math_exp(0) == 1 && sgpu_math_log(1) == 0 && sgpu_math_normal_tail(0) == 0.5);
	CHECK(sgpu_math_exp(-1000) == 0 && isinf(sgpu_math_exp(1000)) && isnan(sgpu_math_exp(NAN)));
}

int main(void)
{
	UNIT_RUN(prices_are_the_formula);
	UNIT_RUN(limits);
	UNIT_RUN(options_out_of_the_ordinary);
	UNIT_RUN(one_output_is_enough);
	UNIT_RUN(functions_are_close_to_those_of_libm);
	return unit_done();
}
