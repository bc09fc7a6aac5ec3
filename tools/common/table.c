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

/* The next character of the text and its bytes; those of the C locale where there is no other. */
struct reading {
	locale_t utf8, before;
	const char *text, *end;
};

static void begin(struct reading *reading, const char *text)
{
	reading->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	reading->before = reading->utf8 ? uselocale(reading->utf8) : (locale_t)0;
	reading->text = text;
	reading->end = text + strlen(text);
}

static void end(struct reading *reading)
{
	if (reading->utf8) {
		uselocale(reading->before);
		freelocale(reading->utf8);
	}
}

/* Bytes of the next character and its columns: -1 for what no terminal should get. */
static size_t next(struct reading *reading, int *columns)
{
	mbstate_t state = { 0 };
	wchar_t wide = 0;
	size_t length = mbrtowc(&wide, reading->text, (size_t)(reading->end - reading->text), &state);
	bool hidden = sgpu_is_control((uint32_t)wide);

	if (length == (size_t)-1 || length == (size_t)-2 || !length) {
		length = 1;
		hidden = true;
	}
	*columns = hidden ? -1 : wcwidth(wide);
	reading->text += length;
	return length;
}

/* The columns that the text takes, where a character of East Asia takes two and an accent of its own none. */
static size_t width_of(const char *text)
{
	struct reading reading;
	size_t width = 0;
	int columns;

	begin(&reading, text);
	while (reading.text < reading.end) {
		next(&reading, &columns);
		width += columns < 0 ? 1 : (size_t)columns;
	}
	end(&reading);
	return width;
}

/* The text with a '?' for what would move the cursor, turn the direction of writing or not be seen, and for what is no
 * UTF-8. From malloc; NULL when out of memory. */
static char *clean(const char *text)
{
	char *copy = malloc(strlen(text) + 1), *to = copy;
	struct reading reading;
	int columns;

	begin(&reading, text);
	while (copy && reading.text < reading.end) {
		const char *from = reading.text;
		size_t length = next(&reading, &columns);

		if (columns < 0) {
			*to++ = '?';
		} else {
			memcpy(to, from, length);
			to += length;
		}
	}
	end(&reading);
	if (copy) {
		*to = '\0';
	}
	return copy;
}

void cli_table_row(struct cli_table *table, size_t columns, const char *const *cells)
{
	char **grown = reallocarray(table->cells, table->count + columns, sizeof(*grown));

	table->columns = columns;
	table->failed = table->failed || !grown;
	table->cells = grown ? grown : table->cells;
	for (size_t i = 0; i < columns && !table->failed; i++) {
		char *cell = clean(cells[i] && *cells[i] ? cells[i] : "-");

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
			       last ? 0 : (int)(widths[i % columns] - width_of(table->cells[i])) + 2, last ? "\n" : "");
		}
		free(table->cells[i]);
	}
	free(table->cells);
	free(widths);
	memset(table, 0, sizeof(*table));
	return failed ? cli_fail(SGPU_ENOMEM, "out of memory") : 0;
}
