/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the results of tools: JSON, whole texts and tables.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
	int rc = cli_output_take(&output, path, mode, false, error);

	rc = rc ? rc : sgpu_write(output.fd, output.path, text, size, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	return rc;
}

/* Returns a value's text with numbers in their shortest form, 0.58, not 0.57999999999999996, unless
 * one of them needs all digits. From malloc; NULL: out of memory. */
static char *shortest(const json_t *value, size_t flags)
{
	char *text = NULL;

	/* A number needs the last two of its 17 digits only if it reads back as another without
	 * them. */
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
	char *text = value ? shortest(value, JSON_INDENT(2) | ascii) : NULL;
	const size_t size = text ? strlen(text) : 0;
	int rc = text ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		text[size] = '\n'; /* in place of the NUL */
		rc = cli_write_text(path, mode, text, size + 1, error);
	}
	free(text);
	json_decref(value);
	return rc;
}

enum { COLUMNS_MAX = 16, ITEMS_SHOWN = 8, NAME_WIDTH = 28 };

/* Counts one column for each character. */
static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++) {
		width += (*text & 0xc0) != 0x80; /* not within a character */
	}
	return width;
}

static void put_value(FILE *out, const json_t *value)
{
	const char *name, *between = "";
	json_t *item;
	size_t i;

	if (json_is_string(value)) {
		cli_print_text(out, json_string_value(value));
	} else if (json_is_integer(value)) {
		fprintf(out, "%lld", json_integer_value(value));
	} else if (json_is_real(value)) {
		fprintf(out, "%.9g", json_real_value(value));
	} else if (json_is_boolean(value)) {
		fputs(json_is_true(value) ? "yes" : "no", out);
	}
	json_array_foreach (value, i, item) {
		if (i == ITEMS_SHOWN) {
			fprintf(out, ", %zu more", json_array_size(value) - i);
			break;
		}
		fputs(i ? ", " : "", out);
		put_value(out, item);
	}
	json_object_foreach ((json_t *)(uintptr_t)value, name, item) {
		fputs(between, out);
		cli_print_text(out, name);
		putc('=', out);
		put_value(out, item);
		between = " ";
	}
}

/* Returns a value in one text, "-" for none, escaped for a terminal. From malloc. */
static char *value_text(const json_t *value)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out) {
		put_value(out, value);
		fputs(ftell(out) ? "" : "-", out);
		(void)fclose(out);
	}
	return text;
}

/* Prints a row, or the headings for NULL; without `out`, notes how wide its cells are. */
static void put_row(FILE *out, const json_t *row, const char *columns, size_t widths[COLUMNS_MAX])
{
	for (size_t i = 0; *columns; i++, columns += strspn(columns, " ")) {
		const size_t length = strcspn(columns, " ");
		char *text = row ? value_text(json_object_getn(row, columns, length))
				 : strndup(columns, length);
		const size_t width = text ? width_of(text) : 0;

		columns += length;
		if (out) {
			fprintf(out, "%s%*s", text ? text : "",
				*columns ? (int)(widths[i] - width) + 2 : 0, *columns ? "" : "\n");
		} else if (width > widths[i]) {
			widths[i] = width;
		}
		free(text);
	}
}

void cli_table(FILE *out, const json_t *list, const char *columns)
{
	size_t widths[COLUMNS_MAX] = { 0 }, i;
	const json_t *row;

	put_row(NULL, NULL, columns, widths);
	json_array_foreach (list, i, row) {
		put_row(NULL, row, columns, widths);
	}
	put_row(out, NULL, columns, widths);
	json_array_foreach (list, i, row) {
		put_row(out, row, columns, widths);
	}
}

/* Prints what an object holds below its name, but what is in it on one line. Names can be hostile,
 * too: a server chooses those of its status. */
static void put_member(FILE *out, const char *name, const json_t *value, int depth)
{
	const json_int_t mib = json_integer_value(value) >> 20;
	char *shown = cli_shown(name), *text = NULL;
	const char *key;
	json_t *member;
	size_t i;

	if (!depth && json_is_object(json_array_get(value, 0))) {
		json_array_foreach (value, i, member) {
			put_member(out, name, member, depth);
		}
	} else if (!depth && json_is_object(value)) {
		fprintf(out, "%s\n", shown ? shown : "");
		json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
			put_member(out, key, member, 2);
		}
	} else {
		text = value_text(value);
		fprintf(out, "%*s%-*s %s", depth, "", NAME_WIDTH - depth - 1, shown ? shown : "",
			text ? text : "");
		fprintf(out, mib && strstr(name, "bytes") ? " (%lld MiB)\n" : "\n", mib);
	}
	free(text);
	free(shown);
}

void cli_record(FILE *out, const json_t *record)
{
	const char *name;
	json_t *member;

	json_object_foreach ((json_t *)(uintptr_t)record, name, member) {
		put_member(out, name, member, 0);
	}
}

void cli_lists(FILE *out, const json_t *record, const char *const lists[][2])
{
	json_t *rest = json_copy((json_t *)(uintptr_t)record);

	for (size_t i = 0; lists[i][0]; i++) {
		json_object_del(rest, lists[i][0]);
	}
	cli_record(out, rest);
	json_decref(rest);
	for (size_t i = 0; lists[i][0]; i++) {
		if (json_object_get(record, lists[i][0])) {
			putc('\n', out);
			cli_table(out, json_object_get(record, lists[i][0]), lists[i][1]);
		}
	}
}
