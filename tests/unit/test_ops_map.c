/* SPDX-License-Identifier: Apache-2.0
 *
 * map: types and values of each operation against numbers that numpy gives, what is refused and
 * why, hostile byte code, shapes, the functions of mathematics against the C library's in long
 * double, and random programs with several workers and on the device.
 */
#include <ctype.h>

#include "base/json.h"
#include "ops/map_element.h"
#include "ops_harness.h"
#include "unit.h"

static char code_text[SGPU_MAP_TEXT_MAX + 1];

/* Compiles an expression of the arguments a, b and c, as far as it names them; NULL if it is
 * refused. */
static const char *compiled(const char *expression, struct sgpu_error *error)
{
	json_t *operation = json_pack("{s:s, s:{s:s}, s:{s:s}}", "kernel", "map", "params",
				      "expression", expression, "arguments", "output", "out");
	json_t *arguments = json_object_get(operation, "arguments");
	int rc;

	for (const char *at = expression; *at; at++) {
		bool starts =
			at == expression || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
		char name[2] = { *at, '\0' };

		if (starts && strchr("abc", *at) && !isalnum((unsigned char)at[1])) {
			json_object_set_new(arguments, name, json_string(name));
		}
	}
	rc = sgpu_map_compile(operation, error);
	if (!rc) {
		snprintf(code_text, sizeof(code_text), "%s",
			 json_string_value(
				 json_object_get(json_object_get(operation, "params"), "code")));
	}
	json_decref(operation);
	return rc ? NULL : code_text;
}

static void begin(struct ops_case *c, const char *expression)
{
	struct sgpu_error error = { 0 };

	ops_begin(c, "map");
	c->call.param[0].given = true;
	c->call.text = compiled(expression, &error);
	if (!c->call.text) {
		ops_die("'%s': %s", expression, error.text);
	}
}

/* Computes the expression of single numbers; whether the result has the type and the value. */
static bool gives(const char *expression, enum sgpu_dtype at, double a, enum sgpu_dtype bt,
		  double b, enum sgpu_dtype type, double value)
{
	uint8_t x[8], y[8], want[8];
	struct ops_case c;
	bool good, nan;

	begin(&c, expression);
	ops_put(at, x, 0, a);
	ops_put(bt, y, 0, b);
	ops_input(&c, "x0", at, 0, OPS_SCALAR, x);
	if (strchr(expression, 'b') && bt != SGPU_NONE) {
		ops_input(&c, "x1", bt, 0, OPS_SCALAR, y);
	}
	ops_put(type, want, 0, value);
	good = ops_run(&c) && ops_type_is(&c, "output", type, 0, NULL);
	nan = good && isnan(value) && type == SGPU_F64 && isnan(*(double *)ops_data(&c, "output"));
	good = good && (nan || memcmp(ops_data(&c, "output"), want, sgpu_dtype_size(type)) == 0);
	ops_end(&c);
	return good;
}

#define NONE SGPU_NONE, 0
static const struct {
	const char *expression;
	enum sgpu_dtype a_type;
	double a;
	enum sgpu_dtype b_type;
	double b;
	enum sgpu_dtype type;
	double value;
} rows[] = {
	/* precedence */
	{ "-a ** 2", SGPU_F32, 3, NONE, SGPU_F32, -9 },
	{ "2 ** a ** 2", SGPU_F64, 3, NONE, SGPU_F64, 512 },
	{ "a - b - 1", SGPU_I32, 5, SGPU_I32, 3, SGPU_I32, 1 },
	{ "a + b * 2", SGPU_I32, 5, SGPU_I32, 3, SGPU_I32, 11 },
	{ "a | b & 6", SGPU_U8, 1, SGPU_U8, 3, SGPU_U8, 3 },
	{ "~a & 15", SGPU_U8, 5, NONE, SGPU_U8, 10 },
	{ "(a > 1) & (b > 1) | (a < 0)", SGPU_F32, 2, SGPU_F32, 1, SGPU_U8, 0 },
	/* types */
	{ "a + b", SGPU_I8, 100, SGPU_U8, 200, SGPU_I16, 300 },
	{ "a + b", SGPU_U32, 1, SGPU_I32, -2, SGPU_I64, -1 },
	{ "a + b", SGPU_U64, 1, SGPU_I8, -2, SGPU_F64, -1 },
	{ "a + b", SGPU_F16, 1, SGPU_I16, 2, SGPU_F32, 3 },
	{ "a + b", SGPU_F32, 1, SGPU_I32, 2, SGPU_F64, 3 },
	{ "a + 0.5", SGPU_F16, 1, NONE, SGPU_F16, 1.5 },
	{ "a + 0.5", SGPU_U8, 1, NONE, SGPU_F64, 1.5 },
	{ "a * 2", SGPU_U8, 200, NONE, SGPU_U8, 144 },
	{ "(a > 0) + 1", SGPU_U8, 1, NONE, SGPU_I64, 2 },
	{ "(a > 0) + (a > 1)", SGPU_U8, 2, NONE, SGPU_U8, 1 },
	{ "(a > 0) // (a > 1)", SGPU_U8, 2, NONE, SGPU_I8, 1 },
	{ "~(a > 0)", SGPU_U8, 2, NONE, SGPU_U8, 0 },
	{ "a + (7 // 2 + 2 ** 3 - 1.5)", SGPU_F32, 0, NONE, SGPU_F32, 9.5 },
	{ "a + (-7 // 2 + -7 % 3 - 1 / 2)", SGPU_F32, 0, NONE, SGPU_F32, -2.5 },
	/* integers wrap, and divide down */
	{ "a + b", SGPU_I8, 127, SGPU_I8, 1, SGPU_I8, -128 },
	{ "abs(a)", SGPU_I8, -128, NONE, SGPU_I8, -128 },
	{ "-a", SGPU_U16, 1, NONE, SGPU_U16, 65535 },
	{ "a // b", SGPU_I32, -7, SGPU_I32, 2, SGPU_I32, -4 },
	{ "a % b", SGPU_I32, -7, SGPU_I32, 2, SGPU_I32, 1 },
	{ "a % b", SGPU_I32, 7, SGPU_I32, -2, SGPU_I32, -1 },
	{ "a // b", SGPU_I64, -0x1p63, SGPU_I64, -1, SGPU_I64, -0x1p63 },
	{ "a // b", SGPU_I16, 5, SGPU_I16, 0, SGPU_I16, 0 },
	{ "a % b", SGPU_U64, 5, SGPU_U64, 0, SGPU_U64, 0 },
	{ "a / b", SGPU_I16, 5, SGPU_I16, 2, SGPU_F64, 2.5 },
	{ "a ** b", SGPU_I8, 3, SGPU_I8, 5, SGPU_I8, -13 },
	{ "a ** b", SGPU_I32, 2, SGPU_I32, -1, SGPU_I32, 0 },
	/* floats */
	{ "a // b", SGPU_F64, -7.5, SGPU_F64, 2, SGPU_F64, -4 },
	{ "a % b", SGPU_F64, -7.5, SGPU_F64, 2, SGPU_F64, 0.5 },
	{ "a % b", SGPU_F64, -1, SGPU_F64, HUGE_VAL, SGPU_F64, HUGE_VAL },
	{ "a // b", SGPU_F64, 1, SGPU_F64, 0, SGPU_F64, HUGE_VAL },
	{ "a % b", SGPU_F64, 1, SGPU_F64, 0, SGPU_F64, NAN },
	{ "a * 0.1", SGPU_F16, 3, NONE, SGPU_F16, 0.2998046875 },
	{ "round(a)", SGPU_F32, 2.5, NONE, SGPU_F32, 2 },
	{ "round(a)", SGPU_F64, -0.5, NONE, SGPU_F64, -0.0 },
	{ "floor(a)", SGPU_F32, -0.5, NONE, SGPU_F32, -1 },
	{ "min(a, b)", SGPU_F64, 1, SGPU_F64, NAN, SGPU_F64, NAN },
	{ "max(a, b)", SGPU_F64, NAN, SGPU_F64, 1, SGPU_F64, NAN },
	{ "max(a, 3)", SGPU_I8, 1, NONE, SGPU_I8, 3 },
	{ "isnan(a)", SGPU_F16, NAN, NONE, SGPU_U8, 1 },
	{ "isnan(a)", SGPU_I16, 3, NONE, SGPU_U8, 0 },
	{ "where(a, 1, 2.5)", SGPU_F32, NAN, NONE, SGPU_F64, 1 },
	{ "where(a > 1, b, 0)", SGPU_F32, 1, SGPU_I16, 7, SGPU_I16, 0 },
	{ "sqrt(a)", SGPU_U8, 16, NONE, SGPU_F16, 4 },
	{ "exp(a)", SGPU_I16, 0, NONE, SGPU_F32, 1 },
	{ "cos(a)", SGPU_I64, 0, NONE, SGPU_F64, 1 },
	/* comparisons: exact between u64 and i64, and false for NaN */
	{ "a < b", SGPU_I64, -1, SGPU_U64, 0, SGPU_U8, 1 },
	{ "a > b", SGPU_U64, 0x1p63, SGPU_I64, -0x1p63, SGPU_U8, 1 },
	{ "a == b", SGPU_U64, 0x1.fffffffffffffp63, SGPU_I8, -1, SGPU_U8, 0 },
	{ "a >= b", SGPU_U64, 5, SGPU_I8, 5, SGPU_U8, 1 },
	{ "a <= b", SGPU_F32, NAN, SGPU_F32, 1, SGPU_U8, 0 },
	{ "a != b", SGPU_F32, NAN, SGPU_F32, NAN, SGPU_U8, 1 },
	/* casts */
	{ "u8(a)", SGPU_F32, 255.9, NONE, SGPU_U8, 255 },
	{ "u8(a)", SGPU_F64, -3, NONE, SGPU_U8, 0 },
	{ "i8(a)", SGPU_F64, -3.9, NONE, SGPU_I8, -3 },
	{ "i32(a)", SGPU_F32, NAN, NONE, SGPU_I32, 0 },
	{ "i64(a)", SGPU_F64, -1e30, NONE, SGPU_I64, -0x1p63 },
	{ "i64(a) + 1", SGPU_F64, 1e30, NONE, SGPU_I64, -0x1p63 },
	{ "u64(a)", SGPU_F64, 0x1.8p63, NONE, SGPU_U64, 0x1.8p63 },
	{ "i8(a)", SGPU_I32, 300, NONE, SGPU_I8, 44 },
	{ "u16(a)", SGPU_I8, -1, NONE, SGPU_U16, 65535 },
	{ "bool(a)", SGPU_F64, 0.25, NONE, SGPU_U8, 1 },
	{ "f16(a)", SGPU_F64, 1.0004882812500002, NONE, SGPU_F16, 1.0009765625 },
	{ "a + u8(2.9)", SGPU_U8, 1, NONE, SGPU_U8, 3 },
	{ "a * 0x10 + 1e1 * .5", SGPU_F32, 2, NONE, SGPU_F32, 37 },
};

UNIT_TEST(types_and_values_are_those_of_numpy)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		if (!gives(rows[i].expression, rows[i].a_type, rows[i].a, rows[i].b_type, rows[i].b,
			   rows[i].type, rows[i].value)) {
			printf("# row %zu: %s of %s\n", i, rows[i].expression,
			       sgpu_dtype_name(rows[i].a_type));
			CHECK(false);
		}
	}
}

UNIT_TEST(what_is_no_expression_is_refused_at_its_column)
{
	static const struct {
		const char *expression, *text, *hint;
	} bad[] = {
		{ "", "column 1: a number, a name or '(' is missing", "" },
		{ "a +", "column 4: a number", "" },
		{ "a b", "column 3: an operator is missing", "" },
		{ "a and b", "column 3: an operator is missing", "'&'" },
		{ "(a", "column 3: ')' is missing", "" },
		{ "a)", "column 2: an operator is missing", "" },
		{ "2a", "column 1: this is not a number", "" },
		{ "1.2.3 + a", "column 1: this is not a number", "" },
		{ "a + 1e999", "column 5: the number is too large", "" },
		{ "a + 9223372036854775808", "column 5: the number is too large", "" },
		{ "a = b", "column 3: an operator is missing", "" },
		{ "a < b < c", "column 7: a comparison of a comparison", "(a < b) & (b < c)" },
		{ "a > 70 & b > 0", "needs parentheses", "(a < b) & (b < c)" },
		{ "max(a, 1) == 2|b!=(a & b), 3", "needs parentheses", "(a < b) & (b < c)" },
		{ "a | b == 1", "column 7: a comparison beside", "(a < b) & (b < c)" },
		{ "sin a", "column 1: 'sin' is a function, '(' is missing", "" },
		{ "where(a, sin, 1)", "column 10: 'sin' is a function", "" },
		{ "sine(a)", "column 1: 'sine' is not a function", "sgpu-ops(7)" },
		{ "min(a)", "column 1: 'min' takes 2, not 1", "" },
		{ "abs(a, b)", "column 1: 'abs' takes 1, not 2", "" },
		{ "a + d", "column 5: 'd' is not an argument that is read", "" },
		{ "a + output", "column 5: 'output' is not an argument", "" },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		struct sgpu_error error = { 0 };

		if (compiled(bad[i].expression, &error) || !strstr(error.text, bad[i].text) ||
		    !strstr(error.hint, bad[i].hint)) {
			printf("# '%s': %s (%s)\n", bad[i].expression, error.text, error.hint);
			CHECK(false);
		}
	}
}

UNIT_TEST(expressions_have_limits)
{
	char text[SGPU_MAP_EXPRESSION_MAX + 1] = "", *end = text;
	struct sgpu_error error = { 0 };

	memset(text, '(', 200);
	CHECK(!compiled(text, &error) && strstr(error.text, "more than 64 levels"));
	memset(text, '-', 200);
	CHECK(!compiled(text, &error) && strstr(error.text, "more than 64 levels"));
	for (int i = 0; i < 128; i++) {
		end += sprintf(end, "%sa", i ? "+" : "");
	}
	CHECK(compiled(text, &error));
	sprintf(end, "+a");
	CHECK(!compiled(text, &error) && strstr(error.text, "more than 256 numbers"));
	memset(text, ' ', SGPU_MAP_EXPRESSION_MAX);
	CHECK(!compiled(text, &error) && strstr(error.text, "column 4097"));
}

UNIT_TEST(what_types_do_not_allow_is_refused)
{
	static const struct {
		const char *expression;
		enum sgpu_dtype type;
		const char *text;
	} bad[] = {
		{ "a + 300", SGPU_U8, "300 does not fit u8" },
		{ "a > -1", SGPU_U8, "-1 does not fit u8" },
		{ "a + 128", SGPU_I8, "128 does not fit i8" },
		{ "a - 129 + 1", SGPU_I8, "129 does not fit i8" },
		{ "a * 70000", SGPU_F16, "70000 does not fit f16" },
		{ "a * 1e39", SGPU_F32, "does not fit f32" },
		{ "(a > 1) - (a > 2)", SGPU_F32, "'-' does not take bool and bool" },
		{ "-(a > 1)", SGPU_F32, "'-' does not take bool" },
		{ "~a", SGPU_F32, "'~' does not take f32" },
		{ "a & 1", SGPU_F32, "'&' does not take f32 and an integer" },
		{ "u64(a) | i8(a)", SGPU_U8, "'|' does not take u64 and i8" },
		{ "a | 1.5", SGPU_U8, "'|' does not take u8 and a fraction" },
		{ "a ** -1", SGPU_I32, "negative power" },
		{ "a + 1 // 0", SGPU_F32, "divided by 0" },
		{ "a + 2 ** 64", SGPU_F32, "too large" },
		{ "a + 3 * 4611686018427387904", SGPU_F32, "too large" },
		{ "a * 0 + i8(200)", SGPU_F32, "200 does not fit i8" },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		struct ops_case c;

		begin(&c, bad[i].expression);
		ops_input(&c, "x0", bad[i].type, 1, OPS_SHAPE(3), NULL);
		if (ops_infer(&c) || !strstr(c.diagnostic_text, bad[i].text)) {
			printf("# '%s': %s\n", bad[i].expression, c.diagnostic_text);
			CHECK(false);
		}
		ops_end(&c);
	}
}

/* ---- shapes ---- */
UNIT_TEST(shapes_go_together_from_the_last_dimension_on)
{
	static const struct {
		int rank[3];
		uint64_t shape[3][4]; /* of a, b and the result */
		bool good;
	} cases[] = {
		{ { 2, 1, 2 }, { { 300, 7 }, { 7 }, { 300, 7 } }, true },
		{ { 2, 2, 2 }, { { 300, 1 }, { 300, 7 }, { 300, 7 } }, true },
		{ { 0, 3, 3 }, { { 0 }, { 5, 6, 70 }, { 5, 6, 70 } }, true },
		{ { 4, 3, 4 }, { { 2, 1, 3, 1 }, { 5, 1, 90 }, { 2, 5, 3, 90 } }, true },
		{ { 2, 1, 2 }, { { 0, 7 }, { 1 }, { 0, 7 } }, true },
		{ { 2, 2, 2 }, { { 0, 1 }, { 1, 5 }, { 0, 5 } }, true },
		{ { 1, 1, 1 }, { { 2 }, { 3 }, { 0 } }, false },
		{ { 2, 1, 2 }, { { 3, 4 }, { 3 }, { 0 } }, false },
		{ { 2, 2, 2 }, { { 1ull << 30, 1 }, { 1, 1ull << 30 }, { 0 } }, false },
	};
	float *a = malloc(sizeof(*a) * 4096), *b = malloc(sizeof(*b) * 4096);

	REQUIRE(a && b);
	for (int i = 0; i < 4096; i++) {
		a[i] = (float)i;
		b[i] = (float)i * 10000;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		uint64_t count[3] = { 1, 1, 1 }, stride[2][4] = { { 0 } };
		struct sgpu_op_call *call;
		struct ops_case c;
		bool good = true;

		begin(&c, "a + b");
		call = &c.call;
		for (int k = 0; k < 2; k++) {
			call->type[k] =
				sgpu_ops_type(SGPU_F32, cases[i].rank[k], cases[i].shape[k]);
			for (int d = cases[i].rank[k] - 1; d >= 0; d--) {
				int from_end = cases[i].rank[k] - 1 - d;

				stride[k][from_end] = cases[i].shape[k][d] == 1 ? 0 : count[k];
				count[k] *= cases[i].shape[k][d];
			}
			call->present[k] = true;
			if (cases[i].good) {
				ops_input(&c, k ? "x1" : "x0", SGPU_F32, cases[i].rank[k],
					  cases[i].shape[k], k ? b : a);
			}
		}
		if (!cases[i].good) {
			CHECK(!ops_infer(&c));
			continue;
		}
		REQUIRE(ops_run(&c));
		REQUIRE(ops_type_is(&c, "output", SGPU_F32, cases[i].rank[2], cases[i].shape[2]));
		for (uint64_t at = 0; at < sgpu_ops_count(ops_type(&c, "output")); at++) {
			uint64_t rest = at, x = 0, y = 0;

			for (int d = 0; d < cases[i].rank[2]; d++) {
				uint64_t extent = cases[i].shape[2][cases[i].rank[2] - 1 - d];

				x += rest % extent * stride[0][d];
				y += rest % extent * stride[1][d];
				rest /= extent;
			}
			good = good && ((float *)ops_data(&c, "output"))[at] == a[x] + b[y];
		}
		CHECK(good);
		ops_end(&c);
	}
	free(a);
	free(b);
}

UNIT_TEST(where_and_min_keep_the_bits_of_a_nan)
{
	static const uint32_t nan[] = { 0xffc01234, 0x7fc00001, 0xffffffff };
	static const uint16_t half[] = { 0xfe01, 0x7e55, 0x7d01 };
	struct ops_case c;

	begin(&c, "where(a == a, 0, min(a, 1))");
	ops_input(&c, "x0", SGPU_F32, 1, OPS_SHAPE(3), nan);
	REQUIRE(ops_run(&c));
	CHECK(memcmp(ops_data(&c, "output"), nan, sizeof(nan)) == 0);
	ops_end(&c);
	begin(&c, "max(a, 1)");
	ops_input(&c, "x0", SGPU_F16, 1, OPS_SHAPE(3), half);
	REQUIRE(ops_run(&c));
	CHECK(memcmp(ops_data(&c, "output"), half, sizeof(half)) == 0);
	ops_end(&c);
	begin(&c, "a + 1");
	ops_input(&c, "x0", SGPU_F32, 1, OPS_SHAPE(3), nan);
	REQUIRE(ops_run(&c));
	CHECK(((uint32_t *)ops_data(&c, "output"))[0] == 0x7fc00000);
	ops_end(&c);
}

/* ---- the functions of mathematics ---- */
static double any_double(void)
{
	return sgpu_math_from_bits(ops_random());
}

static bool within(double got, long double want)
{
	double near = (double)want, unit = nextafter(fabs(near), HUGE_VAL) - fabs(near);

	if (isnan(near) || isinf(near) || isinf(got)) {
		return isnan(near) ? isnan(got) : got == near;
	}
	return fabsl((long double)got - want) <= 2 * (long double)unit;
}

/* Small numbers, large ones, any bits, and those near multiples of pi / 2. */
static double number(int i)
{
	return i % 4 == 0   ? ops_uniform(-1, 1)
	       : i % 4 == 1 ? ops_uniform(-800, 800)
	       : i % 4 == 2 ? any_double()
			    : nextafter(floor(ops_uniform(0, 1e6)) * M_PI_2, ops_uniform(-1, 1e7));
}

UNIT_TEST(functions_are_within_two_units_of_the_last_place)
{
	int count = getenv("SGPU_TEST_SMALL") ? 20000 : 400000;
	long worst = 0;

	for (int i = 0; i < count; i++) {
		double x = number(i), y = i % 3 ? ops_uniform(-30, 30) : number(i + 1);

		worst += !within(sgpu_map_exp(x), expl((long double)x));
		worst += !within(sgpu_map_log(x), logl((long double)x));
		worst += !within(sgpu_map_tanh(x), tanhl((long double)x));
		worst += !within(sgpu_map_sine(x, 0), sinl((long double)x));
		worst += !within(sgpu_map_sine(x, 1), cosl((long double)x));
		worst += !within(sgpu_map_pow(x, y), powl((long double)x, (long double)y));
		worst += !within(sgpu_map_pow(x, floor(y)),
				 powl((long double)x, (long double)floor(y)));
	}
	CHECK(worst == 0);
}

UNIT_TEST(pow_has_the_special_values_of_ieee_754)
{
	static const double numbers[] = { 0,	    1,		 2,	0.5,	3,	2.5,
					  HUGE_VAL, (double)NAN, 1e300, 5e-324, 0x1p53, 0x1.fp52 };
	int count = 2 * (int)SGPU_ARRAY_LENGTH(numbers);

	for (int i = 0; i < count * count; i++) {
		double x = numbers[i % count / 2] * (i % 2 ? -1 : 1);
		double y = numbers[i / count / 2] * (i / count % 2 ? -1 : 1);
		double got = sgpu_map_pow(x, y), want = pow(x, y);

		if (isnan(want)
			    ? !isnan(got)
			    : signbit(got) != signbit(want) || !within(got, (long double)want)) {
			printf("# %g to %g is %g, not %g\n", x, y, got, want);
			CHECK(false);
		}
	}
}

/* ---- byte code ---- */
enum { X0 = 0, SIN = SGPU_MAP_OPERATION + SGPU_MAP_SIN, ADD = SGPU_MAP_OPERATION + SGPU_MAP_ADD };

UNIT_TEST(byte_code_that_is_not_valid_is_refused)
{
	static const struct {
		uint8_t code[12];
		size_t size;
		const char *text;
	} bad[] = {
		{ { 0 }, 0, "makes no result" },
		{ { X0, X0 }, 2, "makes no result" }, /* but two */
		{ { X0, ADD }, 2, "not valid" },      /* an operand is missing */
		{ { SIN }, 1, "not valid" },
		{ { 1 }, 1, "reads 'x1', which is not given" },
		{ { 7 }, 1, "not valid" },
		{ { 0xff }, 1, "not valid" },
		{ { X0, SGPU_MAP_OPERATION + SGPU_MAP_TO_I }, 2, "not valid" },
		{ { X0, SGPU_MAP_CAST + SGPU_DTYPE_COUNT }, 2, "not valid" },
		{ { SGPU_MAP_INTEGER, 1, 2, 3, 4, 5, 6, 7 }, 8, "not valid" }, /* it is cut */
		{ { SGPU_MAP_INTEGER, 1, 0, 0, 0, 0, 0, 0, 0 }, 9, "none of its inputs" },
		{ { X0, SGPU_MAP_REAL, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f, ADD }, 11, "too large" },
	};
	enum sgpu_dtype inputs[SGPU_MAP_INPUTS] = { SGPU_F32 };
	uint8_t code[600];
	struct sgpu_map_program program;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		struct sgpu_error error = { 0 };

		CHECK(sgpu_map_resolve(bad[i].code, bad[i].size, inputs, &program, &error) ==
		      SGPU_EINVALID);
		CHECK(strstr(error.text, bad[i].text));
	}
	memset(code, SIN, sizeof(code));
	code[0] = X0;
	CHECK(sgpu_map_resolve(code, 256, inputs, &program, NULL) == 0 && program.count == 255);
	CHECK(sgpu_map_resolve(code, 257, inputs, &program, NULL) == SGPU_EINVALID);
	for (int i = 0; i < 36; i += 2) { /* 18 results that wait */
		code[i] = X0;
		code[i + 1] = SIN;
	}
	memset(code + 36, ADD, 17);
	CHECK(sgpu_map_resolve(code, 53, inputs, &program, NULL) == SGPU_EINVALID);
	CHECK(sgpu_map_resolve(code + 6, 30 + 14, inputs, &program, NULL) == 0);
}

UNIT_TEST(a_call_reads_all_of_its_inputs)
{
	struct ops_case c;

	begin(&c, "a + 1");
	ops_input(&c, "x0", SGPU_F32, 1, OPS_SHAPE(3), NULL);
	ops_input(&c, "x1", SGPU_F32, 1, OPS_SHAPE(3), NULL);
	CHECK(!ops_infer(&c) && strstr(c.diagnostic_text, "does not read 'x1'"));
	ops_end(&c);
	begin(&c, "a + 1");
	c.call.text = "A";
	ops_input(&c, "x0", SGPU_F32, 1, OPS_SHAPE(3), NULL);
	CHECK(!ops_infer(&c));
	ops_end(&c);
}

/* Appends a random instruction; the number of values on the stack behind it. */
static int append(uint8_t *code, size_t *size, int depth)
{
	uint64_t dice = ops_random();
	int op = (int)((dice >> 8) % SGPU_MAP_OP_COUNT), arity = sgpu_map_operations[op].arity;

	if (dice % 8 < 3 || depth == 0) {
		code[(*size)++] = (uint8_t)(dice >> 32) % 3;
		return depth + 1;
	}
	if (dice % 8 == 3) {
		code[(*size)++] = SGPU_MAP_INTEGER;
		memset(code + *size, 0, 8);
		code[*size] = (uint8_t)(dice >> 16) % 5;
		*size += 8;
		return depth + 1;
	}
	if (dice % 8 == 4) {
		op = (int)((dice >> 16) % SGPU_DTYPE_COUNT);
		code[(*size)++] = (uint8_t)(SGPU_MAP_CAST + (dice >> 32 & 1 ? op % SGPU_I8 : op));
		return depth;
	}
	if (arity == 0 || arity > depth) {
		return depth;
	}
	code[(*size)++] = (uint8_t)(SGPU_MAP_OPERATION + op);
	return depth - arity + 1;
}

static bool random_program(struct ops_case *c)
{
	static const uint64_t counts[] = { 1, 3, 255, 1030, 40001 };
	uint64_t count = counts[ops_random() % 5];
	static uint64_t data[40001];
	uint8_t code[400];
	size_t size = 0;
	uint32_t inputs = 0;
	bool good, small = ops_random() % 2; /* values of 32 bits have a kernel of their own */

	for (int depth = 0, length = 2 + (int)(ops_random() % 30); length > 0 || depth > 1;
	     length--) {
		if (length <= 0) {
			code[size++] = SGPU_MAP_OPERATION + SGPU_MAP_MIN;
			depth--;
			continue;
		}
		inputs |= 0;
		depth = append(code, &size, depth);
	}
	for (uint64_t i = 0; i < SGPU_ARRAY_LENGTH(data); i++) {
		data[i] = i % 3 ? ops_random() : ops_random() % 5 << (i % 2 ? 0 : 61);
	}
	ops_begin(c, "map");
	sgpu_base64url_encode(code, size, code_text);
	c->call.text = code_text;
	for (size_t i = 0; i < size; i += code[i] == SGPU_MAP_INTEGER ? 9 : 1) {
		inputs |= code[i] < 3 ? 1u << code[i] : 0;
	}
	for (unsigned i = 0; i < 3; i++) {
		char name[] = { 'x', (char)('0' + i), '\0' };
		enum sgpu_dtype type = (enum sgpu_dtype)(1 + ops_random() % (SGPU_DTYPE_COUNT - 1));

		type = small && type > SGPU_U16	   ? SGPU_F32
		       : small && type == SGPU_F64 ? SGPU_U8
						   : type;
		if (inputs >> i & 1) {
			ops_input(c, name, type, ops_random() % 4 ? 1 : 0, OPS_SHAPE(count), data);
		}
	}
	good = (inputs & 1) && ops_infer(c);
	c->diagnostics = 0;
	return good;
}

UNIT_TEST(random_programs_give_the_same_bytes_everywhere)
{
	int wanted = getenv("SGPU_TEST_SMALL") ? 300 : 3000;

	for (int tries = 0; wanted > 0 && tries < 100000; tries++) {
		struct ops_case c;

		if (random_program(&c)) {
			wanted--;
			if (!ops_run(&c)) {
				printf("# code %s\n", c.call.text);
				CHECK(false);
			}
		}
		ops_end(&c);
	}
	CHECK(wanted == 0);
}

int main(void)
{
	UNIT_RUN(types_and_values_are_those_of_numpy);
	UNIT_RUN(what_is_no_expression_is_refused_at_its_column);
	UNIT_RUN(expressions_have_limits);
	UNIT_RUN(what_types_do_not_allow_is_refused);
	UNIT_RUN(shapes_go_together_from_the_last_dimension_on);
	UNIT_RUN(where_and_min_keep_the_bits_of_a_nan);
	UNIT_RUN(functions_are_within_two_units_of_the_last_place);
	UNIT_RUN(pow_has_the_special_values_of_ieee_754);
	UNIT_RUN(byte_code_that_is_not_valid_is_refused);
	UNIT_RUN(a_call_reads_all_of_its_inputs);
	UNIT_RUN(random_programs_give_the_same_bytes_everywhere);
	return unit_done();
}
