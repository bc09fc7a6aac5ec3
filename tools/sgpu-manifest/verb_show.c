/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest show: what a manifest says and what follows from it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "document.h"
#include "manifest_tool.h"

enum { AFTER_MAX = 4 }; /* names in a cell */

struct request {
	bool dot, outside;
};

const struct cli_option show_options[] = { CLI_COMMON,
					   { "dot", 0, NULL, "the graph in Graphviz's language",
					     CLI_FLAG(struct request, dot) },
					   OPTION_OUTSIDE(struct request),
					   CLI_END };

static int print_segments(const struct sgpu_manifest *manifest)
{
	struct cli_table table = { 0 };

	cli_row(&table, "SEGMENT", "LEVEL", "DIRECTION", "TYPE", "BYTES", "LOCATION", "WRITTEN BY",
		"READ BY");
	for (int i = 0; i < manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &manifest->segments[i];
		char type[SGPU_TYPE_TEXT_MAX], bytes[48] = "", readers[160] = "";
		uint64_t size = 0;

		show_type(segment, type);
		if (!segment->size_of_file && sgpu_type_bytes(&segment->type, &size)) {
			snprintf(bytes, sizeof(bytes), "%s%" PRIu64,
				 segment->at_most ? "at most " : "", size);
		}
		if (segment->reader_count) {
			const char *first = manifest->operations[segment->readers[0]].id;

			snprintf(readers, sizeof(readers),
				 segment->reader_count > 1 ? "%s, %d more" : "%s", first,
				 segment->reader_count - 1);
		}
		cli_row(&table, segment->id, sgpu_sensitivity_name(segment->sensitivity),
			sgpu_direction_name(segment->direction), type, bytes, segment->location,
			segment->writer < 0 ? NULL : manifest->operations[segment->writer].id,
			readers);
	}
	return cli_table_print(&table);
}

/* "input=scan output=smoothed" */
static void arguments_text(const struct sgpu_manifest *manifest,
			   const struct sgpu_operation *operation, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int k = 0; k < operation->arg_count && used < size; k++) {
		used += (size_t)snprintf(text + used, size - used, "%s%s=%s", k ? " " : "",
					 operation->args[k].name,
					 manifest->segments[operation->args[k].segment].id);
	}
}

/* Parameters as JSON, how a module is started, and what else there is to say. */
static void options_text(const struct sgpu_operation *operation, char *text, size_t size)
{
	char *params = operation->params ? pretty_json(operation->params, 0, false) : NULL;
	const struct sgpu_module_call *module = operation->module;
	size_t used = (size_t)snprintf(text, size, "%s", params ? params : "");

	free(params);
	if (module && used < size) {
		used += (size_t)snprintf(text + used, size - used, " grid %u,%u,%u block %u,%u,%u",
					 module->grid[0], module->grid[1], module->grid[2],
					 module->block[0], module->block[1], module->block[2]);
	}
	if (module && module->has_digest && used < size) {
		char digest[SGPU_BASE64URL_MAX(sizeof(module->digest))];

		sgpu_base64url_encode(module->digest, sizeof(module->digest), digest);
		used += (size_t)snprintf(text + used, size - used, " digest %s", digest);
	}
	if (operation->declassify && used < size) {
		snprintf(text + used, size - used, "%sdeclassify", used ? " " : "");
	}
}

static int print_operations(const struct sgpu_manifest *manifest)
{
	struct cli_table table = { 0 };

	cli_row(&table, "OPERATION", "KERNEL", "ARGUMENTS", "PARAMETERS", "AFTER");
	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[manifest->order[i]];
		char arguments[2048], after[(AFTER_MAX + 1) * (SGPU_ID_MAX + 1)] = "";
		char options[1024];
		size_t used = 0;

		options_text(operation, options, sizeof(options));
		arguments_text(manifest, operation, arguments, sizeof(arguments));
		for (int k = 0; k < operation->before_count && k < AFTER_MAX; k++) {
			used += (size_t)snprintf(after + used, sizeof(after) - used, "%s%s",
						 k ? " " : "",
						 manifest->operations[operation->before[k]].id);
		}
		if (operation->before_count > AFTER_MAX) {
			snprintf(after + used, sizeof(after) - used, ", %d more",
				 operation->before_count - AFTER_MAX);
		}
		cli_row(&table, operation->id, operation->kernel, arguments, options, after);
	}
	return cli_table_print(&table);
}

/* The longest chain of operations up to and with each, by which the graph is drawn: one line a
 * step. */
static int print_graph(const struct sgpu_manifest *manifest)
{
	int *level = calloc((size_t)manifest->operation_count + 1, sizeof(*level)), last = 0;

	if (!level) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[manifest->order[i]];
		int *own = &level[manifest->order[i]];

		for (int k = 0; k < operation->before_count; k++) {
			int before = level[operation->before[k]] + 1;

			*own = before > *own ? before : *own;
		}
		last = *own > last ? *own : last;
	}
	show_steps(manifest, level, last);
	free(level);
	return 0;
}

static int print_text(const struct sgpu_manifest *manifest)
{
	char hex[2 * sizeof(manifest->sha256) + 1];
	int status;

	sgpu_hex_encode(manifest->sha256, sizeof(manifest->sha256), hex);
	printf("manifest %s\nsha256 %s\n\n", manifest->id, hex);
	status = print_segments(manifest);
	putchar('\n');
	status = status ? status : print_operations(manifest);
	putchar('\n');
	return status ? status : print_graph(manifest);
}

int verb_show(int argc, char **argv)
{
	struct request request = { 0 };
	struct document document;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	if (request.dot && cli_json) {
		return cli_usage("--dot and --json exclude each other");
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	if (!status && request.dot) {
		show_dot(document.manifest);
	} else if (!status && cli_json) {
		status = json_write(NULL, NULL, show_json(document.manifest), 2);
	} else if (!status) {
		status = print_text(document.manifest);
	}
	document_free(&document);
	return status;
}
