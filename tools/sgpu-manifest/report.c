/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults as people and as programs read them.
 */
#include "report.h"

#include <stdlib.h>

#include "cli.h"

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
