/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads, checks and reports on manifests; writes to the file of -o.
 */
#include "base/io.h"
#include "manifest_tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char DOCUMENT_MADE[] = "the job";

static void print(FILE *file, const char *name, const struct sgpu_diagnostic *diagnostic)
{
	if (cli_json) {
		(void)cli_print_json(json_pack("{s:o, s:i, s:i, s:o, s:o, s:o*}", "file",
					       cli_json_text(name), "line", diagnostic->line,
					       "column", diagnostic->column, "pointer",
					       cli_json_text(diagnostic->pointer), "text",
					       cli_json_text(diagnostic->text), "hint",
					       cli_json_text(diagnostic->hint)),
				     file, JSON_COMPACT);
		return;
	}
	if (name == DOCUMENT_MADE) { /* nobody sees the places in it */
		const char *slash = strrchr(diagnostic->pointer, '/');

		cli_print_line(file, "%s: error: %s%s%s", cli_tool_name(), slash ? slash + 1 : "",
			       slash ? ": " : "", diagnostic->text);
	} else {
		cli_print_line(file, "%s:%d:%d: %s%s%s", name, diagnostic->line, diagnostic->column,
			       diagnostic->pointer, *diagnostic->pointer ? ": " : "",
			       diagnostic->text);
	}
	if (diagnostic->hint) {
		cli_print_line(file, "    hint: %s", diagnostic->hint);
	}
}

static void report_diagnostics(const struct document *document, FILE *records)
{
	const struct sgpu_diagnostics *diagnostics = &document->diagnostics;
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size), *messages = cli_json ? records : stderr;

	for (size_t i = 0; i < diagnostics->count; i++) {
		print(file ? file : messages, document->name, &diagnostics->list[i]);
	}
	/* One write for all diagnostics: standard error has no buffer. */
	if (file && fclose(file) == 0) {
		fwrite(text, 1, size, messages);
	}
	free(text);
	if (diagnostics->count > 1) {
		cli_note("'%s' has %zu faults", document->name, diagnostics->count);
	}
}

static int parse(struct document *document, unsigned options, struct sgpu_error *error)
{
	char *compiled =
		sgpu_map_compile_text(document->text, document->size, &document->diagnostics);
	const char *text = compiled ? compiled : document->text;
	int rc = 0;

	if (!document->diagnostics.count) {
		rc = sgpu_manifest_parse(text, compiled ? strlen(text) : document->size, options,
					 &document->manifest, &document->diagnostics, error);
		rc = rc ? rc : sgpu_ops_check(document->manifest, &document->diagnostics, error);
	}
	free(compiled);
	return rc;
}

static int check(struct document *document, unsigned options)
{
	struct sgpu_error error = { 0 };
	int rc = parse(document, options & ~(unsigned)DOCUMENT_RECORDS_ARE_RESULT, &error);

	/* Text that is not JSON has a diagnostic, with its line and column. */
	if (rc && !(rc == SGPU_EINVALID && document->diagnostics.count)) {
		return cli_error(&error);
	}
	if (document->diagnostics.out_of_memory) {
		sgpu_fail_nomem(&error);
		return cli_error(&error);
	}
	sgpu_diagnostics_locate(&document->diagnostics, document->text, document->size);
	if (!document->diagnostics.count) {
		return 0;
	}
	sgpu_manifest_free(&document->manifest);
	report_diagnostics(document, options & DOCUMENT_RECORDS_ARE_RESULT ? stdout : stderr);
	return 1;
}

int document_load(const char *path, unsigned options, struct document *document)
{
	memset(document, 0, sizeof(*document));
	document->path = path ? path : "-";
	document->name = cli_is_standard(path) ? "standard input" : path;
	const int status = cli_read_input(path, SGPU_MANIFEST_SIZE_MAX, "a manifest",
					  &document->text, &document->size);
	return status ? status : check(document, options);
}

int document_check(const json_t *value, const char *name, unsigned options,
		   struct document *document)
{
	memset(document, 0, sizeof(*document));
	document->path = document->name = name;
	document->text = json_dumps(value, JSON_COMPACT);
	if (!document->text) {
		return cli_fail_nomem();
	}
	document->size = strlen(document->text);
	return check(document, options);
}

void document_free(struct document *document)
{
	sgpu_manifest_free(&document->manifest);
	sgpu_diagnostics_clear(&document->diagnostics);
	free(document->text);
	document->text = NULL;
}

json_t *shape_json(const struct sgpu_type *type)
{
	json_t *shape = json_array();

	for (int i = 0; i < type->rank; i++) {
		json_array_append_new(shape, json_integer((json_int_t)type->shape[i]));
	}
	return shape;
}

char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

int text_write(const char *path, const char *text, size_t size)
{
	struct sgpu_error error = { 0 };

	return cli_write_text(path, 0666, text, size, &error) ? cli_error(&error) : 0;
}

int json_write(const char *path, json_t *value)
{
	struct sgpu_error error = { 0 };

	return cli_write_json(path, 0666, value, &error) ? cli_error(&error) : 0;
}
