/* SPDX-License-Identifier: Apache-2.0
 *
 * cast: every pair of element types against a slow conversion by the mathematical library, in long
 * double, which holds all of them; and binary16 wholly.
 */
#include "ops_harness.h"
#include "unit.h"

static double half_value(uint16_t half)
{
	int exponent = half >> 10 & 31, fraction = half & 1023;
	double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
		      : exponent == 0 ? ldexp(fraction, -24)
				      : ldexp(1024 + fraction, exponent - 25);

	return half >> 15 ? -size : size;
}

/* The value that a conversion to binary16 should give. */
static long double half_rounded(long double x)
{
	long double step, rounded;
	int exponent;

	if (isnan(x) || isinf(x) || x == 0) {
		return x;
	}
	frexpl(x, &exponent);
	step = ldexpl(1, exponent - 11 > -24 ? exponent - 11 : -24);
	rounded = nearbyintl(x / step) * step;
	return fabsl(rounded) >= 65536 ? copysignl((long double)INFINITY, x) : rounded;
}

static long double get(enum sgpu_dtype dtype, const void *data, uint64_t i)
{
	switch (dtype) {
	case SGPU_I64:
		return ((const int64_t *)data)[i];
	case SGPU_U64:
		return ((const uint64_t *)data)[i];
	case SGPU_F16:
		return (long double)half_value(((const uint16_t *)data)[i]);
	default:
		return (long double)ops_get(dtype, data, i);
	}
}

static long double saturated(long double x, long double low, long double high)
{
	return isnan(x) ? 0 : fminl(fmaxl(nearbyintl(x), low), high);
}

static long double expected(enum sgpu_dtype dtype, long double x)
{
	switch (dtype) {
	case SGPU_F32:
		return (long double)(float)x;
	case SGPU_F64:
		return (long double)(double)x;
	case SGPU_I32:
		return saturated(x, INT32_MIN, INT32_MAX);
	case SGPU_I8:
		return saturated(x, INT8_MIN, INT8_MAX);
	case SGPU_U16:
		return saturated(x, 0, UINT16_MAX);
	case SGPU_U32:
		return saturated(x, 0, UINT32_MAX);
	case SGPU_I64:
		return saturated(x, INT64_MIN, INT64_MAX);
	case SGPU_U64:
		return saturated(x, 0, UINT64_MAX);
	case SGPU_U8:
		return saturated(x, 0, 255);
	case SGPU_I16:
		return saturated(x, -32768, 32767);
	default:
		return half_rounded(x);
	}
}

static bool same(long double a, long double b)
{
	return isnan(a) ? isnan(b) : a == b && (a != 0 || signbit(a) == signbit(b));
}

static const double edges[] = {
	0.0,
	-0.0,
	0.5,
	-0.5,
	1.5,
	2.5,
	254.5,
	255.5,
	256,
	-1,
	-0.49999999999999994,
	32767.5,
	-32768.5,
	65503.99,
	65504,
	65519.99999,
	65520,
	65536,
	1e-8,
	2.98e-8,
	5.960464477539063e-8,
	6.097555160522461e-5,
	6.1e-5,
	2147483646.5,
	2147483647.5,
	2147483648.0,
	-2147483648.5,
	-2147483649.0,
	4294967296.0,
	1e10,
	-1e10,
	1e38,
	1e39,
	-1e300,
	1.0000000596046448,
	1.00048828125,
	1.0004882812500002,
	1.00146484375,
	1.0014648437499998,
	2049,
	2051,
	-128.5,
	65535.5,
	4294967295.5,
	0x1p51 + 0.5,
	0x1p52 - 0.5,
	0x1p63 - 1024,
	0x1p63,
	-0x1p63,
	-0x1p63 - 2048,
	0x1p64 - 2048,
	0x1p64,
};

/* What f64 does not hold; f32 by way of f64 would round the fifth and the sixth twice. */
static const uint64_t large[] = {
	0,
	INT64_MAX,
	UINT64_C(1) << 63,
	UINT64_MAX,
	(UINT64_C(1) << 62) + (UINT64_C(1) << 38) + 1,
	-((UINT64_C(1) << 62) + (UINT64_C(1) << 38) + 1),
	(UINT64_C(1) << 53) + 1,
	(UINT64_C(1) << 53) + 3,
	-((UINT64_C(1) << 53) + 1),
	65519,
	65520,
};

/* Random bits, so that floats include infinities, NaN and subnormals; then the edges. */
static void fill(enum sgpu_dtype dtype, void *data, uint64_t count)
{
	uint64_t edge = sizeof(edges) / sizeof(edges[0]);

	for (uint64_t i = 0; i < count * sgpu_dtype_size(dtype); i++) {
		((uint8_t *)data)[i] = (uint8_t)ops_random();
	}
	if (dtype == SGPU_I64 || dtype == SGPU_U64) {
		for (uint64_t i = 0; i < count; i++) {
			uint64_t *at = (uint64_t *)data + i;

			*at = i < SGPU_ARRAY_LENGTH(large) ? large[i] : *at >> (*at & 63);
		}
	}
	if (dtype != SGPU_F32 && dtype != SGPU_F64) {
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		if (i < edge) {
			ops_put(dtype, data, i, edges[i]);
		} else if (i < edge + 3) {
			ops_put(dtype, data, i,
				i == edge ? (double)NAN : (i == edge + 1 ? 1 : -1) * HUGE_VAL);
		} else if (i % 2) {
			ops_put(dtype, data, i, ops_uniform(-1, 1) * pow(10, ops_uniform(-9, 11)));
		}
	}
}

static void check_pair(enum sgpu_dtype from, enum sgpu_dtype to, uint64_t count)
{
	void *data = malloc(count * 8 + 1);
	struct ops_case c;
	uint64_t bad = 0;

	REQUIRE(data);
	fill(from, data, count);
	ops_begin(&c, "cast");
	ops_choice(&c, "dtype", sgpu_dtype_name(to));
	ops_input(&c, "input", from, 1, OPS_SHAPE(count), data);
	CHECK(ops_run(&c));
	CHECK(ops_type_is(&c, "output", to, 1, OPS_SHAPE(count)));
	for (uint64_t i = 0; i < count && bad < 3; i++) {
		long double in = get(from, data, i), out = get(to, ops_data(&c, "output"), i),
			    want = expected(to, in);

		if (!same(out,
			  to == SGPU_F32 || to == SGPU_F64 || to == SGPU_F16 ? want : want + 0.0)) {
			printf("# %s to %s: %.20Lg gives %.20Lg, not %.20Lg\n",
			       sgpu_dtype_name(from), sgpu_dtype_name(to), in, out, want);
			bad++;
		}
	}
	CHECK(bad == 0);
	ops_end(&c);
	free(data);
}

UNIT_TEST(every_pair_of_types_rounds_once_and_saturates)
{
	static const uint64_t counts[] = { 0, 1, 511, 513, 70001 };

	for (int from = SGPU_F32; from < SGPU_DTYPE_COUNT; from++) {
		for (int to = SGPU_F32; to < SGPU_DTYPE_COUNT; to++) {
			for (int i = 0; i < 5; i++) {
				check_pair((enum sgpu_dtype)from, (enum sgpu_dtype)to, counts[i]);
			}
		}
	}
}

UNIT_TEST(every_binary16_survives_the_way_there_and_back)
{
	static const enum sgpu_dtype ways[] = { SGPU_F32, SGPU_F64 };
	uint16_t *all = malloc(65536 * sizeof(*all)), *back;
	struct ops_case there, again;
	uint64_t bad = 0;

	REQUIRE(all);
	for (int i = 0; i < 65536; i++) {
		all[i] = (uint16_t)i;
	}
	for (int w = 0; w < 2; w++) {
		ops_begin(&there, "cast");
		ops_choice(&there, "dtype", sgpu_dtype_name(ways[w]));
		ops_input(&there, "input", SGPU_F16, 2, OPS_SHAPE(256, 256), all);
		REQUIRE(ops_run(&there));
		ops_begin(&again, "cast");
		ops_choice(&again, "dtype", "f16");
		ops_input(&again, "input", ways[w], 2, OPS_SHAPE(256, 256),
			  ops_data(&there, "output"));
		REQUIRE(ops_run(&again));
		back = ops_data(&again, "output");
		for (int i = 0; i < 65536; i++) {
			bad += !same(get(ways[w], ops_data(&there, "output"), (uint64_t)i),
				     (long double)half_value((uint16_t)i));
			bad += isnan(half_value((uint16_t)i)) ? !isnan(half_value(back[i]))
							      : back[i] != i;
		}
		ops_end(&there);
		ops_end(&again);
	}
	CHECK(bad == 0);
	free(all);
}

UNIT_TEST(the_same_type_keeps_every_bit)
{
	static const uint32_t signalling[] = { 0x7f800001, 0xff812345, 0x7fc00000 };
	struct ops_case c;

	ops_begin(&c, "cast");
	ops_choice(&c, "dtype", "f32");
	ops_input(&c, "input", SGPU_F32, 1, OPS_SHAPE(3), signalling);
	CHECK(ops_run(&c));
	CHECK(memcmp(ops_data(&c, "output"), signalling, sizeof(signalling)) == 0);
	ops_end(&c);
}

int main(void)
{
	UNIT_RUN(every_pair_of_types_rounds_once_and_saturates);
	UNIT_RUN(every_binary16_survives_the_way_there_and_back);
	UNIT_RUN(the_same_type_keeps_every_bit);
	return unit_done();
}
