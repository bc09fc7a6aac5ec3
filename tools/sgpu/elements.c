/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the few elements of a small result.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "manifest/manifest.h"
#include "sgpu.h"

enum { TEXT_MAX = 32, BYTES_MAX = 4096 };

union element {
	uint8_t bytes[8];
	float f32;
	double f64;
	int8_t i8;
	uint8_t u8;
	int16_t i16;
	uint16_t u16;
	int32_t i32;
	uint32_t u32;
	int64_t i64;
	uint64_t u64;
};

static double half_value(uint16_t half)
{
	const int exponent = half >> 10 & 31, fraction = half & 1023;
	const double size = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
			    : exponent	   ? ldexp(1024 + fraction, exponent - 25)
					   : ldexp(fraction, -24);

	return half >> 15 ? -size : size;
}

/* Writes a float with the fewest digits that give it back, without an exponent where people write
 * none. */
static void float_text(double value, bool single, char text[TEXT_MAX])
{
	const bool plain = fabs(value) >= 1e-4 && fabs(value) < 1e16;

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, TEXT_MAX, "%.*g", digits, value);
		const double again = strtod(text, NULL);

		if (isnan(value) || ((single ? (float)again == (float)value : again == value) &&
				     !(plain && strchr(text, 'e')))) {
			break;
		}
	}
}

static void element_text(enum sgpu_dtype dtype, const union element *e, char text[TEXT_MAX])
{
	switch (dtype) {
	case SGPU_F32:
		float_text((double)e->f32, true, text);
		break;
	case SGPU_F64:
		float_text(e->f64, false, text);
		break;
	case SGPU_F16:
		float_text(half_value(e->u16), true, text);
		break;
	case SGPU_U64:
		snprintf(text, TEXT_MAX, "%" PRIu64, e->u64);
		break;
	default:
		snprintf(text, TEXT_MAX, "%" PRId64,
			 dtype == SGPU_I8    ? (int64_t)e->i8
			 : dtype == SGPU_U8  ? (int64_t)e->u8
			 : dtype == SGPU_I16 ? (int64_t)e->i16
			 : dtype == SGPU_U16 ? (int64_t)e->u16
			 : dtype == SGPU_I32 ? (int64_t)e->i32
			 : dtype == SGPU_U32 ? (int64_t)e->u32
					     : e->i64);
		break;
	}
}

int print_elements(const struct sgpu_type *type, int fd)
{
	const size_t size = sgpu_dtype_size(type->dtype);
	uint8_t data[BYTES_MAX];
	struct sgpu_error error = { 0 };
	uint64_t count = 0;
	size_t got = 0;

	(void)sgpu_type_elements(type, &count); /* or fewer, if only the run determines that */
	if (count * size > sizeof(data) ||
	    sgpu_pread(fd, "the result", data, sizeof(data), 0, &got, &error)) {
		return error.code ? cli_error(&error)
				  : cli_fail(SGPU_EINVALID, "too many elements");
	}
	count = got / size < count ? got / size : count;
	if (cli_json) {
		printf("{\"dtype\":\"%s\",\"values\":[", sgpu_dtype_name(type->dtype));
	}
	for (uint64_t i = 0; i < count; i++) {
		union element e = { .bytes = { 0 } };
		char text[TEXT_MAX];

		memcpy(e.bytes, data + i * size, size);
		element_text(type->dtype, &e, text);
		const char *quote = cli_json && strchr(text, 'n') ? "\"" : ""; /* inf, nan */
		printf("%s%s%s%s", !i ? "" : cli_json ? "," : " ", quote, text, quote);
	}
	printf(cli_json ? "]}\n" : "\n");
	sgpu_wipe(data, sizeof(data));
	return 0;
}
