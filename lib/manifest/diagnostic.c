/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of diagnostics: add, locate in the text, clear.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "manifest/reader.h"

enum { TEXT_MAX = 1024, POINTER_MAX = 512 };

static void diagnostic_clear(struct sgpu_diagnostic *diagnostic)
{
	free(diagnostic->pointer);
	free(diagnostic->text);
	free(diagnostic->hint);
	memset(diagnostic, 0, sizeof(*diagnostic));
}

/* A hint may quote the document, which is not trusted. */
static char *copy_escaped(const char *text)
{
	const size_t room = 4 * strlen(text) + 1;
	char *copy = malloc(room);

	if (copy) {
		sgpu_escape(text, strlen(text), copy, room, true);
	}
	return copy;
}

/* Writes "where/field", the field escaped as RFC 6901 says, and cuts off what does not fit. */
static void make_pointer(const char *where, const char *field, char pointer[POINTER_MAX])
{
	size_t used = (size_t)snprintf(pointer, POINTER_MAX, "%s%s", where, field ? "/" : "");

	for (; field && *field && used + 3 < POINTER_MAX; field++) {
		if (*field == '~' || *field == '/') {
			pointer[used++] = '~';
			pointer[used++] = *field == '~' ? '0' : '1';
		} else {
			pointer[used++] = *field;
		}
	}
	pointer[used] = '\0';
}

static void append(struct sgpu_diagnostics *diagnostics, const char *pointer, const char *hint,
		   const char *text)
{
	struct sgpu_diagnostic diagnostic = { .pointer = strdup(pointer),
					      .text = strdup(text),
					      .hint = *hint ? copy_escaped(hint) : NULL };

	if (!diagnostics->list) {
		diagnostics->list = calloc(SGPU_DIAGNOSTICS_MAX + 1, sizeof(diagnostic));
	}
	if (!diagnostic.text || !diagnostic.pointer || (*hint && !diagnostic.hint) ||
	    !diagnostics->list) {
		diagnostic_clear(&diagnostic);
		diagnostics->out_of_memory = true;
		return;
	}
	diagnostics->list[diagnostics->count++] = diagnostic;
}

void sgpu_diagnostic_addv(struct sgpu_diagnostics *diagnostics, const char *where,
			  const char *field, const char *hint, const char *format,
			  va_list arguments)
{
	char text[TEXT_MAX], pointer[POINTER_MAX];

	if (diagnostics->count > SGPU_DIAGNOSTICS_MAX) {
		return;
	}
	if (diagnostics->count == SGPU_DIAGNOSTICS_MAX) {
		append(diagnostics, "", "", "there are more diagnostics than can be listed");
		return;
	}
	sgpu_message_format(text, sizeof(text), format, arguments);
	make_pointer(where, field, pointer);
	append(diagnostics, pointer, hint ? hint : "", text);
}

void sgpu_diagnostic_add(struct sgpu_diagnostics *diagnostics, const char *pointer,
			 const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	sgpu_diagnostic_addv(diagnostics, pointer, NULL, hint, format, arguments);
	va_end(arguments);
}

static bool precedes(const struct sgpu_diagnostic *a, const struct sgpu_diagnostic *b)
{
	return a->line != b->line ? a->line < b->line : a->column < b->column;
}

void sgpu_diagnostics_locate(struct sgpu_diagnostics *diagnostics, const char *text, size_t size)
{
	struct sgpu_diagnostic *list = diagnostics->list;

	for (size_t i = 0; i < diagnostics->count; i++) {
		struct sgpu_diagnostic next = list[i];
		size_t at = i;

		if (!next.line) {
			sgpu_json_locate(text, size, next.pointer, &next.line, &next.column);
		}
		/* Diagnostics of one place stay in the order found. */
		for (; at > 0 && precedes(&next, &list[at - 1]); at--) {
			list[at] = list[at - 1];
		}
		list[at] = next;
	}
}

void sgpu_diagnostics_clear(struct sgpu_diagnostics *diagnostics)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		diagnostic_clear(&diagnostics->list[i]);
	}
	free(diagnostics->list);
	memset(diagnostics, 0, sizeof(*diagnostics));
}
