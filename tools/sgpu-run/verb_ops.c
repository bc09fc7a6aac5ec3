/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run ops: which operations this build has, and on which devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/device.h>

#include "ops/ops.h"
#include "verbs.h"

const struct cli_option ops_options[] = { CLI_COMMON, CLI_END };

static bool implemented(const struct sgpu_op *op, const char *kind)
{
	return strcmp(kind, "cpu") == 0 ? op->cpu != NULL
					: sgpu_device_kind_op(kind, op->name) != NULL;
}

static json_t *op_json(const struct sgpu_op *op)
{
	json_t *inputs = json_array(), *outputs = json_array(), *devices = json_array();
	const char *kind;

	for (int i = 0; op->args[i].name; i++) {
		json_array_append_new(cli_op_is_output(&op->args[i]) ? outputs : inputs,
				      json_string(op->args[i].name));
	}
	for (int i = 0; (kind = sgpu_device_kind(i)); i++) {
		if (implemented(op, kind)) {
			json_array_append_new(devices, json_string(kind));
		}
	}
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", op->name, "help", op->help, "inputs",
			 inputs, "outputs", outputs, "devices", devices);
}

static int print_table(const struct sgpu_op *only)
{
	struct cli_table table = { 0 };

	cli_row(&table, "NAME", "INPUTS", "OUTPUTS", "DEVICES", "WHAT IT DOES");
	for (const struct sgpu_op *const *op = sgpu_ops(); *op; op++) {
		char inputs[CLI_OP_TEXT_MAX], outputs[CLI_OP_TEXT_MAX], devices[64] = "";
		const char *kind;

		for (int i = 0; (kind = sgpu_device_kind(i)); i++) {
			const size_t used = strlen(devices);

			if (implemented(*op, kind)) {
				snprintf(devices + used, sizeof(devices) - used, "%s%s",
					 used ? " " : "", kind);
			}
		}
		if (!only || only == *op) {
			cli_row(&table, (*op)->name, cli_op_arguments(*op, false, inputs),
				cli_op_arguments(*op, true, outputs), devices, (*op)->help);
		}
	}
	return cli_table_print(&table);
}

int verb_ops(int argc, char **argv)
{
	const struct sgpu_op *only = NULL;
	char **names;
	const int status = cli_read(argc, argv, NULL, &names);

	if (status) {
		return status;
	}
	if (*names && !(only = cli_find_op(*names))) {
		return 2;
	}
	if (cli_json) {
		json_t *list = only ? op_json(only) : json_array();

		for (const struct sgpu_op *const *op = sgpu_ops(); !only && *op; op++) {
			json_array_append_new(list, op_json(*op));
		}
		return cli_print_json(list, stdout, JSON_INDENT(2));
	}
	return print_table(only);
}
