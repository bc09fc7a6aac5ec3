/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest ops: what a manifest can ask for.
 */
#include <stdio.h>
#include <string.h>

#include "manifest_tool.h"

const struct cli_option ops_options[] = { CLI_COMMON, CLI_END };

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
			 cli_op_is_output(argument), "optional", argument->optional, "dtypes",
			 dtypes, "min_rank", argument->min_rank, "max_rank", argument->max_rank,
			 "help", argument->help);
}

static json_t *param_json(const struct sgpu_op_param *param)
{
	json_t *object = json_pack("{s:s, s:s, s:b, s:s}", "name", param->name, "kind",
				   op_param_kind(param->kind), "required", param->required, "help",
				   param->help);

	if (param->kind == SGPU_PARAM_NUMBER || param->kind == SGPU_PARAM_INTEGER) {
		json_object_set_new(object, "min", op_number_json(param->min));
		json_object_set_new(object, "max", op_number_json(param->max));
	}
	if (param->kind == SGPU_PARAM_CHOICE) {
		json_t *choices = json_array();

		for (int i = 0; param->choices[i]; i++) {
			json_array_append_new(choices, json_string(param->choices[i]));
		}
		json_object_set_new(object, "choices", choices);
	}
	json_object_set_new(object, "default", op_default_json(param));
	return object;
}

static json_t *op_json(const struct sgpu_op *op)
{
	json_t *arguments = json_array(), *params = json_array();

	for (int i = 0; op->args[i].name; i++) {
		json_array_append_new(arguments, argument_json(&op->args[i]));
	}
	for (int i = 0; op->params && op->params[i].name; i++) {
		json_array_append_new(params, param_json(&op->params[i]));
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "name", op->name, "help", op->help, "arguments",
			 arguments, "params", params);
}

static int print_all(void)
{
	struct cli_table table = { 0 };

	cli_row(&table, "NAME", "INPUTS", "OUTPUTS", "WHAT IT DOES");
	for (const struct sgpu_op *const *op = sgpu_ops(); *op; op++) {
		char inputs[CLI_OP_TEXT_MAX], outputs[CLI_OP_TEXT_MAX];

		cli_row(&table, (*op)->name, cli_op_arguments(*op, false, inputs),
			cli_op_arguments(*op, true, outputs), (*op)->help);
	}
	return cli_table_print(&table);
}

static int print_arguments(const struct sgpu_op *op)
{
	struct cli_table table = { 0 };
	char types[OP_TEXT_MAX], ranks[OP_TEXT_MAX], use[32];

	cli_row(&table, "ARGUMENT", "USE", "TYPES", "RANK", "MEANING");
	for (int i = 0; op->args[i].name; i++) {
		const struct sgpu_op_argument *argument = &op->args[i];

		snprintf(use, sizeof(use), "%s%s", cli_op_is_output(argument) ? "output" : "input",
			 argument->optional ? ", optional" : "");
		op_dtypes_text(argument->dtypes, types);
		op_ranks_text(argument, ranks);
		cli_row(&table, argument->name, use, types, ranks, argument->help);
	}
	return cli_table_print(&table);
}

static int print_params(const struct sgpu_op *op)
{
	struct cli_table table = { 0 };
	char standard[OP_TEXT_MAX], range[OP_TEXT_MAX];

	cli_row(&table, "PARAMETER", "KIND", "DEFAULT", "VALUES", "MEANING");
	for (const struct sgpu_op_param *param = op->params; param->name; param++) {
		op_default_text(param, standard);
		op_range_text(param, range);
		cli_row(&table, param->name, op_param_kind(param->kind), standard, range,
			param->help);
	}
	return cli_table_print(&table);
}

static int print_one(const struct sgpu_op *op)
{
	int status;

	printf("%s: %s\n\n", op->name, op->help);
	status = print_arguments(op);
	if (!status && op->params && op->params[0].name) {
		putchar('\n');
		status = print_params(op);
	}
	return status;
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
	op = *names ? cli_find_op(*names) : NULL;
	if (*names && !op) {
		return 2;
	}
	if (!cli_json) {
		return op ? print_one(op) : print_all();
	}
	list = op ? op_json(op) : json_array();
	for (int i = 0; !op && ops[i]; i++) {
		json_array_append_new(list, op_json(ops[i]));
	}
	return json_write(NULL, list, 2);
}
