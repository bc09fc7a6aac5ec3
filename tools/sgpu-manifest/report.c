/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults as people and as programs read them, and aligned tables.
 */
#include "report.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "pretty.h"

static void print_fault(FILE *file, const char *name, const struct sgpu_fault *fault)
{
	cli_print_text(file, name);
	fprintf(file, ":%d:%d: ", fault->line, fault->column);
	if (*fault->pointer) {
		cli_print_text(file, fault->pointer);
		fputs(": ", file);
	}
	cli_print_text(file, fault->text);
	fputc('\n', file);
	if (fault->hint) {
		fputs("    hint: ", file);
		cli_print_text(file, fault->hint);
		fputc('\n', file);
	}
}

static void print_record(FILE *file, const char *name, const struct sgpu_fault *fault)
{
	json_t *record =
		json_pack("{s:o, s:i, s:i, s:o, s:o}", "file", cli_json_text(name), "line", fault->line, "column",
			  fault->column, "pointer", cli_json_text(fault->pointer), "text", cli_json_text(fault->text));

	if (record && fault->hint) {
		json_object_set_new(record, "hint", cli_json_text(fault->hint));
	}
	if (record) {
		json_dumpf(record, file, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', file);
	}
	json_decref(record);
}

void report_faults(const struct document *document, FILE *records)
{
	const struct sgpu_faults *faults = &document->faults;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size), *messages = cli_json ? records : stderr;

	for (size_t i = 0; i < faults->count; i++) {
		if (cli_json) {
			print_record(file ? file : messages, document->name, &faults->list[i]);
		} else {
			print_fault(file ? file : messages, document->name, &faults->list[i]);
		}
	}
	/* One write for all: standard error has no buffer of its own. */
	if (file && fclose(file) == 0) {
		fwrite(text, 1, size, messages);
	}
	free(text);
	if (faults->count > 1) {
		cli_note("%s: %zu faults", document->name, faults->count);
	}
}

void table_cell(struct table *table, const char *text)
{
	size_t capacity = table->capacity ? table->capacity * 2 : 64;
	char **cells;

	if (table->count == table->capacity) {
		cells = reallocarray(table->cells, capacity, sizeof(*cells));
		if (!cells) {
			table->failed = true;
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	table->cells[table->count] = pretty_clean(text && *text ? text : "-");
	if (!table->cells[table->count]) {
		table->failed = true;
		return;
	}
	table->count++;
}

static void print_cells(const struct table *table)
{
	size_t width[TABLE_COLUMNS_MAX] = { 0 }, columns = (size_t)table->columns;

	for (size_t i = 0; i < table->count; i++) {
		size_t length = pretty_width(table->cells[i]);

		width[i % columns] = length > width[i % columns] ? length : width[i % columns];
	}
	for (size_t i = 0; i < table->count; i++) {
		bool last = i % columns == columns - 1;

		fputs(table->cells[i], stdout);
		if (last) {
			putchar('\n');
		} else {
			printf("%*s", (int)(width[i % columns] - pretty_width(table->cells[i])) + 2, "");
		}
	}
}

int table_print(struct table *table)
{
	bool failed = table->failed;

	if (!failed) {
		print_cells(table);
	}
	for (size_t i = 0; i < table->count; i++) {
		free(table->cells[i]);
	}
	free(table->cells);
	memset(table, 0, sizeof(*table));
	return failed ? cli_fail(SGPU_ENOMEM, "out of memory") : 0;
}
