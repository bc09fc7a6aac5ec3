/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as they were written, and columns as they are seen.
 */
#include "base/json.h"
#include "manifest_tool.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	size_t flags =
		(indent ? JSON_INDENT(indent) : JSON_COMPACT) | (ascii ? JSON_ENSURE_ASCII : 0);
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
