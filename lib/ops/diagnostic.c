/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics of the check, with their places as JSON pointers.
 */
#include <stdarg.h>
#include <stdio.h>

#include "ops_private.h"

void sgpu_ops_report(struct sgpu_ops_checker *checker, const char *member, const char *name,
		     const char *hint, const char *format, ...)
{
	struct sgpu_reader *reader = &checker->reader;
	va_list list;

	checker->failed = true;
	snprintf(reader->where, SGPU_WHERE_MAX, "/operations/%d%s%s", checker->index,
		 member ? "/" : "", member ? member : "");
	va_start(list, format);
	sgpu_diagnostic_addv(reader->diagnostics, reader->where, name, hint, format, list);
	va_end(list);
}

/* The names are the first members of the rows of a table. */
void sgpu_ops_unknown(struct sgpu_ops_checker *checker, const char *member, const char *name,
		      const char *what, const char *const *row, size_t row_size)
{
	const char *names[SGPU_ARGUMENTS_MAX + SGPU_PARAMS_MAX] = { NULL };
	char hint[SGPU_HINT_MAX];

	for (int i = 0; *row; i++) {
		names[i] = *row;
		row = (const char *const *)(const void *)((const char *)row + row_size);
	}
	sgpu_ops_report(checker, member, name, sgpu_reader_hint(name, names, hint),
			"'%s' is not %s of '%s'", name, what, checker->operation->kernel);
}
