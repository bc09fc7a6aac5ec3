/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest init: a manifest for one operation and its files, to be edited from there.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "file_spec.h"
#include "op_info.h"
#include "payload.h"
#include "verbs.h"

enum { OPTION_OP = CLI_LONG, OPTION_HIGH, OPTION_ID, OPTION_PARAM };

const struct cli_option init_options[] = {
	CLI_COMMON,
	{ "op", OPTION_OP, "NAME", "the operation" },
	{ "high", OPTION_HIGH, NULL, "all segments are HIGH, not LOW" },
	{ "id", OPTION_ID, "ID", "the manifest_id; the operation's name without it" },
	{ "param", OPTION_PARAM, "NAME=VALUE", "a parameter of the operation; may be repeated" },
	{ "output", 'o', "FILE", "write there, not to standard output" },
	{ NULL, 0, NULL, NULL }
};

struct draft {
	const struct sgpu_op *op;
	const char *id, *output;
	bool high;
	json_t *params, *segments, *arguments;
	const char *folder;  /* real path that locations are relative to */
	bool used[SGPU_ARGUMENTS_MAX];
	bool outside;
};

/* A number, true, false, or else a string. */
static json_t *param_value(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (value && (json_is_number(value) || json_is_boolean(value))) {
		return value;
	}
	json_decref(value);
	return json_string(text);
}

static int add_param(struct draft *draft, const char *text)
{
	const char *equals = strchr(text, '=');
	char *name;
	int failed;

	if (!equals || equals == text) {
		return cli_usage("'%s' is not NAME=VALUE", text);
	}
	name = strndup(text, (size_t)(equals - text));
	failed = name ? json_object_set_new(draft->params, name, param_value(equals + 1)) : -1;
	free(name);
	return failed ? cli_usage("'%s' is not NAME=VALUE in UTF-8", text) : 0;
}

/* Parameters that must be given and were not: a value to start from. */
static void fill_params(struct draft *draft)
{
	for (int i = 0; draft->op->params && draft->op->params[i].name; i++) {
		struct sgpu_op_param param = draft->op->params[i];
		char text[OP_TEXT_MAX];

		if (!param.required || json_object_get(draft->params, param.name)) {
			continue;
		}
		param.required = false;
		/* A range from 0 to 0 holds nothing. */
		param.standard = param.standard == 0 && strcmp(param.name, "max") == 0 ? 1 : param.standard;
		op_default_text(&param, text);
		json_object_set_new(draft->params, param.name, op_default_json(&param));
		cli_note("the parameter '%s' is needed and was set to %s", param.name, text);
	}
}

static bool id_taken(const struct draft *draft, const char *id)
{
	size_t i;
	json_t *segment;

	json_array_foreach(draft->segments, i, segment) {
		if (strcmp(json_string_value(json_object_get(segment, "segment_id")), id) == 0) {
			return true;
		}
	}
	return false;
}

/* An id from a file's name without its folder and its ending, made unique. */
static void make_id(const struct draft *draft, const char *path, char id[SGPU_ID_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t used = 0, length = strcspn(name, ".");

	for (length = length ? length : strlen(name); used < length && used < SGPU_ID_MAX - 8; used++) {
		unsigned char c = (unsigned char)name[used];

		id[used] = isascii(c) && (isalnum(c) || (used && c == '-')) ? (char)c : '_';
	}
	id[used] = '\0';
	for (int number = 2; !used || id_taken(draft, id); number++) {
		snprintf(id + used, (size_t)(SGPU_ID_MAX + 1) - used, "%s%d", used ? "_" : "input", number);
	}
}

static json_t *type_json(const struct file_spec *spec)
{
	json_t *shape = json_array(), *type;

	for (int i = 0; i < spec->type.rank; i++) {
		json_array_append_new(shape, json_integer((json_int_t)spec->type.shape[i]));
	}
	type = json_pack("{s:s, s:o}", "dtype", sgpu_dtype_name(spec->type.dtype), "shape", shape);
	if (type && spec->has_offset) {
		json_object_set_new(type, "offset", json_integer((json_int_t)spec->offset));
	}
	return type;
}

/* The argument of the row that the next file without a name stands for, or -1. */
static int next_input(const struct draft *draft)
{
	for (int i = 0; draft->op->args[i].name; i++) {
		if (!op_argument_is_output(&draft->op->args[i]) && !draft->used[i]) {
			return i;
		}
	}
	return -1;
}

static int add_segment(struct draft *draft, int argument, const char *id, const char *direction, json_t *location,
		       json_t *type)
{
	const char *level = draft->high ? "HIGH" : "LOW";
	json_t *segment = json_pack("{s:s, s:o, s:s, s:s}", "segment_id", id, "data_location_client", location,
				    "sensitivity_level", level, "direction", direction);

	if (segment && type) {
		json_object_set_new(segment, "data_type_info", type);
	}
	if (!segment || json_array_append_new(draft->segments, segment) ||
	    json_object_set_new(draft->arguments, draft->op->args[argument].name, json_string(id))) {
		return cli_fail(SGPU_EINVALID, "a file's name is not UTF-8");
	}
	draft->used[argument] = true;
	return 0;
}

static int add_input(struct draft *draft, const char *text)
{
	struct sgpu_error error = { 0 };
	struct file_spec spec;
	char id[SGPU_ID_MAX + 1], *location = NULL;
	int status = 0;

	if (file_spec_parse(text, draft->op, &spec, &error)) {
		status = cli_error(&error);
		goto out;
	}
	if (spec.argument < 0) {
		spec.argument = next_input(draft);
	}
	if (spec.argument < 0 || draft->used[spec.argument] ||
	    op_argument_is_output(&draft->op->args[spec.argument])) {
		status = spec.argument < 0 ? cli_usage("'%s' has no input for '%s'", draft->op->name, text) :
					     cli_usage("'%s' is given twice or is an output",
						       draft->op->args[spec.argument].name);
		goto out;
	}
	location = file_spec_location(spec.path, draft->folder);
	if (!location) {
		status = cli_fail(SGPU_ENOMEM, "out of memory");
		goto out;
	}
	draft->outside |= strcmp(location, "-") && sgpu_location_outside(location);
	make_id(draft, spec.path, id);
	status = add_segment(draft, spec.argument, id, "INPUT", json_string(location), type_json(&spec));
out:
	free(location);
	file_spec_clear(&spec);
	return status;
}

/* The outputs that must be there; where all are optional, all. */
static int add_outputs(struct draft *draft)
{
	bool needed = false;
	int status = 0;

	for (int i = 0; draft->op->args[i].name; i++) {
		needed |= op_argument_is_output(&draft->op->args[i]) && !draft->op->args[i].optional;
	}
	for (int i = 0; draft->op->args[i].name && !status; i++) {
		const struct sgpu_op_argument *argument = &draft->op->args[i];
		char id[SGPU_ID_MAX + 1];

		if (op_argument_is_output(argument) && (!needed || !argument->optional)) {
			make_id(draft, argument->name, id);
			status = add_segment(draft, i, id, "OUTPUT", json_string(id), NULL);
		}
	}
	return status;
}

static json_t *make_manifest(struct draft *draft)
{
	char operation[SGPU_ID_MAX + 1];
	size_t i = 0;
	json_t *entry;

	for (; draft->op->name[i] && i < SGPU_ID_MAX - 1; i++) {
		operation[i] = (char)toupper((unsigned char)draft->op->name[i]);
	}
	operation[i] = '\0';
	while (id_taken(draft, operation) && i < SGPU_ID_MAX) {
		operation[i++] = '_';
		operation[i] = '\0';
	}
	entry = json_pack("{s:s, s:s, s:O}", "gpu_operation_id", operation, "kernel", draft->op->name, "arguments",
			  draft->arguments);
	if (entry && json_object_size(draft->params)) {
		json_object_set(entry, "params", draft->params);
	}
	return json_pack("{s:i, s:s, s:O, s:[o]}", "version", (int)SGPU_MANIFEST_VERSION, "manifest_id",
			 draft->id ? draft->id : draft->op->name, "segments", draft->segments, "operations", entry);
}

/* Outputs get the ending that their element type has, now that it is known. */
static void name_outputs(struct draft *draft, const struct sgpu_manifest *checked)
{
	for (int i = 0; i < checked->segment_count; i++) {
		const struct sgpu_segment *segment = &checked->segments[i];
		char location[SGPU_ID_MAX + 16];

		if (segment->direction == SGPU_OUTPUT) {
			snprintf(location, sizeof(location), "%s.%s", segment->id,
				 sgpu_dtype_name(segment->type.dtype));
			json_object_set_new(json_array_get(draft->segments, (size_t)i), "data_location_client",
					    json_string(location));
		}
	}
}

static int finish(struct draft *draft)
{
	json_t *manifest = make_manifest(draft);
	char *text = manifest ? json_dumps(manifest, JSON_INDENT(2)) : NULL;
	struct document document = { 0 };
	int status = text ? document_check(text, strlen(text), "<init>", 0, &document) :
			    cli_fail(SGPU_EINVALID, "the manifest_id is not UTF-8");

	if (!status) {
		name_outputs(draft, document.manifest);
		status = json_write(draft->output, NULL, json_incref(manifest), 2);
	}
	if (!status && draft->outside) {
		cli_warning("a file is outside the manifest's folder: pack it with --allow-outside");
	}
	document_free(&document);
	free(text);
	json_decref(manifest);
	return status;
}

static int make_draft(struct draft *draft, char **files)
{
	struct payload_folder folder = { .spool = -1 };
	struct sgpu_error error = { 0 };
	int status = 0;

	if (payload_folder_open(draft->output ? draft->output : "-", &folder, &error)) {
		return cli_error(&error);
	}
	draft->folder = folder.path;
	for (; *files && !status; files++) {
		status = output_differs(draft->output, strcmp(*files, "-") ? *files : NULL) ? add_input(draft, *files)
											    : 2;
	}
	if (!status) {
		status = add_outputs(draft);
	}
	if (!status) {
		fill_params(draft);
		status = finish(draft);
	}
	payload_folder_close(&folder);
	return status;
}

static int set_option(struct draft *draft, int key, const char *value)
{
	switch (key) {
	case OPTION_OP:
		draft->op = cli_find_op(value);
		return draft->op ? 0 : 2;
	case OPTION_HIGH:
		draft->high = true;
		return 0;
	case OPTION_ID:
		draft->id = value;
		return 0;
	case OPTION_PARAM:
		return add_param(draft, value);
	case 'o':
		draft->output = value;
		return 0;
	default:
		return 2;
	}
}

int verb_init(int argc, char **argv)
{
	struct draft draft = { .params = json_object(), .segments = json_array(), .arguments = json_object() };
	const char *value;
	int first, key, status = 0;

	while (!status && (key = cli_next(argc, argv, &value, &first))) {
		status = set_option(&draft, key, value);
	}
	if (!status && !draft.op) {
		status = cli_usage("--op is missing; 'sgpu-manifest ops' lists the operations");
	}
	if (!status) {
		status = make_draft(&draft, argv + first);
	}
	json_decref(draft.arguments);
	json_decref(draft.segments);
	json_decref(draft.params);
	return status;
}
