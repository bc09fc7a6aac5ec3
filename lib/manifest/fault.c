/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of faults: add, locate in the text, clear.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/message.h"
#include "manifest/reader.h"

enum { TEXT_MAX = 1024 };

static bool grow(struct sgpu_faults *faults)
{
	size_t capacity = faults->capacity ? faults->capacity * 2 : 16;
	struct sgpu_fault *list;

	if (faults->count < faults->capacity) {
		return true;
	}
	list = reallocarray(faults->list, capacity, sizeof(*list));
	if (!list) {
		return false;
	}
	faults->list = list;
	faults->capacity = capacity;
	return true;
}

static void fault_clear(struct sgpu_fault *fault)
{
	free(fault->pointer);
	free(fault->text);
	free(fault->hint);
	memset(fault, 0, sizeof(*fault));
}

/* A hint may name what the document does. */
static char *copy_escaped(const char *text)
{
	const size_t room = 4 * strlen(text) + 1;
	char *copy = malloc(room);

	if (copy) {
		sgpu_escape(text, strlen(text), copy, room);
	}
	return copy;
}

static void append(struct sgpu_faults *faults, const char *pointer, const char *hint, const char *text)
{
	struct sgpu_fault fault = { .pointer = strdup(pointer), .text = strdup(text),
				    .hint = hint ? copy_escaped(hint) : NULL };

	if (!fault.text || !fault.pointer || (hint && !fault.hint) || !grow(faults)) {
		fault_clear(&fault);
		faults->out_of_memory = true;
		return;
	}
	faults->list[faults->count++] = fault;
}

void sgpu_fault_addv(struct sgpu_faults *faults, const char *pointer, const char *hint, const char *format,
		     va_list arguments)
{
	char text[TEXT_MAX];
	va_list copy;

	if (faults->count > SGPU_FAULTS_MAX) {
		return;
	}
	if (faults->count == SGPU_FAULTS_MAX) {
		append(faults, "", NULL, "there are more faults than can be listed");
		return;
	}
	va_copy(copy, arguments);
	sgpu_message_format(text, sizeof(text), format, &copy);
	va_end(copy);
	append(faults, pointer, hint, text);
}

void sgpu_fault_add(struct sgpu_faults *faults, const char *pointer, const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	sgpu_fault_addv(faults, pointer, hint, format, arguments);
	va_end(arguments);
}

/* Faults at one place stay in the order in which they were found: `next` is that order here. */
struct ranked {
	struct sgpu_fault fault;
	size_t next;
};

static int by_position(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->fault.line != y->fault.line) {
		return x->fault.line < y->fault.line ? -1 : 1;
	}
	if (x->fault.column != y->fault.column) {
		return x->fault.column < y->fault.column ? -1 : 1;
	}
	return x->next < y->next ? -1 : x->next > y->next;
}

static int sort_faults(struct sgpu_faults *faults, struct sgpu_error *error)
{
	struct ranked *ranked = calloc(faults->count, sizeof(*ranked));

	if (!ranked) {
		return sgpu_fail_nomem(error);
	}
	for (size_t i = 0; i < faults->count; i++) {
		ranked[i] = (struct ranked){ faults->list[i], i };
	}
	qsort(ranked, faults->count, sizeof(*ranked), by_position);
	for (size_t i = 0; i < faults->count; i++) {
		faults->list[i] = ranked[i].fault;
	}
	free(ranked);
	return SGPU_OK;
}

int sgpu_faults_locate(struct sgpu_faults *faults, const char *text, size_t size, struct sgpu_error *error)
{
	struct sgpu_json_index *index = NULL;
	int code = SGPU_OK;

	for (size_t i = 0; i < faults->count && !code; i++) {
		struct sgpu_fault *fault = &faults->list[i];

		if (fault->line) {
			continue;
		}
		if (!index) {
			code = sgpu_json_index_create(text, size, &index, error);
		}
		if (!code) {
			sgpu_json_locate(index, fault->pointer, &fault->line, &fault->column);
		}
	}
	sgpu_json_index_free(&index);
	if (!code && faults->count) {
		code = sort_faults(faults, error);
	}
	return code;
}

void sgpu_faults_clear(struct sgpu_faults *faults)
{
	for (size_t i = 0; i < faults->count; i++) {
		fault_clear(&faults->list[i]);
	}
	free(faults->list);
	memset(faults, 0, sizeof(*faults));
}
