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

enum { TEXT_MAX = 1024 };

static bool grow(struct sgpu_diagnostics *diagnostics)
{
	size_t capacity = diagnostics->capacity ? diagnostics->capacity * 2 : 16;
	struct sgpu_diagnostic *list;

	if (diagnostics->count < diagnostics->capacity) {
		return true;
	}
	list = reallocarray(diagnostics->list, capacity, sizeof(*list));
	if (!list) {
		return false;
	}
	diagnostics->list = list;
	diagnostics->capacity = capacity;
	return true;
}

static void diagnostic_clear(struct sgpu_diagnostic *diagnostic)
{
	free(diagnostic->pointer);
	free(diagnostic->text);
	free(diagnostic->hint);
	memset(diagnostic, 0, sizeof(*diagnostic));
}

/* A hint may quote the document, which is not trusted, so it is escaped. */
static char *copy_escaped(const char *text)
{
	const size_t room = 4 * strlen(text) + 1;
	char *copy = malloc(room);

	if (copy) {
		sgpu_escape(text, strlen(text), copy, room, true);
	}
	return copy;
}

static void append(struct sgpu_diagnostics *diagnostics, const char *pointer, const char *hint,
		   const char *text)
{
	struct sgpu_diagnostic diagnostic = { .pointer = strdup(pointer),
					      .text = strdup(text),
					      .hint = hint ? copy_escaped(hint) : NULL };

	if (!diagnostic.text || !diagnostic.pointer || (hint && !diagnostic.hint) ||
	    !grow(diagnostics)) {
		diagnostic_clear(&diagnostic);
		diagnostics->out_of_memory = true;
		return;
	}
	diagnostics->list[diagnostics->count++] = diagnostic;
}

void sgpu_diagnostic_addv(struct sgpu_diagnostics *diagnostics, const char *pointer,
			  const char *hint, const char *format, va_list arguments)
{
	char text[TEXT_MAX];
	va_list copy;

	if (diagnostics->count > SGPU_DIAGNOSTICS_MAX) {
		return;
	}
	if (diagnostics->count == SGPU_DIAGNOSTICS_MAX) {
		append(diagnostics, "", NULL, "there are more diagnostics than can be listed");
		return;
	}
	va_copy(copy, arguments);
	sgpu_message_format(text, sizeof(text), format, &copy);
	va_end(copy);
	append(diagnostics, pointer, hint, text);
}

void sgpu_diagnostic_add(struct sgpu_diagnostics *diagnostics, const char *pointer,
			 const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	sgpu_diagnostic_addv(diagnostics, pointer, hint, format, arguments);
	va_end(arguments);
}

/* `next` keeps diagnostics of one place in the order in which they were found. */
struct ranked {
	struct sgpu_diagnostic diagnostic;
	size_t next;
};

static int by_position(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->diagnostic.line != y->diagnostic.line) {
		return x->diagnostic.line < y->diagnostic.line ? -1 : 1;
	}
	if (x->diagnostic.column != y->diagnostic.column) {
		return x->diagnostic.column < y->diagnostic.column ? -1 : 1;
	}
	return x->next < y->next ? -1 : x->next > y->next;
}

static int sort_diagnostics(struct sgpu_diagnostics *diagnostics, struct sgpu_error *error)
{
	struct ranked *ranked = calloc(diagnostics->count, sizeof(*ranked));

	if (!ranked) {
		return sgpu_fail_nomem(error);
	}
	for (size_t i = 0; i < diagnostics->count; i++) {
		ranked[i] = (struct ranked){ diagnostics->list[i], i };
	}
	qsort(ranked, diagnostics->count, sizeof(*ranked), by_position);
	for (size_t i = 0; i < diagnostics->count; i++) {
		diagnostics->list[i] = ranked[i].diagnostic;
	}
	free(ranked);
	return SGPU_OK;
}

int sgpu_diagnostics_locate(struct sgpu_diagnostics *diagnostics, const char *text, size_t size,
			    struct sgpu_error *error)
{
	struct sgpu_json_index *index = NULL;
	int rc = SGPU_OK;

	for (size_t i = 0; i < diagnostics->count && !rc; i++) {
		struct sgpu_diagnostic *diagnostic = &diagnostics->list[i];

		if (diagnostic->line) {
			continue;
		}
		if (!index) {
			rc = sgpu_json_index_create(text, size, &index, error);
		}
		if (!rc) {
			sgpu_json_locate(index, diagnostic->pointer, &diagnostic->line,
					 &diagnostic->column);
		}
	}
	sgpu_json_index_free(&index);
	if (!rc && diagnostics->count) {
		rc = sort_diagnostics(diagnostics, error);
	}
	return rc;
}

void sgpu_diagnostics_clear(struct sgpu_diagnostics *diagnostics)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		diagnostic_clear(&diagnostics->list[i]);
	}
	free(diagnostics->list);
	memset(diagnostics, 0, sizeof(*diagnostics));
}
