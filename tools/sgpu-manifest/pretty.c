/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as they were written, and columns as they are seen.
 */
#include "pretty.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <sgpu/json.h>

/* A number of a JSON text with a fraction or an exponent, in its shortest form. */
static int put_number(FILE *out, const char *digits, size_t length)
{
	struct sgpu_error error = { 0 };
	json_t *number = json_loadb(digits, length, JSON_DECODE_ANY, NULL);
	char *text = NULL;
	size_t size = 0;
	int code = number ? sgpu_json_canonical(number, &text, &size, &error) : SGPU_ENOMEM;

	if (!code) {
		fwrite(text, 1, size, out);
	} else if (code != SGPU_ENOMEM) { /* an integer from 2^53 on, which has none */
		fwrite(digits, 1, length, out);
		code = 0;
	}
	free(text);
	json_decref(number);
	return code;
}

/* Copies JSON text, whose strings pass as they are. */
static int shorten(FILE *out, const char *text)
{
	int code = 0;

	while (*text && !code) {
		size_t length = strspn(text, "+-.0123456789eE");

		if (*text == '"') {
			for (length = 1; text[length] != '"'; length++) {
				length += text[length] == '\\';
			}
			fwrite(text, 1, ++length, out);
		} else if (*text == '-' || (*text >= '0' && *text <= '9')) {
			code = put_number(out, text, length);
		} else {
			fwrite(text, 1, length = 1, out);
		}
		text += length;
	}
	return code;
}

char *pretty_json(const json_t *value, size_t indent, bool ascii)
{
	size_t flags = (indent ? JSON_INDENT(indent) : JSON_COMPACT) | (ascii ? JSON_ENSURE_ASCII : 0);
	char *dump = json_dumps(value, flags | JSON_ENCODE_ANY), *text = NULL;
	size_t size = 0;
	FILE *out = dump ? open_memstream(&text, &size) : NULL;
	int code = out ? shorten(out, dump) : SGPU_ENOMEM;

	if (out && fclose(out)) {
		code = SGPU_ENOMEM;
	}
	free(dump);
	if (code) {
		free(text);
		return NULL;
	}
	return text;
}

/* The next character of the text and its bytes; those of the C locale where there is no other. */
struct reading {
	locale_t utf8, before;
	const char *text, *end;
};

static void begin(struct reading *reading, const char *text)
{
	reading->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	reading->before = reading->utf8 ? uselocale(reading->utf8) : (locale_t)0;
	reading->text = text;
	reading->end = text + strlen(text);
}

static void end(struct reading *reading)
{
	if (reading->utf8) {
		uselocale(reading->before);
		freelocale(reading->utf8);
	}
}

/* Bytes of the next character and its columns: -1 for what no terminal should get. */
static size_t next(struct reading *reading, int *columns)
{
	mbstate_t state = { 0 };
	wchar_t wide = 0;
	size_t length = mbrtowc(&wide, reading->text, (size_t)(reading->end - reading->text), &state);
	bool turns = wide == 0x061c || wide == 0x200e || wide == 0x200f || (wide >= 0x202a && wide <= 0x202e) ||
		     (wide >= 0x2066 && wide <= 0x2069);

	if (length == (size_t)-1 || length == (size_t)-2 || !length) {
		length = 1;
		turns = true;
	}
	*columns = turns ? -1 : wcwidth(wide);
	reading->text += length;
	return length;
}

size_t pretty_width(const char *text)
{
	struct reading reading;
	size_t width = 0;
	int columns;

	begin(&reading, text);
	while (reading.text < reading.end) {
		next(&reading, &columns);
		width += columns < 0 ? 1 : (size_t)columns;
	}
	end(&reading);
	return width;
}

char *pretty_clean(const char *text)
{
	char *copy = malloc(strlen(text) + 1), *to = copy;
	struct reading reading;
	int columns;

	begin(&reading, text);
	while (copy && reading.text < reading.end) {
		const char *from = reading.text;
		size_t length = next(&reading, &columns);

		if (columns < 0) {
			*to++ = '?';
		} else {
			memcpy(to, from, length);
			to += length;
		}
	}
	end(&reading);
	if (copy) {
		*to = '\0';
	}
	return copy;
}
