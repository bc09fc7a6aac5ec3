/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats messages. vsnprintf alone would not do, because a value in quotes comes from outside: a
 * name is shown in full, another value only in part, and a key not at all.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"

enum { SPEC_MAX = 32, PIECE_MAX = 352 };

struct writer {
	char *text;
	size_t size, used;
};

static void put(struct writer *writer, const char *bytes, size_t size)
{
	writer->used += sgpu_escape(bytes, size, writer->text + writer->used,
				    writer->size - writer->used, true);
}

/* One conversion: "%-8.3lld". */
struct spec {
	char text[SPEC_MAX];
	size_t length; /* bytes in the format */
	bool star[2];  /* width, precision */
	char modifier[3];
	char kind;
};

static bool read_spec(const char *format, struct spec *spec)
{
	const char *p = format + 1;

	memset(spec, 0, sizeof(*spec));
	p += strspn(p, "-+ #0");
	spec->star[0] = *p == '*';
	p += *p == '*' ? 1 : strspn(p, "0123456789");
	if (*p == '.') {
		p++;
		spec->star[1] = *p == '*';
		p += *p == '*' ? 1 : strspn(p, "0123456789");
	}
	const size_t modifiers = strspn(p, "hlzjt");
	if (modifiers >= sizeof(spec->modifier)) {
		return false;
	}
	memcpy(spec->modifier, p, modifiers);
	p += modifiers;
	spec->kind = *p;
	spec->length = (size_t)(p - format) + 1;
	if (!*p || spec->length >= sizeof(spec->text)) {
		return false;
	}
	memcpy(spec->text, format, spec->length);
	return true;
}

/* Calls snprintf with the values of the conversion's stars. */
#define RENDER(value)                                                                   \
	(spec->star[0] && spec->star[1]                                                 \
		 ? snprintf(piece, PIECE_MAX, spec->text, star[0], star[1], (value))    \
	 : spec->star[0] || spec->star[1]                                               \
		 ? snprintf(piece, PIECE_MAX, spec->text, star[spec->star[1]], (value)) \
		 : snprintf(piece, PIECE_MAX, spec->text, (value)))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static bool put_number(struct writer *writer, const struct spec *spec, const int star[2],
		       va_list *arguments)
{
	char piece[PIECE_MAX] = "";

	if (strchr("fFeEgGaA", spec->kind)) {
		RENDER(va_arg(*arguments, double));
	} else if (spec->kind == 'p') {
		RENDER(va_arg(*arguments, void *));
	} else if (!strchr("diuxXoc", spec->kind)) {
		return false;
	} else if (!strcmp(spec->modifier, "l")) {
		RENDER(va_arg(*arguments, long));
	} else if (!strcmp(spec->modifier, "ll")) {
		RENDER(va_arg(*arguments, long long));
	} else if (!strcmp(spec->modifier, "z") || !strcmp(spec->modifier, "t")) {
		RENDER(va_arg(*arguments, size_t));
	} else if (!strcmp(spec->modifier, "j")) {
		RENDER(va_arg(*arguments, intmax_t));
	} else {
		RENDER(va_arg(*arguments, int));
	}
	put(writer, piece, strlen(piece));
	return true;
}
#pragma GCC diagnostic pop

static void put_string(struct writer *writer, const struct spec *spec, const int star[2],
		       const char *value, bool quoted)
{
	char excerpt[SGPU_EXCERPT_MAX];
	const char *point = strchr(spec->text, '.');
	size_t most = SIZE_MAX;

	value = value ? value : "(null)";
	if (point) {
		const int precision = spec->star[1] ? star[1] : (int)strtoul(point + 1, NULL, 10);
		most = precision < 0 ? SIZE_MAX : (size_t)precision;
	}
	const size_t size = strnlen(value, most);
	if (quoted && !sgpu_is_name(value, size)) {
		sgpu_excerpt(value, size, excerpt);
		put(writer, excerpt, strlen(excerpt));
		return;
	}
	put(writer, value, size);
}

static bool put_conversion(struct writer *writer, const struct spec *spec, bool quoted,
			   va_list *arguments)
{
	int star[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		star[i] = spec->star[i] ? va_arg(*arguments, int) : 0;
	}
	if (spec->kind == 's' && !spec->modifier[0]) {
		put_string(writer, spec, star, va_arg(*arguments, const char *), quoted);
		return true;
	}
	return put_number(writer, spec, star, arguments);
}

void sgpu_message_format(char *text, size_t size, const char *format, va_list *arguments)
{
	struct writer writer = { text, size, 0 };
	struct spec spec;

	text[0] = '\0';
	for (const char *p = format; *p;) {
		const size_t plain = strcspn(p, "%");

		put(&writer, p, plain);
		p += plain;
		if (!*p) {
			return;
		}
		if (p[1] == '%') {
			put(&writer, "%", 1);
			p += 2;
			continue;
		}
		if (!read_spec(p, &spec) ||
		    !put_conversion(&writer, &spec,
				    p > format && p[-1] == '\'' && p[spec.length] == '\'',
				    arguments)) {
			return; /* no message uses this conversion: the arguments after it cannot be
				   read */
		}
		p += spec.length;
	}
}
