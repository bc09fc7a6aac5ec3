/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest schema: JSON Schema 2020-12, from schema.json and the table of operations. It tells
 * what an editor can tell while somebody types; references, the graph and the flow of information
 * are for check.
 */
#include <stdint.h>
#include <string.h>

#include "manifest_tool.h"

/* What does not depend on the operations, as bytes of the program. tests/unit/test_schema.c
 * compares its limits. */
extern const char schema_text[] __attribute__((visibility("hidden")));
extern const char schema_end[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n"
	".globl schema_text, schema_end\n"
	".hidden schema_text, schema_end\n"
	".type schema_text, %object\n"
	".type schema_end, %object\n"
	"schema_text:\n"
	".incbin \"tools/sgpu-manifest/schema.json\"\n"
	"schema_end:\n"
	".byte 0\n"
	".size schema_text, . - schema_text\n"
	".popsection\n");

const struct cli_option schema_options[] = { CLI_COMMON, OPTION_OUTPUT, CLI_END };

static json_t *param_schema(const struct sgpu_op_param *param)
{
	const bool choice = param->kind == SGPU_PARAM_CHOICE;
	const bool number = param->kind == SGPU_PARAM_NUMBER || param->kind == SGPU_PARAM_INTEGER;

	return json_pack("{s:s, s:o*, s:s*, s:o*, s:o*, s:o*}", "description", param->help, "enum",
			 choice ? op_choices_json(param) : NULL, "type",
			 choice ? NULL : op_param_kind(param->kind), "minimum",
			 number ? op_number_json(param->min) : NULL, "maximum",
			 number ? op_number_json(param->max) : NULL, "default",
			 op_default_json(param));
}

static json_t *arguments_schema(const struct sgpu_op *op)
{
	json_t *properties = json_object(), *required = json_array();

	for (int i = 0; op->args[i].name; i++) {
		json_t *schema = json_pack("{s:s}", "$ref", "#/$defs/id");

		json_object_set_new(schema, "description", json_string(op->args[i].help));
		json_object_set_new(properties, op->args[i].name, schema);
		if (!op->args[i].optional) {
			json_array_append_new(required, json_string(op->args[i].name));
		}
	}
	return json_pack("{s:o, s:o, s:b}", "properties", properties, "required", required,
			 "additionalProperties", false);
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
	return json_pack("{s:{s:{s:{s:s}}, s:[s]}, s:{s:{s:o, s:{s:o, s:o, s:b}}, s:o}}", "if",
			 "properties", "kernel", "const", op->name, "required", "kernel", "then",
			 "properties", "arguments", arguments_schema(op), "params", "properties",
			 params, "required", needed, "additionalProperties", false, "required",
			 required);
}

/* The operations that a kernel can be, and what each of them takes. */
static json_t *manifest_schema(void)
{
	json_t *schema = json_loadb(schema_text, (size_t)(schema_end - schema_text), 0, NULL);
	json_t *operation = NULL, *forms = NULL;

	if (schema &&
	    json_unpack(schema, "{s:{s:{s:o}}}", "properties", "operations", "items", &operation) ==
		    0 &&
	    json_unpack(operation, "{s:{s:{s:o}}}", "properties", "kernel", "anyOf", &forms) == 0) {
		json_t *names = json_object_get(json_array_get(forms, 0), "enum");

		for (const struct sgpu_op *const *op = sgpu_ops(); *op; op++) {
			json_array_append_new(names, json_string((*op)->name));
			json_array_append_new(json_object_get(operation, "allOf"), op_rule(*op));
		}
	}
	return schema;
}

int verb_schema(int argc, char **argv)
{
	struct request request = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	return status ? status : json_write(request.output, manifest_schema(), 2);
}
