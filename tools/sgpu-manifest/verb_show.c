/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest show: prints a manifest's segments, operations and graph.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "manifest_tool.h"

enum { AFTER_MAX = 4 }; /* most names in a cell */

const struct cli_option show_options[] = { CLI_COMMON,
					   { "dot", 0, NULL, "the graph in Graphviz's language",
					     CLI_FLAG(struct request, dot) },
					   OPTION_OUTSIDE,
					   CLI_END };

/* Describes a segment's type; that of a module without data_type_info is "u8[file]". */
static void show_type(const struct sgpu_segment *segment, char text[SGPU_TYPE_TEXT_MAX])
{
	if (segment->size_of_file) {
		snprintf(text, SGPU_TYPE_TEXT_MAX, "%s[file]",
			 sgpu_dtype_name(segment->type.dtype));
	} else {
		sgpu_type_text(&segment->type, text);
	}
}

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

/* Lists an operation's arguments: "input=scan output=smoothed". */
static void arguments_text(const struct sgpu_manifest *manifest,
			   const struct sgpu_operation *operation, char *text, size_t size)
{
	text[0] = '\0';
	for (int k = 0; k < operation->arg_count; k++) {
		cli_append(text, size, "%s%s=%s", k ? " " : "", operation->args[k].name,
			   manifest->segments[operation->args[k].segment].id);
	}
}

/* Describes an operation: its parameters as JSON, how its module is started, and its other
 * properties. */
static void options_text(const struct sgpu_operation *operation, char *text, size_t size)
{
	char *params =
		operation->params ? cli_json_shortest(operation->params, JSON_COMPACT) : NULL;
	const struct sgpu_module_call *module = operation->module;

	snprintf(text, size, "%s", params ? params : "");
	free(params);
	if (module) {
		cli_append(text, size, " grid %u,%u,%u block %u,%u,%u", module->grid[0],
			   module->grid[1], module->grid[2], module->block[0], module->block[1],
			   module->block[2]);
	}
	if (module && module->has_digest) {
		char digest[SGPU_BASE64URL_MAX(sizeof(module->digest))];

		sgpu_base64url_encode(module->digest, sizeof(module->digest), digest);
		cli_append(text, size, " digest %s", digest);
	}
	if (operation->declassify) {
		cli_append(text, size, "%sdeclassify", *text ? " " : "");
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

		options_text(operation, options, sizeof(options));
		arguments_text(manifest, operation, arguments, sizeof(arguments));
		for (int k = 0; k < operation->before_count && k < AFTER_MAX; k++) {
			cli_append(after, sizeof(after), "%s%s", k ? " " : "",
				   manifest->operations[operation->before[k]].id);
		}
		if (operation->before_count > AFTER_MAX) {
			cli_append(after, sizeof(after), ", %d more",
				   operation->before_count - AFTER_MAX);
		}
		cli_row(&table, operation->id, operation->kernel, arguments, options, after);
	}
	return cli_table_print(&table);
}

static int print_text(const struct sgpu_manifest *manifest)
{
	char hex[2 * sizeof(manifest->sha256) + 1];
	int status;

	sgpu_hex_encode(manifest->sha256, sizeof(manifest->sha256), hex);
	printf("manifest %s\nsha256 %s\n\n", manifest->id, hex);
	status = print_segments(manifest);
	putchar('\n');
	return status ? status : print_operations(manifest);
}

/* ---- for Graphviz, and as JSON ---- */
/* Whether `later` reads a segment that `earlier` writes. The edges of that segment then show the
 * order. */
static bool has_data_edge(const struct sgpu_manifest *manifest, int earlier, int later)
{
	const struct sgpu_operation *operation = &manifest->operations[later];

	for (int k = 0; k < operation->arg_count; k++) {
		const struct sgpu_segment *segment =
			&manifest->segments[operation->args[k].segment];

		if (!operation->args[k].output && segment->writer == earlier &&
		    segment->direction != SGPU_INPUT_OUTPUT) {
			return true;
		}
	}
	return false;
}

static void dot_segment(const struct sgpu_segment *segment)
{
	char type[SGPU_TYPE_TEXT_MAX];

	show_type(segment, type);
	printf("\t\"s:%s\" [label=\"%s\\n%s\"%s%s];\n", segment->id, segment->id, type,
	       segment->sensitivity == SGPU_HIGH ? ", style=filled, fillcolor=\"#f4c7c3\"" : "",
	       segment->direction == SGPU_INTERMEDIATE ? ", color=gray" : "");
}

/* Returns the segment of an operation's module; -1 if there is none, or if the segment is also an
 * argument, so that its edge is drawn already. */
static int module_of(const struct sgpu_operation *operation)
{
	for (int k = 0; operation->module && k < operation->arg_count; k++) {
		if (operation->args[k].segment == operation->module->segment) {
			return -1;
		}
	}
	return operation->module ? operation->module->segment : -1;
}

/* Prints the graph for Graphviz: segments as ellipses (HIGH ones filled), operations as boxes,
 * dependencies without data as dashed edges. Neither ids nor kernels contain quotes or backslashes:
 * a kernel is a name from the table, or ids and an identifier. */
static void show_dot(const struct sgpu_manifest *manifest)
{
	printf("digraph manifest {\n\trankdir=LR;\n\tnode [fontname=\"sans-serif\"];\n");
	for (int i = 0; i < manifest->segment_count; i++) {
		dot_segment(&manifest->segments[i]);
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		const struct sgpu_operation *operation = &manifest->operations[i];

		printf("\t\"o:%s\" [shape=box, label=\"%s\\n%s%s\"];\n", operation->id,
		       operation->id, operation->kernel,
		       operation->declassify ? "\\ndeclassify" : "");
		for (int k = 0; k < operation->arg_count; k++) {
			const char *id = manifest->segments[operation->args[k].segment].id;

			printf(operation->args[k].output
				       ? "\t\"o:%s\" -> \"s:%s\" [label=\"%s\"];\n"
				       : "\t\"s:%2$s\" -> \"o:%1$s\" [label=\"%3$s\"];\n",
			       operation->id, id, operation->args[k].name);
		}
		if (module_of(operation) >= 0) {
			printf("\t\"s:%s\" -> \"o:%s\" [label=\"module\"];\n",
			       manifest->segments[operation->module->segment].id, operation->id);
		}
		for (int k = 0; k < operation->before_count; k++) {
			if (!has_data_edge(manifest, operation->before[k], i)) {
				printf("\t\"o:%s\" -> \"o:%s\" [style=dashed];\n",
				       manifest->operations[operation->before[k]].id,
				       operation->id);
			}
		}
	}
	printf("}\n");
}

static json_t *operation_ids(const struct sgpu_manifest *manifest, const int *list, int count)
{
	json_t *array = json_array();

	for (int i = 0; i < count; i++) {
		json_array_append_new(array, json_string(manifest->operations[list[i]].id));
	}
	return array;
}

static json_t *segment_json(const struct sgpu_manifest *manifest,
			    const struct sgpu_segment *segment)
{
	const bool of_file = segment->size_of_file;
	uint64_t bytes = 0;

	if (!sgpu_type_bytes(&segment->type, &bytes)) {
		bytes = 0;
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:b, s:b, s:o, s:s*, s:o*, s:o*, s:s*}",
			 "segment_id", segment->id, "sensitivity_level",
			 sgpu_sensitivity_name(segment->sensitivity), "direction",
			 sgpu_direction_name(segment->direction), "dtype",
			 sgpu_dtype_name(segment->type.dtype), "shape",
			 of_file ? json_null() : shape_json(&segment->type), "bytes",
			 of_file ? json_null() : json_integer((json_int_t)bytes), "at_most",
			 segment->at_most, "high_flow", segment->high_flow, "readers",
			 operation_ids(manifest, segment->readers, segment->reader_count),
			 "data_location_client", segment->location, "size_of_file",
			 of_file ? json_true() : NULL, "offset",
			 segment->has_offset ? json_integer((json_int_t)segment->offset) : NULL,
			 "writer",
			 segment->writer >= 0 ? manifest->operations[segment->writer].id : NULL);
}

static void add_module(json_t *object, const struct sgpu_manifest *manifest,
		       const struct sgpu_module_call *module)
{
	const unsigned *g = module->grid, *b = module->block;
	json_t *more = json_pack(
		"{s:{s:s, s:s}, s:[i,i,i], s:[i,i,i], s:i, s:o*}", "module", "segment_id",
		manifest->segments[module->segment].id, "function", module->function, "grid",
		(int)g[0], (int)g[1], (int)g[2], "block", (int)b[0], (int)b[1], (int)b[2],
		"shared_bytes", (int)module->shared_bytes, "module_digest",
		module->has_digest ? sgpu_json_from_bytes(module->digest, sizeof(module->digest))
				   : NULL);

	json_object_update(object, more);
	json_decref(more);
}

static json_t *operation_json(const struct sgpu_manifest *manifest,
			      const struct sgpu_operation *operation)
{
	json_t *arguments = json_object(), *object;

	for (int k = 0; k < operation->arg_count; k++) {
		json_object_set_new(arguments, operation->args[k].name,
				    json_string(manifest->segments[operation->args[k].segment].id));
	}
	object = json_pack("{s:s, s:s, s:o, s:O?, s:b, s:o}", "gpu_operation_id", operation->id,
			   "kernel", operation->kernel, "arguments", arguments, "params",
			   operation->params, "declassify", operation->declassify, "after",
			   operation_ids(manifest, operation->before, operation->before_count));
	if (object && operation->module) {
		add_module(object, manifest, operation->module);
	}
	return object;
}

static json_t *show_json(const struct sgpu_manifest *manifest)
{
	char hex[2 * sizeof(manifest->sha256) + 1];
	json_t *segments = json_array(), *operations = json_array();

	sgpu_hex_encode(manifest->sha256, sizeof(manifest->sha256), hex);
	for (int i = 0; i < manifest->segment_count; i++) {
		json_array_append_new(segments, segment_json(manifest, &manifest->segments[i]));
	}
	for (int i = 0; i < manifest->operation_count; i++) {
		json_array_append_new(operations,
				      operation_json(manifest, &manifest->operations[i]));
	}
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "manifest_id", manifest->id, "sha256",
			 hex, "on_failure", manifest->all_or_nothing ? "all" : "segments",
			 "segments", segments, "operations", operations, "order",
			 operation_ids(manifest, manifest->order, manifest->operation_count));
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
		status = json_write(NULL, show_json(document.manifest));
	} else if (!status) {
		status = print_text(document.manifest);
	}
	document_free(&document);
	return status;
}
