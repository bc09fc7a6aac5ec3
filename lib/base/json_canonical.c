/* SPDX-License-Identifier: Apache-2.0
 *
 * Canonical JSON after RFC 8785.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* A growing text. libc's memory streams silently lose bytes when memory runs out, but hashed and
 * signed text must be complete. */
struct text {
	char *data; /* NUL-terminated at the end */
	size_t size, capacity;
	int rc; /* the first failure */
};

static bool grow(struct text *out)
{
	size_t capacity = out->capacity ? 2 * out->capacity : 4096;
	char *data = out->rc ? NULL : realloc(out->data, capacity);

	if (!data) {
		out->rc = out->rc ? out->rc : SGPU_ENOMEM;
		return false;
	}
	out->data = data;
	out->capacity = capacity;
	return true;
}

static inline void put(struct text *out, char c)
{
	if (out->size < out->capacity || grow(out)) {
		out->data[out->size++] = c;
	}
}

/* Appends a text of less than 64 bytes. */
static void SGPU_PRINTF(2, 3) put_format(struct text *out, const char *format, ...)
{
	char text[64];
	va_list arguments;

	va_start(arguments, format);
	int size = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	for (int i = 0; i < size; i++) {
		put(out, text[i]);
	}
}

/* Section 3.2.3 sorts by UTF-16 code units. UTF-8 has the same order, except that characters beyond
 * the basic plane (F0 to F4), as surrogates, come before U+E000 to U+FFFF (EE and EF). */
static int compare_keys(const void *a, const void *b)
{
	const unsigned char *x = *(const unsigned char *const *)a,
			    *y = *(const unsigned char *const *)b;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	return *x >= 0xee && *y >= 0xee && (*x >= 0xf0) != (*y >= 0xf0) ? *y - *x : *x - *y;
}

static void write_string(struct text *out, const char *text, size_t size)
{
	static const char shorts[] = "btn\0fr"; /* for the bytes 8 to 13; 11 has none */

	put(out, '"');
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '"' || c == '\\') {
			put(out, '\\');
			put(out, (char)c);
		} else if (c >= 8 && c <= 13 && c != 11) {
			put(out, '\\');
			put(out, shorts[c - 8]);
		} else if (c < 0x20) {
			put_format(out, "\\u%04x", c);
		} else {
			put(out, (char)c);
		}
	}
	put(out, '"');
}

/* ECMAScript's Number::toString: the fewest digits that give the same double back. */
static void write_real(struct text *out, double value)
{
	char digits[40];
	int precision, exponent;

	if (value == 0) {
		put(out, '0');
		return;
	}
	if (value < 0) {
		put(out, '-');
		value = -value;
	}
	for (precision = 0; precision < 17; precision++) {
		snprintf(digits, sizeof(digits), "%.*e", precision, value);
		if (strtod(digits, NULL) == value) {
			break;
		}
	}
	char *mark = strchr(digits, 'e');
	exponent = atoi(mark + 1);
	*mark = '\0';
	int count = precision + 1;
	if (count > 1) {
		memmove(digits + 1, digits + 2, (size_t)count); /* drop the point, keep the NUL */
	}
	if (exponent >= 21 || exponent < -6) {
		put_format(out, "%c%s%se%c%d", digits[0], count > 1 ? "." : "", digits + 1,
			   exponent < 0 ? '-' : '+', abs(exponent));
	} else if (exponent < 0) {
		put_format(out, "0.%.*d%s", -exponent - 1, 0, digits);
	} else {
		for (int i = 0; i < count || i <= exponent; i++) {
			if (i == exponent + 1) {
				put(out, '.');
			}
			put(out, i < count ? digits[i] : '0');
		}
	}
}

static void write_value(struct text *out, const json_t *value);

static void write_object(struct text *out, const json_t *value)
{
	size_t count = json_object_size(value), used = 0;
	const char **keys = malloc((count ? count : 1) * sizeof(*keys));
	const char *key;
	json_t *member;

	if (!keys) {
		out->rc = SGPU_ENOMEM;
		return;
	}
	json_object_foreach ((json_t *)value, key, member) {
		keys[used++] = key;
	}
	qsort(keys, count, sizeof(*keys), compare_keys);
	put(out, '{');
	for (size_t i = 0; i < count && !out->rc; i++) {
		if (i) {
			put(out, ',');
		}
		write_string(out, keys[i], strlen(keys[i]));
		put(out, ':');
		write_value(out, json_object_get(value, keys[i]));
	}
	put(out, '}');
	free(keys);
}

static void write_array(struct text *out, const json_t *value)
{
	size_t i;
	json_t *item;

	put(out, '[');
	json_array_foreach (value, i, item) {
		if (i) {
			put(out, ',');
		}
		write_value(out, item);
	}
	put(out, ']');
}

static void write_integer(struct text *out, json_int_t number)
{
	uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

	if (magnitude >= SGPU_JSON_INTEGER_MAX) {
		out->rc = out->rc ? out->rc : SGPU_EINVALID;
	}
	put_format(out, "%" JSON_INTEGER_FORMAT, number);
}

/* Depth is bounded: values come from sgpu_json_parse or are our own. */
static void write_value(struct text *out, const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(out, value);
		break;
	case JSON_ARRAY:
		write_array(out, value);
		break;
	case JSON_STRING:
		write_string(out, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		write_integer(out, json_integer_value(value));
		break;
	case JSON_REAL:
		write_real(out, json_real_value(value));
		break;
	default:
		put_format(out, "%s",
			   json_is_true(value)	  ? "true"
			   : json_is_false(value) ? "false"
						  : "null");
	}
}

int sgpu_json_canonical(const json_t *value, char **text, size_t *size, struct sgpu_error *error)
{
	struct text out = { .data = NULL };

	write_value(&out, value);
	put(&out, '\0');
	if (out.rc) {
		free(out.data);
		return out.rc == SGPU_ENOMEM
			       ? sgpu_fail_nomem(error)
			       : sgpu_fail(
					 error, out.rc,
					 "a number is not below 2^53, so it has no canonical form");
	}
	*text = out.data;
	*size = out.size - 1;
	return 0;
}
