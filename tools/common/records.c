/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the results of tools: JSON, whole texts and tables.
 */
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "cli.h"

int cli_print_json(json_t *value, FILE *out, size_t flags)
{
	char *line = value ? json_dumps(value, flags | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9))
			   : NULL;
	const int fd = out == stdout ? cli_output_fd : out == stderr ? cli_error_fd : -1;
	const size_t size = line ? strlen(line) : 0;
	struct sgpu_error error;
	bool written;

	json_decref(value);
	if (!line) {
		return cli_fail(SGPU_ENOMEM, "out of memory, or a text of the record is not UTF-8");
	}
	for (char *p = line; (p = strchr(p, 0x7f)); *p = '?') {
		/* DEL, which JSON leaves as it is, is no text for a terminal */
	}
	/* One write, so that lines of several processes do not mix. */
	line[size] = '\n'; /* in place of the NUL */
	written = (fd >= 0 || fwrite(line, size + 1, 1, out) == 1) && fflush(out) == 0 &&
		  (fd < 0 || sgpu_write(fd, "", line, size + 1, NULL) == SGPU_OK);
	free(line);
	if (!written) {
		sgpu_fail_write(&error, out == stdout ? "standard output" : "standard error");
	}
	return written ? 0 : cli_error(&error);
}

json_t *cli_json_text(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;
	char *copy = text && !string ? strdup(text) : NULL;

	for (char *p = copy; p && *p; p++) {
		*p = (unsigned char)*p < 0x80 ? *p : '?';
	}
	string = copy ? json_string(copy) : string;
	free(copy);
	return string;
}

const char *cli_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

void cli_append(char *text, size_t size, const char *format, ...)
{
	const size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text + used, size - used, format, arguments);
	va_end(arguments);
}

int cli_write_text(const char *path, mode_t mode, const char *text, size_t size,
		   struct sgpu_error *error)
{
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	const char *name = cli_is_standard(path) ? "standard output" : path;
	int rc = cli_is_input(path)
			 ? sgpu_fail(error, SGPU_EUSAGE, "'%s' is both input and output", name)
			 : cli_output_take(&output, path, mode, error);

	rc = rc ? rc : sgpu_write(output.fd, name, text, size, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	return rc;
}

char *cli_json_shortest(const json_t *value, size_t flags)
{
	char *text = NULL;

	/* Of a number's 17 digits, the last two are needed only if it reads back as another
	 * without them. */
	for (int digits = 15; digits <= 17; digits++) {
		free(text);
		text = json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_t *again = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
		const bool same = json_equal(again, value);

		json_decref(again);
		if (same) {
			break;
		}
	}
	return text;
}

int cli_write_json(const char *path, mode_t mode, json_t *value, struct sgpu_error *error)
{
	const size_t ascii = cli_is_standard(path) ? JSON_ENSURE_ASCII : 0;
	char *text = value ? cli_json_shortest(value, JSON_INDENT(2) | ascii) : NULL;
	const size_t size = text ? strlen(text) : 0;
	int rc = text ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		text[size] = '\n'; /* in place of the NUL, which is not written */
		rc = cli_write_text(path, mode, text, size + 1, error);
	}
	free(text);
	json_decref(value);
	return rc;
}

/* Aligned tables. */

/* Returns how many columns a text takes: a character of East Asia takes two, a combining accent
 * none. */
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
	return failed ? cli_fail_nomem() : 0;
}
