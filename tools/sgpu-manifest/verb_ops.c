/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest ops and schema: print the table of operations as text, JSON and JSON Schema.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "manifest_tool.h"

const struct cli_option ops_options[] = { CLI_END };

/* A bound or default of this magnitude or more stands for none. */
static const double unbounded = 1e30;

static const char *param_kind(enum sgpu_param_kind kind)
{
	static const char *const kinds[] = {
		[SGPU_PARAM_NUMBER] = "number",	  [SGPU_PARAM_INTEGER] = "integer",
		[SGPU_PARAM_BOOLEAN] = "boolean", [SGPU_PARAM_CHOICE] = "choice",
		[SGPU_PARAM_TEXT] = "text",
	};

	return kinds[kind];
}

void op_dtypes_text(unsigned dtypes, char text[OP_TEXT_MAX])
{
	text[0] = '\0';
	for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
		if (dtypes & SGPU_TYPE_BIT(i)) {
			cli_append(text, OP_TEXT_MAX, "%s%s", *text ? " " : "",
				   sgpu_dtype_name((enum sgpu_dtype)i));
		}
	}
}

const struct sgpu_op *op_find(const char *name)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	const struct sgpu_op *op = sgpu_op_find(name);
	const char *names[256] = { NULL };

	if (op) {
		return op;
	}
	for (size_t i = 0; ops[i] && i + 1 < SGPU_ARRAY_LENGTH(names); i++) {
		names[i] = ops[i]->name;
	}
	cli_unknown("unknown operation", name, "", names, sizeof(*names));
	return NULL;
}

const char *op_arguments(const struct sgpu_op *op, bool outputs, char text[OP_TEXT_MAX])
{
	text[0] = '\0';
	for (int i = 0; op->args[i].name; i++) {
		if (sgpu_op_is_output(&op->args[i]) == outputs) {
			cli_append(text, OP_TEXT_MAX, op->args[i].optional ? "%s[%s]" : "%s%s",
				   *text ? " " : "", op->args[i].name);
		}
	}
	return text;
}

/* Returns a bound or default, an integer if possible; NULL if it stands for none, and for a
 * parameter that is no number. */
static json_t *number_json(const struct sgpu_op_param *param, double number)
{
	const bool is_number =
		param->kind == SGPU_PARAM_NUMBER || param->kind == SGPU_PARAM_INTEGER;

	if (!is_number || !isfinite(number) || fabs(number) >= unbounded) {
		return NULL;
	}
	if (number == floor(number) && fabs(number) < (double)SGPU_JSON_INTEGER_MAX) {
		return json_integer((json_int_t)number);
	}
	return json_real(number);
}

/* NULL for a parameter that is no choice. */
static json_t *choices_json(const struct sgpu_op_param *param)
{
	const bool is_choice = param->kind == SGPU_PARAM_CHOICE;
	json_t *choices = is_choice ? json_array() : NULL;

	for (int i = 0; is_choice && param->choices[i]; i++) {
		json_array_append_new(choices, json_string(param->choices[i]));
	}
	return choices;
}

static json_t *default_json(const struct sgpu_op_param *param)
{
	if (param->required) {
		return NULL;
	}
	if (param->kind == SGPU_PARAM_BOOLEAN) {
		return json_boolean(param->standard != 0);
	}
	if (param->kind == SGPU_PARAM_CHOICE) {
		return json_string(param->choices[(int)param->standard]);
	}
	return number_json(param, param->standard);
}

static json_t *argument_json(const struct sgpu_op_argument *argument)
{
	json_t *dtypes = json_array();

	for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
		if (argument->dtypes & SGPU_TYPE_BIT(i)) {
			json_array_append_new(dtypes,
					      json_string(sgpu_dtype_name((enum sgpu_dtype)i)));
		}
	}
	return json_pack("{s:s, s:b, s:b, s:o, s:i, s:i, s:s}", "name", argument->name, "output",
			 sgpu_op_is_output(argument), "optional", argument->optional, "dtypes",
			 dtypes, "min_rank", argument->min_rank, "max_rank", argument->max_rank,
			 "help", argument->help);
}

static json_t *param_json(const struct sgpu_op_param *param)
{
	return json_pack("{s:s, s:s, s:b, s:s, s:o*, s:o*, s:o*, s:o*}", "name", param->name,
			 "kind", param_kind(param->kind), "required", param->required, "help",
			 param->help, "min", number_json(param, param->min), "max",
			 number_json(param, param->max), "choices", choices_json(param), "default",
			 default_json(param));
}

static json_t *op_json(const struct sgpu_op *op)
{
	json_t *arguments = json_array(), *params = json_array();

	for (int i = 0; op->args[i].name; i++) {
		json_array_append_new(arguments, argument_json(&op->args[i]));
	}
	for (int i = 0; op->params[i].name; i++) {
		json_array_append_new(params, param_json(&op->params[i]));
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "name", op->name, "help", op->help, "arguments",
			 arguments, "params", params);
}

int verb_ops(int argc, char **argv)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	const struct sgpu_op *op;
	json_t *list;
	char **names;
	int status = cli_read(argc, argv, NULL, &names);

	if (status) {
		return status;
	}
	op = *names ? op_find(*names) : NULL;
	if (*names && !op) {
		return 2;
	}
	list = op ? op_json(op) : json_array();
	for (int i = 0; !op && ops[i]; i++) {
		json_array_append_new(list, op_json(ops[i]));
	}
	if (cli_json) {
		return json_write(NULL, list);
	}
	if (op) {
		printf("%s: %s\n\n", op->name, op->help);
		cli_table(stdout, json_object_get(list, "arguments"),
			  "name output optional dtypes min_rank max_rank help");
		putchar('\n');
		cli_table(stdout, json_object_get(list, "params"),
			  "name kind required default min max choices help");
	} else {
		cli_table(stdout, list, "name help");
	}
	json_decref(list);
	return 0;
}

/* ---- the JSON Schema 2020-12, from schema.json and the table: what an editor can check while the
 * user types; the verb check also checks references, the graph and the flow of information ---- */
/* schema.json, embedded in the program. tests/unit/test_schema.c compares its limits. */
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

const struct cli_option schema_options[] = {
	{ "output", 'o', "FILE", "write there, not to standard output",
	  CLI_TEXT(struct request, output) },
	CLI_END,
};

static json_t *param_schema(const struct sgpu_op_param *param)
{
	json_t *choices = choices_json(param);

	return json_pack("{s:s, s:o*, s:s*, s:o*, s:o*, s:o*}", "description", param->help, "enum",
			 choices, "type", choices ? NULL : param_kind(param->kind), "minimum",
			 number_json(param, param->min), "maximum", number_json(param, param->max),
			 "default", default_json(param));
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

static json_t *op_rule(const struct sgpu_op *op)
{
	json_t *params = json_object(), *needed = json_array(), *required = json_array();

	for (int i = 0; op->params[i].name; i++) {
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
			/* A map's arguments have any names: schema.json has their rule. */
			if (strcmp((*op)->name, "map") != 0) {
				json_array_append_new(json_object_get(operation, "allOf"),
						      op_rule(*op));
			}
		}
	}
	return schema;
}

int verb_schema(int argc, char **argv)
{
	struct request request = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	return status ? status : json_write(request.output, manifest_schema());
}
