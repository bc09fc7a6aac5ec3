/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph as text, for Graphviz, and as JSON.
 */
#include "manifest_tool.h"

#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

void show_steps(const struct sgpu_manifest *manifest, const int *level, int last)
{
	int *start = calloc((size_t)last + 2, sizeof(*start));
	int *sorted = calloc((size_t)manifest->operation_count + 1, sizeof(*sorted));

	/* Counting sort by level, so that a graph of many operations stays quick. */
	for (int i = 0; start && sorted && i < manifest->operation_count; i++) {
		start[level[i] + 1]++;
	}
	for (int i = 1; start && sorted && i <= last + 1; i++) {
		start[i] += start[i - 1];
	}
	for (int i = 0; start && sorted && i < manifest->operation_count; i++) {
		sorted[start[level[i]]++] = i;
	}
	for (int i = 0; start && sorted && i < manifest->operation_count; i++) {
		bool first = i == 0 || level[sorted[i]] != level[sorted[i - 1]];

		if (first) {
			printf("%sstep %d:", i ? "\n" : "", level[sorted[i]] + 1);
		}
		printf(" %s", manifest->operations[sorted[i]].id);
	}
	putchar('\n');
	free(sorted);
	free(start);
}

/* Whether `later` reads something that `earlier` writes: then the edge is drawn through the
 * segment. */
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

void show_type(const struct sgpu_segment *segment, char text[SGPU_TYPE_TEXT_MAX])
{
	if (segment->size_of_file) {
		snprintf(text, SGPU_TYPE_TEXT_MAX, "%s[file]",
			 sgpu_dtype_name(segment->type.dtype));
	} else {
		sgpu_type_text(&segment->type, text);
	}
}

static void dot_segment(const struct sgpu_segment *segment)
{
	char type[SGPU_TYPE_TEXT_MAX];

	show_type(segment, type);
	printf("\t\"s:%s\" [label=\"%s\\n%s\"%s%s];\n", segment->id, segment->id, type,
	       segment->sensitivity == SGPU_HIGH ? ", style=filled, fillcolor=\"#f4c7c3\"" : "",
	       segment->direction == SGPU_INTERMEDIATE ? ", color=gray" : "");
}

/* The segment that holds an operation's module, unless an argument drew that line already. */
static int module_of(const struct sgpu_operation *operation)
{
	for (int k = 0; operation->module && k < operation->arg_count; k++) {
		if (operation->args[k].segment == operation->module->segment) {
			return -1;
		}
	}
	return operation->module ? operation->module->segment : -1;
}

/* Quotes and backslashes cannot be in ids, nor in kernels: they are those of the table, or ids and
 * an identifier. */
void show_dot(const struct sgpu_manifest *manifest)
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
	json_t *shape = json_array(), *object;
	uint64_t bytes = 0;

	for (int i = 0; i < segment->type.rank; i++) {
		json_array_append_new(shape, json_integer((json_int_t)segment->type.shape[i]));
	}
	if (!sgpu_type_bytes(&segment->type, &bytes)) {
		bytes = 0;
	}
	object = json_pack(
		"{s:s, s:s, s:s, s:s, s:o, s:I, s:b, s:b, s:o}", "segment_id", segment->id,
		"sensitivity_level", sgpu_sensitivity_name(segment->sensitivity), "direction",
		sgpu_direction_name(segment->direction), "dtype",
		sgpu_dtype_name(segment->type.dtype), "shape", shape, "bytes", (json_int_t)bytes,
		"at_most", segment->at_most, "high_flow", segment->high_flow, "readers",
		operation_ids(manifest, segment->readers, segment->reader_count));
	if (object && segment->location) {
		json_object_set_new(object, "data_location_client", json_string(segment->location));
	}
	if (object && segment->size_of_file) {
		json_object_set_new(object, "size_of_file", json_true());
		json_object_set_new(object, "shape", json_null());
		json_object_set_new(object, "bytes", json_null());
	}
	if (object && segment->has_offset) {
		json_object_set_new(object, "offset", json_integer((json_int_t)segment->offset));
	}
	if (object && segment->writer >= 0) {
		json_object_set_new(object, "writer",
				    json_string(manifest->operations[segment->writer].id));
	}
	return object;
}

static void add_module(json_t *object, const struct sgpu_manifest *manifest,
		       const struct sgpu_module_call *module)
{
	const unsigned *g = module->grid, *b = module->block;
	json_t *more =
		json_pack("{s:{s:s, s:s}, s:[i,i,i], s:[i,i,i], s:i}", "module", "segment_id",
			  manifest->segments[module->segment].id, "function", module->function,
			  "grid", (int)g[0], (int)g[1], (int)g[2], "block", (int)b[0], (int)b[1],
			  (int)b[2], "shared_bytes", (int)module->shared_bytes);

	if (module->has_digest) {
		char text[SGPU_BASE64URL_MAX(sizeof(module->digest))];

		sgpu_base64url_encode(module->digest, sizeof(module->digest), text);
		json_object_set_new(more, "module_digest", json_string(text));
	}
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

json_t *show_json(const struct sgpu_manifest *manifest)
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
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "manifest_id", manifest->id, "sha256", hex,
			 "segments", segments, "operations", operations, "order",
			 operation_ids(manifest, manifest->order, manifest->operation_count));
}
