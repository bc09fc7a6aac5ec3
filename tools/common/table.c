/* SPDX-License-Identifier: Apache-2.0
 *
 * Aligned tables.
 */
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <sgpu/base.h>

#include "cli.h"

/* The columns that the text takes, where a character of East Asia takes two and an accent of its
 * own none. */
static size_t width_of(const char *text)
{
	const size_t size = strlen(text) + 1;
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0),
		 before = utf8 ? uselocale(utf8) : (locale_t)0;
	wchar_t *wide = calloc(size, sizeof(*wide));
	const size_t length = wide ? mbstowcs(wide, text, size) : (size_t)-1;
	const int columns = length == (size_t)-1 ? -1 : wcswidth(wide, length);

	free(wide);
	if (utf8) {
		uselocale(before);
		freelocale(utf8);
	}
	return columns < 0 ? size - 1 : (size_t)columns;
}

void cli_table_row(struct cli_table *table, size_t columns, const char *const *cells)
{
	char **grown = reallocarray(table->cells, table->count + columns, sizeof(*grown));

	table->columns = columns;
	table->failed = table->failed || !grown;
	table->cells = grown ? grown : table->cells;
	for (size_t i = 0; i < columns && !table->failed; i++) {
		char *cell = cli_shown(cells[i] && *cells[i] ? cells[i] : "-");

		table->failed = !cell;
		table->cells[table->count] = cell;
		table->count += cell != NULL;
	}
}

int cli_table_print(struct cli_table *table)
{
	const size_t columns = table->columns;
	size_t *widths = calloc(columns + 1, sizeof(*widths));
	const bool failed = table->failed || !widths;

	for (size_t i = 0; i < table->count && !failed; i++) {
		const size_t width = width_of(table->cells[i]);

		widths[i % columns] = width > widths[i % columns] ? width : widths[i % columns];
	}
	for (size_t i = 0; i < table->count; i++) {
		const bool last = i % columns == columns - 1;

		if (!failed) {
			printf("%s%*s", table->cells[i],
			       last ? 0
				    : (int)(widths[i % columns] - width_of(table->cells[i])) + 2,
			       last ? "\n" : "");
		}
		free(table->cells[i]);
	}
	free(table->cells);
	free(widths);
	memset(table, 0, sizeof(*table));
	return failed ? cli_fail(SGPU_ENOMEM, "out of memory") : 0;
}
