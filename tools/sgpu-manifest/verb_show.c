/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest show: prints a manifest's segments, operations and graph, and the plan of a run.
 */

#include <sgpu/base.h>

#include "base/json.h"
#include "run/run.h"
#include "manifest_tool.h"

const struct cli_option show_options[] = {
	{ CLI_ROWS(check_options) },
	{ "devices", 0, "N", "plan a run on so many devices (default: 1)",
	  CLI_NUMBER(struct request, devices, 1, SGPU_RUN_DEVICES_MAX) },
	CLI_END,
};

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

/* Adds what would run where and in which memory. */
static void add_plan(json_t *object, const struct sgpu_manifest *manifest,
		     const struct sgpu_plan *plan)
{
	json_t *moves = json_array(), *buffers = json_array(), *more, *operation;
	uint64_t bytes;
	size_t i;

	json_array_foreach (json_object_get(object, "operations"), i, operation) {
		more = json_pack("{s:i, s:i}", "device", plan->operations[i].device, "stream",
				 plan->operations[i].stream);
		json_object_update(operation, more);
		json_decref(more);
	}
	for (int k = 0; k < plan->move_count; k++) {
		const struct sgpu_segment *segment = &manifest->segments[plan->moves[k].segment];

		(void)!sgpu_type_bytes(&segment->type, &bytes);
		json_array_append_new(moves,
				      json_pack("{s:s, s:i, s:i, s:I}", "segment_id", segment->id,
						"from", plan->moves[k].from, "to",
						plan->moves[k].to, "bytes", (json_int_t)bytes));
	}
	for (int k = 0; k < plan->buffer_count; k++) {
		json_array_append_new(buffers,
				      json_pack("{s:i, s:I}", "device", plan->buffers[k].device,
						"size", (json_int_t)plan->buffers[k].size));
	}
	more = json_pack("{s:i, s:i, s:I, s:o, s:o}", "devices", plan->device_count, "streams",
			 plan->stream_count, "device_memory_bytes", (json_int_t)plan->bytes,
			 "buffers", buffers, "moves", moves);
	json_object_update(object, more);
	json_decref(more);
}

static json_t *show_json(const struct sgpu_manifest *manifest, int devices)
{
	struct sgpu_plan *plan = NULL;
	json_t *object;
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
	object = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "manifest_id", manifest->id, "sha256",
			   hex, "on_failure", manifest->all_or_nothing ? "all" : "segments",
			   "segments", segments, "operations", operations, "order",
			   operation_ids(manifest, manifest->order, manifest->operation_count));
	/* A module whose size only the batch has counts nothing. */
	if (object &&
	    sgpu_plan_create(manifest, devices, &SGPU_PLAN_COSTS, &plan, NULL) == SGPU_OK) {
		add_plan(object, manifest, plan);
	}
	sgpu_plan_free(&plan);
	return object;
}

int verb_show(int argc, char **argv)
{
	static const char *const lists[][2] = {
		{ "segments", "segment_id sensitivity_level direction dtype shape bytes "
			      "data_location_client writer readers" },
		{ "operations", "gpu_operation_id kernel arguments params after device stream" },
		{ "buffers", "device size" },
		{ "moves", "segment_id from to bytes" },
		{ NULL, NULL },
	};
	struct request request = { .devices = 1 };
	struct document document;
	json_t *json;
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	if (status) {
		return status;
	}
	status = document_load(paths[0], request.outside ? 0 : SGPU_MANIFEST_INSIDE, &document);
	if (!status) {
		json = show_json(document.manifest, (int)request.devices);
		if (cli_json || !json) {
			status = json_write(NULL, json);
		} else {
			cli_lists(stdout, json, lists);
			json_decref(json);
		}
	}
	document_free(&document);
	return status;
}
