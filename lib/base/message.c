/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats messages. Values in quotes come from outside: a name is shown in full, another value in
 * part, and a key not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"

enum { NAME_MAX_LENGTH = 64 };

struct writer {
	char *text;
	size_t size, used;
};

static void put(struct writer *writer, const char *bytes, size_t size)
{
	writer->used += sgpu_escape(bytes, size, writer->text + writer->used,
				    writer->size - writer->used, true);
}

/* Returns the length of the text that the format makes up to `end`. */
static size_t length_until(char *format, char *end, va_list arguments)
{
	const char next = *end;
	va_list copy;

	*end = '\0';
	va_copy(copy, arguments);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* it begins a literal */
	const int length = vsnprintf(NULL, 0, format, copy);
#pragma GCC diagnostic pop
	va_end(copy);
	*end = next;
	return length < 0 ? 0 : (size_t)length;
}

/* A value with quotes, braces or line breaks, or beyond NAME_MAX_LENGTH without a '/', is text. */
static bool is_name(const char *value, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (strchr("{}\"\n\r", value[i])) {
			return false;
		}
	}
	return !sgpu_looks_secret(value, size) &&
	       (size <= NAME_MAX_LENGTH || memchr(value, '/', size));
}

/* Shortens the values of '%s' in the text made of the format, whose beginnings' lengths tell their
 * places. */
static void put_shortened(struct writer *writer, char *format, va_list arguments, const char *whole)
{
	char excerpt[SGPU_EXCERPT_MAX];
	size_t done = 0;

	for (char *quote = format; (quote = strstr(quote, "'%")); quote++) {
		char *kind = quote + 2 + strspn(quote + 2, ".*0123456789");
		if (strncmp(kind, "s'", 2)) {
			continue;
		}
		const size_t begin = length_until(format, quote + 1, arguments),
			     end = length_until(format, kind + 1, arguments);
		if (!is_name(whole + begin, end - begin)) {
			put(writer, whole + done, begin - done);
			sgpu_excerpt(whole + begin, end - begin, excerpt);
			put(writer, excerpt, strlen(excerpt));
			done = end;
		}
	}
	put(writer, whole + done, strlen(whole + done));
}

void sgpu_message_format(char *text, size_t size, const char *format, va_list arguments)
{
	struct writer writer = { text, size, 0 };
	char *copy = strdup(format), *whole = NULL;
	size_t room = 0;

	if (copy) {
		room = length_until(copy, copy + strlen(copy), arguments) + 1;
		whole = malloc(room);
	}
	if (whole) {
		va_list values;
		va_copy(values, arguments);
		vsnprintf(whole, room, format, values);
		va_end(values);
		put_shortened(&writer, copy, arguments, whole);
	} else {
		snprintf(text, size, "out of memory");
	}
	sgpu_free_wiped(&whole, room); /* a value may be a key */
	free(copy);
}
