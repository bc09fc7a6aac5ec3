/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of faults: add, locate in the text, clear.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

/* C0 and DEL, and the C1 controls and the bidirectional overrides as UTF-8 writes them. */
static void replace_controls(char *text)
{
	for (unsigned char *p = (unsigned char *)text; *p; p++) {
		if (*p < 0x20 || *p == 0x7f) {
			*p = '?';
		} else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) {
			p[0] = p[1] = '?';
		} else if (p[0] == 0xe2 && ((p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
					    (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9))) {
			p[0] = p[1] = p[2] = '?';
		}
	}
}

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

/* Takes over `text`. */
static void append(struct sgpu_faults *faults, const char *pointer, const char *hint, char *text)
{
	struct sgpu_fault fault = { .pointer = strdup(pointer), .text = text, .hint = hint ? strdup(hint) : NULL };

	if (!fault.text || !fault.pointer || (hint && !fault.hint) || !grow(faults)) {
		fault_clear(&fault);
		faults->out_of_memory = true;
		return;
	}
	replace_controls(fault.text);
	if (fault.hint) {
		replace_controls(fault.hint);
	}
	faults->list[faults->count++] = fault;
}

void sgpu_fault_addv(struct sgpu_faults *faults, const char *pointer, const char *hint, const char *format,
		     va_list arguments)
{
	char *text = NULL;

	if (faults->count > SGPU_FAULTS_MAX) {
		return;
	}
	if (faults->count == SGPU_FAULTS_MAX) {
		append(faults, "", NULL, strdup("there are more faults than can be listed"));
		return;
	}
	if (vasprintf(&text, format, arguments) < 0) {
		text = NULL;
	}
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
