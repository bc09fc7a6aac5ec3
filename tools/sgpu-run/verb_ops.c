/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run ops: which operations this build has, and on which devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/device.h>
#include <sgpu/ops.h>

#include "verbs.h"

const struct cli_option ops_options[] = { CLI_COMMON, CLI_END };

static bool is_output(const struct sgpu_op_argument *argument)
{
	return strncmp(argument->name, "output", 6) == 0;
}

static bool implemented(const struct sgpu_op *op, const char *kind)
{
	return strcmp(kind, "cpu") == 0 ? op->cpu != NULL : sgpu_device_kind_op(kind, op->name) != NULL;
}

static json_t *op_json(const struct sgpu_op *op)
{
	json_t *inputs = json_array(), *outputs = json_array(), *devices = json_array();
	const char *kind;

	for (int i = 0; op->args[i].name; i++) {
		json_array_append_new(is_output(&op->args[i]) ? outputs : inputs, json_string(op->args[i].name));
	}
	for (int i = 0; (kind = sgpu_device_kind(i)); i++) {
		if (implemented(op, kind)) {
			json_array_append_new(devices, json_string(kind));
		}
	}
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", op->name, "help", op->help, "inputs", inputs, "outputs",
			 outputs, "devices", devices);
}

static int print_json(const struct sgpu_op *only)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	json_t *list = only ? op_json(only) : json_array();

	for (int i = 0; !only && ops[i]; i++) {
		json_array_append_new(list, op_json(ops[i]));
	}
	return cli_print_json(list, stdout, JSON_INDENT(2));
}

static void join(const struct sgpu_op *op, bool outputs, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; op->args[i].name && used < size; i++) {
		if (is_output(&op->args[i]) == outputs) {
			used += (size_t)snprintf(text + used, size - used, op->args[i].optional ? "%s[%s]" : "%s%s",
						 used ? " " : "", op->args[i].name);
		}
	}
}

enum { COLUMNS = 4, CELL_MAX = 96 };

/* Name, inputs, outputs and devices; the last column is the help. */
static void row_cells(const struct sgpu_op *op, char cells[COLUMNS][CELL_MAX])
{
	const char *kind;
	size_t used = 0;

	snprintf(cells[0], CELL_MAX, "%s", op->name);
	join(op, false, cells[1], CELL_MAX);
	join(op, true, cells[2], CELL_MAX);
	cells[3][0] = '\0';
	for (int i = 0; (kind = sgpu_device_kind(i)) && used < CELL_MAX; i++) {
		if (implemented(op, kind)) {
			used += (size_t)snprintf(cells[3] + used, CELL_MAX - used, "%s%s", used ? " " : "", kind);
		}
	}
}

/* Columns as wide as their widest cell, of all operations, so that one looks as it does among all. */
static void print_table(const struct sgpu_op *only)
{
	static const char *const headings[COLUMNS] = { "NAME", "INPUTS", "OUTPUTS", "DEVICES" };
	const struct sgpu_op *const *ops = sgpu_ops();
	char cells[COLUMNS][CELL_MAX];
	size_t width[COLUMNS];

	for (int k = 0; k < COLUMNS; k++) {
		width[k] = strlen(headings[k]);
	}
	for (int i = 0; ops[i]; i++) {
		row_cells(ops[i], cells);
		for (int k = 0; k < COLUMNS; k++) {
			width[k] = strlen(cells[k]) > width[k] ? strlen(cells[k]) : width[k];
		}
	}
	for (int k = 0; k < COLUMNS; k++) {
		printf("%-*s  ", (int)width[k], headings[k]);
	}
	printf("WHAT IT DOES\n");
	for (int i = 0; ops[i]; i++) {
		row_cells(ops[i], cells);
		for (int k = 0; k < COLUMNS && (!only || only == ops[i]); k++) {
			printf("%-*s  ", (int)width[k], cells[k]);
		}
		if (!only || only == ops[i]) {
			printf("%s\n", ops[i]->help);
		}
	}
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
		return print_json(only);
	}
	print_table(only);
	return fflush(stdout) == EOF ? cli_fail(SGPU_ESYSTEM, "cannot write to standard output") : 0;
}
