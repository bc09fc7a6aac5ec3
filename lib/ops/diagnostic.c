/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics of the check, with their places as JSON pointers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops_private.h"

/* At "/list/index/member/name", without member or name where it is NULL. */
__attribute__((format(printf, 7, 0))) static void add(struct sgpu_ops_checker *checker,
						      const char *list, int index,
						      const char *member, const char *name,
						      const char *hint, const char *format,
						      va_list arguments)
{
	char where[128];

	snprintf(where, sizeof(where), "/%s/%d%s%s", list, index, member ? "/" : "",
		 member ? member : "");
	checker->failed = true;
	if (checker->diagnostics) {
		sgpu_diagnostic_addv(checker->diagnostics, where, name, hint, format, arguments);
	}
}

void sgpu_ops_report(struct sgpu_ops_checker *checker, const char *member, const char *name,
		     const char *hint, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	add(checker, "operations", checker->index, member, name, hint, format, list);
	va_end(list);
}

void sgpu_ops_segment_report(struct sgpu_ops_checker *checker, int segment, const char *member,
			     const char *hint, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	add(checker, "segments", segment, member, NULL, hint, format, list);
	va_end(list);
}

/* The names are the first members of the rows of a table. */
void sgpu_ops_unknown(struct sgpu_ops_checker *checker, const char *member, const char *name,
		      const char *what, const char *const *row, size_t row_size)
{
	const char *names[SGPU_ARGUMENTS_MAX + SGPU_PARAMS_MAX] = { NULL };
	char hint[SGPU_ERROR_HINT_MAX];

	for (int i = 0; *row; i++) {
		names[i] = *row;
		row = (const char *const *)(const void *)((const char *)row + row_size);
	}
	sgpu_ops_report(checker, member, name, sgpu_ops_near(name, names, hint),
			"'%s' is not %s of '%s'", name, what, checker->operation->kernel);
}

const char *sgpu_ops_near(const char *name, const char *const *names,
			  char hint[SGPU_ERROR_HINT_MAX])
{
	/* The nearest type by its letters may have another size or sign. */
	const bool types = names[0] && sgpu_dtype_parse(names[0]) != SGPU_NONE;
	const char *near = types ? NULL : sgpu_nearest_name(name, names);

	if (!near) {
		return NULL;
	}
	snprintf(hint, SGPU_ERROR_HINT_MAX, "did you mean '%s'?", near);
	return hint;
}
