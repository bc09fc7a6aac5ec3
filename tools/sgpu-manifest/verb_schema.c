/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest schema: JSON Schema 2020-12, made from the table of operations. It tells what an editor can tell
 * while somebody types; references, the graph and the flow of information are for check.
 */
#include <stdint.h>
#include <string.h>

#include "document.h"
#include "op_info.h"
#include "verbs.h"

struct request {
	const char *output;
};

const struct cli_option schema_options[] = { CLI_COMMON, OPTION_OUTPUT(struct request), CLI_END };

static json_t *strings(const char *const *names)
{
	json_t *array = json_array();

	for (; *names; names++) {
		json_array_append_new(array, json_string(*names));
	}
	return array;
}

static json_t *reference(const char *name)
{
	return json_pack("{s:s+}", "$ref", "#/$defs/", name);
}

#define KERNEL_PATTERN "^module:[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}:[A-Za-z_][A-Za-z0-9_]{0,254}$"
static const char *const module_fields[] = { "grid", "block", "shared_bytes", "module_digest", NULL };

/* An array of 1 to 3 numbers, each with its own limit. */
static json_t *extents(int x, int y, int z, const char *help)
{
	static const char number[] = "{s:s, s:i, s:i}";

	return json_pack("{s:s, s:s, s:i, s:i, s:[o, o, o]}", "type", "array", "description", help, "minItems", 1,
			 "maxItems", 3, "prefixItems",
			 json_pack(number, "type", "integer", "minimum", 1, "maximum", x),
			 json_pack(number, "type", "integer", "minimum", 1, "maximum", y),
			 json_pack(number, "type", "integer", "minimum", 1, "maximum", z));
}

static json_t *whole(double least, double most)
{
	return json_pack("{s:s, s:o, s:o}", "type", "integer", "minimum", op_number_json(least), "maximum",
			 op_number_json(most));
}

/* An argument's name, or an object of one member that says what kind of value it is. */
static json_t *module_param(void)
{
	double most = (double)(SGPU_JSON_INTEGER_MAX - 1);
	json_t *forms = json_pack("{s:o, s:o, s:o, s:o, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}}", "i32",
				  whole(INT32_MIN, INT32_MAX), "u32", whole(0, UINT32_MAX),
				  "i64", whole(-most, most), "u64", whole(0, most), "f32",
				  "type", "number", "f64", "type", "number", "elements", "type", "string", "bytes",
				  "type", "string");

	return json_pack("{s:[s,s], s:s, s:o, s:b, s:i, s:i}", "type", "string", "object", "description",
			 "an argument's name, for its address in device memory; or a number of a type; or an argument's "
			 "number of elements or bytes", "properties", forms, "additionalProperties", false,
			 "minProperties", 1, "maxProperties", 1);
}

static void add_module_fields(json_t *properties)
{
	json_object_set_new(properties, "grid",
			    extents(SGPU_MODULE_GRID_X_MAX, SGPU_MODULE_GRID_YZ_MAX, SGPU_MODULE_GRID_YZ_MAX,
				    "blocks of the grid of a module"));
	json_object_set_new(properties, "block", extents(SGPU_MODULE_BLOCK_MAX, SGPU_MODULE_BLOCK_MAX,
							 SGPU_MODULE_BLOCK_Z_MAX, "threads of a block of a module"));
	json_object_set_new(properties, "shared_bytes", whole(0, SGPU_MODULE_SHARED_MAX));
	/* 43 digits carry 258 bits: the last two are zero. */
	json_object_set_new(properties, "module_digest",
			    json_pack("{s:s, s:s, s:s}", "type", "string", "pattern",
				      "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$", "description",
				      "measure of the module's image, sgpu-quote(5): which code may run"));
}

/* if the kernel is a module's, then its parameters are an array, else an object and there is no grid */
static json_t *module_rule(void)
{
	json_t *none = json_pack("{s:{s:s}}", "params", "type", "object");

	for (const char *const *field = module_fields; *field; field++) {
		json_object_set_new(none, *field, json_false());
	}
	return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:[s], s:{s:{s:s, s:i, s:o}}}, s:{s:o}}", "if", "properties",
			 "kernel", "pattern", KERNEL_PATTERN, "required", "kernel", "then", "required", "params",
			 "properties", "params", "type", "array", "maxItems", (int)SGPU_MODULE_PARAMS_MAX, "items",
			 reference("module_param"), "else", "properties", none);
}

static json_t *definitions(void)
{
	static const char *const dtypes[] = { "f32", "f64", "i32", "u8", "i16", "f16", NULL };
	json_int_t limit = (json_int_t)SGPU_JSON_INTEGER_MAX - 1;
	json_t *size = json_pack("{s:s, s:i, s:I}", "type", "integer", "minimum", 0, "maximum", limit);

	return json_pack(
		"{s:{s:s, s:i, s:s}, s:{s:s, s:i, s:s}, s:{s:s, s:o}, s:o, s:o, s:{s:s, s:o, s:[s,s], s:b, s:{s:{s:o}, "
		"s:{s:s, s:i, s:o}, s:o}}}",
		"id", "type", "string", "maxLength", (int)SGPU_ID_MAX, "pattern", "^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
		"variable", "type", "string", "maxLength", (int)SGPU_DMA_VAR_MAX, "pattern",
		"^[A-Za-z_][A-Za-z0-9_]*$",
		"dependencies", "type", "array", "items", reference("id"),
		"size", size, "module_param", module_param(),
		"type", "type", "object", "description",
		json_string("element type, extents with the slowest first, and where the payload starts in its file"),
		"required", "dtype", "shape", "additionalProperties", false, "properties", "dtype", "enum",
		strings(dtypes), "shape", "type", "array", "maxItems", (int)SGPU_RANK_MAX, "items", reference("size"),
		"offset", reference("size"));
}

/* if PROPERTY is VALUE then it may not have FIELDS */
static json_t *forbid(const char *property, json_t *values, const char *const *fields)
{
	json_t *properties = json_object();

	for (; *fields; fields++) {
		json_object_set_new(properties, *fields, json_false());
	}
	return json_pack("{s:{s:{s:{s:o}}, s:[s]}, s:{s:o}}", "if", "properties", property, "enum", values,
			 "required", property, "then", "properties", properties);
}

static json_t *segment_rules(void)
{
	static const char *const input[] = { "client_dma_input_pinned_host_ptr_var",
					     "client_dma_input_device_ptr_var", NULL };
	static const char *const output[] = { "client_dma_output_pinned_host_ptr_var",
					      "client_dma_output_buffer_size_var", NULL };
	static const char *const location[] = { "data_location_client", NULL };
	static const char *const no_input[] = { "OUTPUT", "INTERMEDIATE", NULL };
	static const char *const no_output[] = { "INPUT", "INTERMEDIATE", NULL };
	static const char *const inner[] = { "INTERMEDIATE", NULL };
	static const char *const high[] = { "HIGH", NULL };

	return json_pack("[o, o, o, o, o]", forbid("direction", strings(no_input), input),
			 forbid("direction", strings(no_output), output),
			 forbid("direction", strings(inner), location),
			 forbid("sensitivity_level", strings(high), input),
			 forbid("sensitivity_level", strings(high), output));
}

static json_t *segment_schema(void)
{
	static const char *const sensitivities[] = { "HIGH", "LOW", NULL };
	static const char *const directions[] = { "INPUT", "OUTPUT", "INPUT_OUTPUT", "INTERMEDIATE", NULL };
	static const char *const required[] = { "segment_id", "sensitivity_level", "direction", NULL };
	static const char *const variables[] = {
		"client_dma_input_pinned_host_ptr_var", "client_dma_input_device_ptr_var",
		"client_dma_output_pinned_host_ptr_var", "client_dma_output_buffer_size_var", NULL
	};
	json_t *properties = json_pack(
		"{s:o, s:{s:o}, s:{s:o}, s:{s:s, s:i, s:i, s:s}, s:o, s:o, s:o}", "segment_id", reference("id"),
		"sensitivity_level", "enum", strings(sensitivities), "direction", "enum", strings(directions),
		"data_location_client", "type", "string", "minLength", 1, "maxLength", (int)SGPU_LOCATION_MAX,
		"description", "a path relative to the manifest's directory, or - for standard input",
		"gpu_operation_id", reference("id"), "data_type_info", reference("type"), "dependencies",
		reference("dependencies"));

	for (const char *const *name = variables; *name; name++) {
		json_object_set_new(properties, *name, reference("variable"));
	}
	return json_pack("{s:s, s:o, s:b, s:o, s:o}", "type", "object", "required", strings(required),
			 "additionalProperties", false, "properties", properties, "allOf", segment_rules());
}

static json_t *param_schema(const struct sgpu_op_param *param)
{
	json_t *schema = json_pack("{s:s}", "description", param->help);

	if (param->kind == SGPU_PARAM_CHOICE) {
		json_object_set_new(schema, "enum", strings(param->choices));
	} else {
		json_object_set_new(schema, "type", json_string(op_param_kind(param->kind)));
	}
	if (param->kind == SGPU_PARAM_NUMBER || param->kind == SGPU_PARAM_INTEGER) {
		json_object_set_new(schema, "minimum", op_number_json(param->min));
		json_object_set_new(schema, "maximum", op_number_json(param->max));
	}
	json_object_set_new(schema, "default", op_default_json(param));
	return schema;
}

static json_t *arguments_schema(const struct sgpu_op *op)
{
	json_t *properties = json_object(), *required = json_array();

	for (int i = 0; op->args[i].name; i++) {
		json_t *schema = reference("id");

		json_object_set_new(schema, "description", json_string(op->args[i].help));
		json_object_set_new(properties, op->args[i].name, schema);
		if (!op->args[i].optional) {
			json_array_append_new(required, json_string(op->args[i].name));
		}
	}
	return json_pack("{s:o, s:o, s:b}", "properties", properties, "required", required, "additionalProperties",
			 false);
}

/* if the kernel is this one, then these arguments and parameters */
static json_t *op_rule(const struct sgpu_op *op)
{
	json_t *params = json_object(), *needed = json_array(), *required = json_array();

	for (int i = 0; op->params && op->params[i].name; i++) {
		json_object_set_new(params, op->params[i].name, param_schema(&op->params[i]));
		if (op->params[i].required) {
			json_array_append_new(needed, json_string(op->params[i].name));
		}
	}
	if (json_array_size(needed)) {
		json_array_append_new(required, json_string("params"));
	}
	return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:{s:o, s:{s:o, s:o, s:b}}, s:o}}", "if", "properties",
			 "kernel", "const", op->name, "required", "kernel", "then", "properties", "arguments",
			 arguments_schema(op), "params", "properties", params, "required", needed,
			 "additionalProperties", false, "required", required);
}

static json_t *operation_schema(void)
{
	static const char *const required[] = { "gpu_operation_id", "kernel", "arguments", NULL };
	json_t *names = json_array(), *rules = json_array(), *schema;

	json_array_append_new(rules, module_rule());
	for (const struct sgpu_op *const *op = sgpu_ops(); *op; op++) {
		json_array_append_new(names, json_string((*op)->name));
		json_array_append_new(rules, op_rule(*op));
	}
	schema = json_pack(
		"{s:s, s:o, s:b, s:{s:o, s:{s:[{s:o}, {s:s, s:s}]}, s:{s:s, s:o, s:i, s:i}, s:{s:[s,s]}, s:{s:s, s:s}, "
		"s:o}, s:o}",
		"type", "object", "required", strings(required), "additionalProperties", false, "properties",
		"gpu_operation_id", reference("id"), "kernel", "anyOf", "enum", names, "type", "string", "pattern",
		KERNEL_PATTERN, "arguments", "type", "object",
		"additionalProperties", reference("id"), "minProperties", 1, "maxProperties", (int)SGPU_ARGUMENTS_MAX,
		"params", "type", "object", "array", "declassify", "type", "boolean", "description",
		"the results may be published although they come from HIGH data", "dependencies",
		reference("dependencies"), "allOf", rules);
	add_module_fields(json_object_get(schema, "properties"));
	return schema;
}

static json_t *manifest_schema(void)
{
	static const char *const required[] = { "version", "manifest_id", "segments", "operations", NULL };

	return json_pack(
		"{s:s, s:s, s:s, s:s, s:o, s:b, s:{s:{s:i}, s:{s:s, s:i, s:i, s:s}, s:{s:s, s:i, s:i, s:o}, "
		"s:{s:s, s:i, s:i, s:o}}, s:o}",
		"$schema", "https://json-schema.org/draft/2020-12/schema", "title", "sgpu workload manifest",
		"description", "sgpu-manifest(5), version 1", "type", "object", "required", strings(required),
		"additionalProperties", false, "properties", "version", "const", (int)SGPU_MANIFEST_VERSION,
		"manifest_id", "type", "string", "minLength", 1, "maxLength", (int)SGPU_MANIFEST_ID_MAX, "pattern",
		"^[ -~]+$", "segments", "type", "array", "minItems", 1, "maxItems", (int)SGPU_MANIFEST_SEGMENTS_MAX,
		"items", segment_schema(), "operations", "type", "array", "minItems", 1, "maxItems",
		(int)SGPU_MANIFEST_OPERATIONS_MAX, "items", operation_schema(), "$defs", definitions());
}

int verb_schema(int argc, char **argv)
{
	struct request request = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	return status ? status : json_write(request.output, NULL, manifest_schema(), 2);
}
