/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry of "operations".
 */
#include <string.h>

#include "manifest/reader.h"

enum {
	ID,
	KERNEL,
	ARGUMENTS,
	REQUIRED,
	PARAMS = REQUIRED,
	DECLASSIFY,
	DEPENDENCIES,
	MODULE,
	FIELDS = MODULE + SGPU_MODULE_FIELDS
};
static const char *const fields[FIELDS + 1] = {
	"gpu_operation_id", "kernel",	     "arguments", "params",
	"declassify",	    "dependencies",  "grid",	  "block",
	"shared_bytes",	    "module_digest", NULL
};

static void read_argument(struct sgpu_reader *reader, const char *name, json_t *value,
			  struct sgpu_argument *argument)
{
	argument->name = name;
	argument->output = strncmp(name, "output", 6) == 0;
	if (strlen(name) > SGPU_ID_MAX) {
		sgpu_reader_report(reader, name, NULL,
				   "the argument's name has %zu bytes, at most %d are possible",
				   strlen(name), (int)SGPU_ID_MAX);
	}
	argument->segment =
		sgpu_reader_reference(reader, name, sgpu_reader_string(reader, name, value),
				      reader->manifest->segment_ids, "a segment");
}

static void read_arguments(struct sgpu_reader *reader, json_t *value,
			   struct sgpu_operation *operation)
{
	bool output = false;
	const char *name;
	json_t *item;
	char *end;

	if (!value) {
		return;
	}
	if (!json_is_object(value)) {
		sgpu_reader_refuse(reader, "arguments", NULL, value, "is not an object");
		return;
	}
	if (json_object_size(value) > SGPU_ARGUMENTS_MAX) {
		sgpu_reader_report(reader, "arguments", NULL,
				   "there are %zu arguments, at most %d are possible",
				   json_object_size(value), (int)SGPU_ARGUMENTS_MAX);
	}
	operation->arguments_given = json_object_size(value) <= SGPU_ARGUMENTS_MAX;
	end = sgpu_reader_enter(reader, "/arguments");
	json_object_foreach (value, name, item) {
		if (operation->arg_count == SGPU_ARGUMENTS_MAX) {
			break;
		}
		read_argument(reader, sgpu_reader_keep(reader, name), item,
			      &operation->args[operation->arg_count]);
		output |= operation->args[operation->arg_count++].output;
	}
	*end = '\0';
	if (!output && operation->arguments_given) {
		sgpu_reader_report(reader, "arguments", NULL,
				   "no argument is an output: none starts with 'output'");
	}
}

static const char *read_kernel(struct sgpu_reader *reader, const json_t *value)
{
	const char *kernel = sgpu_reader_string(reader, "kernel", value);

	if (kernel && !sgpu_reader_names_module(kernel) &&
	    (!*kernel || strlen(kernel) > SGPU_ID_MAX)) {
		sgpu_reader_report(reader, "kernel", NULL, "a kernel's name has 1 to %d bytes",
				   (int)SGPU_ID_MAX);
		return NULL;
	}
	return kernel;
}

/* Refuses only numbers that JSON cannot carry; the table of operations checks the values later. */
static void read_params(struct sgpu_reader *reader, json_t *value, struct sgpu_operation *operation)
{
	const char *name;
	json_t *item;
	char *end;

	if (!json_is_object(value)) {
		sgpu_reader_refuse(reader, "params", NULL, value, "is not an object");
		return;
	}
	operation->params = json_incref(value);
	end = sgpu_reader_enter(reader, "/params");
	json_object_foreach (value, name, item) {
		if (sgpu_reader_too_large(item)) {
			sgpu_reader_refuse(reader, name,
					   json_is_real(item) ? "whole numbers must be, up to 1e21"
							      : NULL,
					   item, "is not below 2^53");
		}
	}
	*end = '\0';
}

/* Reads the fields that depend on the kind of kernel, which is not known without `kernel`. */
static void read_kind(struct sgpu_reader *reader, json_t *const values[FIELDS],
		      struct sgpu_operation *operation)
{
	if (operation->kernel && sgpu_reader_names_module(operation->kernel)) {
		sgpu_reader_module(reader, values + MODULE, values[PARAMS], operation);
		return;
	}
	if (values[PARAMS] && (operation->kernel || json_is_object(values[PARAMS]))) {
		read_params(reader, values[PARAMS], operation);
	}
	for (int i = 0; i < SGPU_MODULE_FIELDS && operation->kernel; i++) {
		if (values[MODULE + i]) {
			sgpu_reader_report(reader, fields[MODULE + i], NULL,
					   "is for a module, the kernel is '%s'",
					   operation->kernel);
		}
	}
}

void sgpu_reader_operation(struct sgpu_reader *reader, int index, json_t *entry)
{
	struct sgpu_operation *operation = &reader->manifest->operations[index];
	json_t *values[FIELDS];

	operation->id = "";
	if (!sgpu_reader_fields(reader, entry, fields, REQUIRED, values)) {
		return;
	}
	if (json_is_string(values[ID]) && json_string_length(values[ID]) <= SGPU_ID_MAX) {
		operation->id = sgpu_reader_keep(reader, json_string_value(values[ID]));
	}
	operation->kernel = sgpu_reader_keep(reader, read_kernel(reader, values[KERNEL]));
	read_arguments(reader, values[ARGUMENTS], operation);
	read_kind(reader, values, operation);
	if (values[DECLASSIFY] && !json_is_boolean(values[DECLASSIFY])) {
		sgpu_reader_refuse(reader, "declassify", NULL, values[DECLASSIFY],
				   "is not true or false");
	}
	operation->declassify = json_is_true(values[DECLASSIFY]);
	sgpu_reader_dependencies(reader, ~index, values[DEPENDENCIES]);
}
