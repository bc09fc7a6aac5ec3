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

const struct cli_option ops_options[] = { CLI_COMMON, { NULL, 0, NULL, NULL } };

static bool is_output(const struct sgpu_op_argument *argument)
{
	return strncmp(argument->name, "output", 6) == 0;
}

static bool implemented(const struct sgpu_op *op, const struct sgpu_device_backend *backend)
{
	/* The CPU's implementations are in the table; another device's are told without one at hand. */
	return backend->op ? backend->op(op->name) != NULL : op->cpu != NULL;
}

static json_t *op_json(const struct sgpu_op *op)
{
	const struct sgpu_device_backend *const *backends = sgpu_device_backends();
	json_t *inputs = json_array(), *outputs = json_array(), *devices = json_array();

	for (int i = 0; op->args[i].name; i++) {
		json_array_append_new(is_output(&op->args[i]) ? outputs : inputs, json_string(op->args[i].name));
	}
	for (int i = 0; backends[i]; i++) {
		if (implemented(op, backends[i])) {
			json_array_append_new(devices, json_string(backends[i]->name));
		}
	}
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", op->name, "help", op->help, "inputs", inputs, "outputs",
			 outputs, "devices", devices);
}

static int print_json(const struct sgpu_op *only)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	json_t *list = only ? op_json(only) : json_array();
	int failed;

	for (int i = 0; !only && ops[i]; i++) {
		json_array_append_new(list, op_json(ops[i]));
	}
	failed = json_dumpf(list, stdout, JSON_INDENT(2));
	json_decref(list);
	return failed || putchar('\n') == EOF || fflush(stdout) == EOF ?
	       cli_fail(SGPU_ESYSTEM, "cannot write to standard output") : 0;
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

static void print_row(const struct sgpu_op *op)
{
	const struct sgpu_device_backend *const *backends = sgpu_device_backends();
	char inputs[96], outputs[64], devices[64] = "";
	size_t used = 0;

	join(op, false, inputs, sizeof(inputs));
	join(op, true, outputs, sizeof(outputs));
	for (int i = 0; backends[i] && used < sizeof(devices); i++) {
		if (implemented(op, backends[i])) {
			used += (size_t)snprintf(devices + used, sizeof(devices) - used, "%s%s", used ? " " : "",
						 backends[i]->name);
		}
	}
	printf("%-14s %-28s %-14s %-8s %s\n", op->name, inputs, outputs, devices, op->help);
}

int verb_ops(int argc, char **argv)
{
	const struct sgpu_op *const *ops = sgpu_ops();
	const struct sgpu_op *only = NULL;
	const char *value;
	int first, key;

	while ((key = cli_next(argc, argv, &value, &first))) {
		if (key < 0) {
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 1)) {
		return 2;
	}
	if (argv[first] && !(only = cli_find_op(argv[first]))) {
		return 2;
	}
	if (cli_json) {
		return print_json(only);
	}
	printf("%-14s %-28s %-14s %-8s %s\n", "NAME", "INPUTS", "OUTPUTS", "DEVICES", "WHAT IT DOES");
	for (int i = 0; ops[i]; i++) {
		if (!only || only == ops[i]) {
			print_row(ops[i]);
		}
	}
	return fflush(stdout) == EOF ? cli_fail(SGPU_ESYSTEM, "cannot write to standard output") : 0;
}
