/* SPDX-License-Identifier: Apache-2.0
 *
 * Diagnostics as people and as programs read them.
 */
#include "manifest_tool.h"

#include <stdlib.h>

#include "cli.h"

static void print_diagnostic(FILE *file, const char *name, const struct sgpu_diagnostic *diagnostic)
{
	cli_print_text(file, name);
	fprintf(file, ":%d:%d: ", diagnostic->line, diagnostic->column);
	if (*diagnostic->pointer) {
		cli_print_text(file, diagnostic->pointer);
		fputs(": ", file);
	}
	cli_print_text(file, diagnostic->text);
	fputc('\n', file);
	if (diagnostic->hint) {
		fputs("    hint: ", file);
		cli_print_text(file, diagnostic->hint);
		fputc('\n', file);
	}
}

static void print_record(FILE *file, const char *name, const struct sgpu_diagnostic *diagnostic)
{
	json_t *record = json_pack("{s:o, s:i, s:i, s:o, s:o}", "file", cli_json_text(name), "line",
				   diagnostic->line, "column", diagnostic->column, "pointer",
				   cli_json_text(diagnostic->pointer), "text",
				   cli_json_text(diagnostic->text));

	if (record && diagnostic->hint) {
		json_object_set_new(record, "hint", cli_json_text(diagnostic->hint));
	}
	if (record) {
		json_dumpf(record, file, JSON_COMPACT | JSON_ENSURE_ASCII);
		fputc('\n', file);
	}
	json_decref(record);
}

void report_diagnostics(const struct document *document, FILE *records)
{
	const struct sgpu_diagnostics *diagnostics = &document->diagnostics;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size), *messages = cli_json ? records : stderr;

	for (size_t i = 0; i < diagnostics->count; i++) {
		if (cli_json) {
			print_record(file ? file : messages, document->name, &diagnostics->list[i]);
		} else {
			print_diagnostic(file ? file : messages, document->name,
					 &diagnostics->list[i]);
		}
	}
	/* One write for all: standard error has no buffer of its own. */
	if (file && fclose(file) == 0) {
		fwrite(text, 1, size, messages);
	}
	free(text);
	if (diagnostics->count > 1) {
		cli_note("'%s' has %zu faults", document->name, diagnostics->count);
	}
}
