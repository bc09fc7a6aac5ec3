/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-manifest init: writes a manifest for one operation and its files, which the user then edits.
 * If the operation does not take a file's element type, operations that convert the file come
 * first.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manifest_tool.h"

enum { STEM_MAX = 160 }; /* bytes; a file's name may have 255 together with its suffixes */

struct draft {
	const struct sgpu_op *op;
	const char *id, *output;
	json_t *params, *low; /* the operation's parameters; an object whose keys are to be LOW */
	struct file_spec specs[SGPU_ARGUMENTS_MAX];
	int spec_count;
	/* The manifest so far. */
	json_t *segments, *arguments, *operations;
	char stem[STEM_MAX + 1]; /* of the first input; output files are named after it */
	bool used[SGPU_ARGUMENTS_MAX];
	bool outside; /* a file is outside the manifest's folder */
	bool wide;    /* a file has f64: all files get it, so that an operation gets one type */
};

/* Returns a parameter: a number, true, false, or else a string. */
static json_t *param_value(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (value && (json_is_number(value) || json_is_boolean(value))) {
		return value;
	}
	json_decref(value);
	return json_string(text);
}

static int take_op(void *values, const char *name)
{
	struct draft *draft = values;

	draft->op = cli_find_op(name);
	return draft->op ? 0 : 2;
}

static int take_low(void *values, const char *name)
{
	return json_object_set_new(((struct draft *)values)->low, name, json_true())
		       ? cli_usage("--low: '%s' is not UTF-8", name)
		       : 0;
}

static int take_param(void *values, const char *text)
{
	struct draft *draft = values;
	const char *equals = strchr(text, '=');
	char *name;
	int failed;

	if (!equals || equals == text) {
		return cli_usage("'%s' is not NAME=VALUE", SGPU_EXCERPT(text));
	}
	name = strndup(text, (size_t)(equals - text));
	failed = name ? json_object_set_new(draft->params, name, param_value(equals + 1)) : -1;
	free(name);
	return failed ? cli_usage("'%s' is not NAME=VALUE in UTF-8", SGPU_EXCERPT(text)) : 0;
}

const struct cli_option init_options[] = {
	CLI_COMMON,
	{ "op", 0, "OPERATION", "the operation", CLI_TAKE(take_op) },
	{ "low", 0, "NAME", "this argument is LOW, not HIGH; may be repeated", CLI_TAKE(take_low) },
	{ "id", 0, "ID", "the manifest_id (default: the operation's name)",
	  CLI_TEXT(struct draft, id) },
	{ "param", 0, "NAME=VALUE", "a parameter of the operation; may be repeated",
	  CLI_TAKE(take_param) },
	{ "output", 'o', "FILE", "write to this new file, not to standard output",
	  CLI_TEXT(struct draft, output) },
	CLI_END
};

/* Copies a file's name without its folder and extensions. A long name is not cut in the middle of a
 * character. */
static void stem_of_file(const char *path, char stem[STEM_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : strcmp(path, "-") ? path : "input";
	size_t length = strcspn(name, ".");

	length = length ? length : strlen(name);
	for (length = length < STEM_MAX ? length : STEM_MAX;
	     length && (name[length] & 0xc0) == 0x80;) {
		length--;
	}
	snprintf(stem, STEM_MAX + 1, "%.*s", (int)length, name);
}

static bool is_low(const struct draft *draft, const char *argument)
{
	return json_object_get(draft->low, argument);
}

/* Adds a segment. Takes over the reference to `type`. `type` and `location` may be NULL. */
static int add_segment(struct draft *draft, const char *id, const char *direction, bool low,
		       const char *location, json_t *type)
{
	json_t *segment =
		json_pack("{s:s, s:s, s:s, s:s*, s:o*}", "segment_id", id, "sensitivity_level",
			  low ? "LOW" : "HIGH", "direction", direction, "data_location_client",
			  location, "data_type_info", type);

	return json_array_append_new(draft->segments, segment)
		       ? cli_fail(SGPU_EINVALID, "a file's name is not UTF-8")
		       : 0;
}

/* Adds an operation, whose parameters may be NULL. Takes over the references. */
static int add_operation(struct draft *draft, const char *id, const char *kernel, json_t *arguments,
			 json_t *params)
{
	return json_array_append_new(draft->operations,
				     json_pack("{s:s, s:s, s:o, s:o*}", "gpu_operation_id", id,
					       "kernel", kernel, "arguments", arguments, "params",
					       params))
		       ? cli_fail(SGPU_ENOMEM, "out of memory")
		       : 0;
}

static void id_of_op(const char *name, char id[SGPU_ID_MAX + 1])
{
	snprintf(id, SGPU_ID_MAX + 1, "%s", name);
	for (; *id; id++) {
		*id = (char)toupper((unsigned char)*id);
	}
}

/* ---- conversion of a file's elements: the scaling that its header states, and a cast ---- */
/* Returns the float to which values are cast: f64 if any file has f64, or for i32, else f32, as far
 * as the argument takes it; SGPU_NONE if it takes no float, since rounding to integers or clipping
 * would change the data. */
static enum sgpu_dtype choose_type(const struct draft *draft, enum sgpu_dtype from,
				   unsigned allowed)
{
	const bool wide = draft->wide || from == SGPU_I32;
	const enum sgpu_dtype first = wide ? SGPU_F64 : SGPU_F32,
			      second = wide ? SGPU_F32 : SGPU_F64;

	return allowed & SGPU_TYPE_BIT(first)	 ? first
	       : allowed & SGPU_TYPE_BIT(second) ? second
						 : SGPU_NONE;
}

/* Adds an operation that reads the segment `id`. Sets `id` to the segment that it writes, after
 * which it is named. */
static int add_step(struct draft *draft, const char *kernel, const char *suffix, bool low,
		    json_t *params, char id[SGPU_ID_MAX + 1], char operation[SGPU_ID_MAX + 1])
{
	char output[SGPU_ID_MAX + 1];
	int status;

	snprintf(output, sizeof(output), "%.*s_%s", SGPU_ID_MAX - 8, id, suffix);
	id_of_op(output, operation);
	status = add_operation(draft, operation, kernel,
			       json_pack("{s:s, s:s}", "input", id, "output", output), params);
	memcpy(id, output, sizeof(output));
	return status ? status : add_segment(draft, output, "INTERMEDIATE", low, NULL, NULL);
}

static int refuse(const struct draft *draft, const struct file_spec *spec, enum sgpu_dtype type,
		  const char *takes)
{
	struct sgpu_error error = { 0 };

	sgpu_fail(&error, SGPU_EINVALID, "'%s' has values of %s, and '%s' of '%s' takes %s",
		  spec->path, sgpu_dtype_name(type), draft->op->args[spec->argument].name,
		  draft->op->name, takes);
	sgpu_hint(&error, "the operation 'threshold' makes a mask; 'cast' rounds and cuts off");
	return cli_error(&error);
}

/* Adds operations that apply the scaling of the file's header and cast to a type that the argument
 * takes. `id` is the file's segment before, and the segment that the argument reads afterwards. */
static int convert(struct draft *draft, const struct file_spec *spec, bool low,
		   char id[SGPU_ID_MAX + 1])
{
	unsigned allowed = draft->op->args[spec->argument].dtypes;
	enum sgpu_dtype type = spec->type.dtype, target;
	char operation[SGPU_ID_MAX + 1], takes[OP_TEXT_MAX];
	int status = 0;

	if (spec->scaled) {
		status = add_step(draft, "scale", "scaled", low,
				  json_pack("{s:f, s:f}", "gain", spec->gain, "bias", spec->bias),
				  id, operation);
		type = type == SGPU_F64 ? SGPU_F64 : SGPU_F32;
		if (!status) {
			cli_note("the header of '%s' scales what is stored, %.9g * value + %.9g: "
				 "the operation '%s' was added "
				 "for it",
				 spec->path, spec->gain, spec->bias, operation);
		}
	}
	if (status || (allowed & SGPU_TYPE_BIT(type))) {
		return status;
	}
	op_dtypes_text(allowed, takes);
	target = choose_type(draft, type, allowed);
	if (target == SGPU_NONE) {
		return refuse(draft, spec, type, takes);
	}
	status = add_step(draft, "cast", sgpu_dtype_name(target), low,
			  json_pack("{s:s}", "dtype", sgpu_dtype_name(target)), id, operation);
	if (!status) {
		cli_note("'%s' has values of %s, which the operation '%s' casts to %s%s",
			 spec->path, sgpu_dtype_name(type), operation, sgpu_dtype_name(target),
			 target == SGPU_F32 && (type == SGPU_I32 || type == SGPU_F64) ? ", rounded"
										      : "");
	}
	return status;
}

/* ---- segments and operations ---- */
static json_t *type_json(const struct file_spec *spec)
{
	return json_pack("{s:s, s:o, s:o*}", "dtype", sgpu_dtype_name(spec->type.dtype), "shape",
			 shape_json(&spec->type), "offset",
			 spec->has_offset ? json_integer((json_int_t)spec->offset) : NULL);
}

/* Returns the first unused input argument, for a file without ARGUMENT=, or -1. */
static int next_input(const struct draft *draft)
{
	for (int i = 0; draft->op->args[i].name; i++) {
		if (!cli_op_is_output(&draft->op->args[i]) && !draft->used[i]) {
			return i;
		}
	}
	return -1;
}

static int add_file(struct draft *draft, const char *text)
{
	struct file_spec *spec = &draft->specs[draft->spec_count];
	struct sgpu_error error = { 0 };

	if (draft->spec_count == SGPU_ARGUMENTS_MAX) {
		return cli_usage("'%s' has no input for '%s'", draft->op->name, text);
	}
	draft->spec_count++;
	if (file_spec_parse(text, draft->op, spec, &error)) {
		return cli_error(&error);
	}
	if (spec->argument < 0) {
		spec->argument = next_input(draft);
	}
	if (spec->argument < 0) {
		return cli_usage("'%s' has no input for '%s'", draft->op->name, text);
	}
	if (draft->used[spec->argument] || cli_op_is_output(&draft->op->args[spec->argument])) {
		return cli_usage("'%s' is given twice or is an output",
				 draft->op->args[spec->argument].name);
	}
	draft->used[spec->argument] = true;
	draft->wide |= spec->type.dtype == SGPU_F64;
	return 0;
}

static int add_input(struct draft *draft, const struct file_spec *spec, const char *folder)
{
	const char *argument = draft->op->args[spec->argument].name;
	const bool low = is_low(draft, argument);
	char id[SGPU_ID_MAX + 1], *location = file_spec_location(spec->path, folder);
	int status;

	if (!location) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	draft->outside |= strcmp(location, "-") && sgpu_location_outside(location);
	if (!*draft->stem) {
		stem_of_file(spec->path, draft->stem);
	}
	if (!low && strcmp(location, "-") == 0) {
		cli_warning("'pack' takes nothing HIGH from standard input: put it into a file, or "
			    "lower it with --low %s",
			    argument);
	}
	const size_t first = json_array_size(draft->segments);
	snprintf(id, sizeof(id), "%s", argument);
	status = add_segment(draft, id, "INPUT", low, location, type_json(spec));
	status = status ? status : convert(draft, spec, low, id);
	if (spec->format) {
		json_t *segment = json_array_get(draft->segments, first);

		json_object_set_new(
			segment, "file",
			json_pack("{s:s, s:s*}", "format", spec->format, "member", spec->member));
	}
	json_object_set_new(draft->arguments, argument, json_string(id));
	free(location);
	return status;
}

/* Adds the required outputs, or all outputs if all are optional. */
static int add_outputs(struct draft *draft)
{
	bool needed = false;
	int status = 0;

	for (int i = 0; draft->op->args[i].name; i++) {
		needed |= cli_op_is_output(&draft->op->args[i]) && !draft->op->args[i].optional;
	}
	for (int i = 0; draft->op->args[i].name && !status; i++) {
		const struct sgpu_op_argument *argument = &draft->op->args[i];
		const char *id = argument->name;

		if (cli_op_is_output(argument) && (!needed || !argument->optional)) {
			status = add_segment(draft, id, "OUTPUT", is_low(draft, id), id, NULL);
			json_object_set_new(draft->arguments, id, json_string(id));
		}
	}
	return status;
}

/* Checks that every name of --low is that of an argument that has a segment. */
static int check_low(const struct draft *draft)
{
	struct sgpu_error error = { 0 };
	const char *name;
	json_t *value;

	json_object_foreach (draft->low, name, value) {
		if (!json_object_get(draft->arguments, name)) {
			sgpu_fail(&error, SGPU_EUSAGE, "--low: '%s' is not an argument of '%s'",
				  name, draft->op->name);
			sgpu_hint(&error, "'sgpu-manifest ops %s' shows the arguments",
				  draft->op->name);
			return cli_error(&error);
		}
	}
	return 0;
}

/* Builds the draft after all files are known. */
static int build(struct draft *draft, const char *folder)
{
	char operation[SGPU_ID_MAX + 1];
	int status = 0;

	id_of_op(draft->op->name, operation);
	for (int k = 0; k < draft->spec_count && !status; k++) {
		status = add_input(draft, &draft->specs[k], folder);
	}
	status = status ? status : add_outputs(draft);
	status = status ? status : check_low(draft);
	if (status) {
		return status;
	}
	return add_operation(draft, operation, draft->op->name, json_incref(draft->arguments),
			     json_object_size(draft->params) ? json_incref(draft->params) : NULL);
}

/* Names output files after the first input, the operation and the element type, which only the
 * checked manifest has. */
static void name_outputs(struct draft *draft, const struct sgpu_manifest *checked)
{
	for (int i = 0; i < checked->segment_count; i++) {
		const struct sgpu_segment *segment = &checked->segments[i];
		const char *part = strchr(segment->id, '_'); /* "output_call" */
		char location[STEM_MAX + SGPU_ID_MAX + 64];

		if (segment->direction != SGPU_OUTPUT) {
			continue;
		}
		snprintf(location, sizeof(location), "%s.%s%s%s.%s",
			 *draft->stem ? draft->stem : "output", draft->op->name, part ? "." : "",
			 part ? part + 1 : "", sgpu_dtype_name(segment->type.dtype));
		json_object_set_new(json_array_get(draft->segments, (size_t)i),
				    "data_location_client", json_string(location));
	}
}

/* Makes and checks the manifest, which the caller releases, and names its output files. */
static int finish(struct draft *draft, json_t **manifest)
{
	struct document document = { 0 };
	int status;

	*manifest = json_pack("{s:i, s:s, s:O, s:O}", "version", (int)SGPU_MANIFEST_VERSION,
			      "manifest_id", draft->id ? draft->id : draft->op->name, "segments",
			      draft->segments, "operations", draft->operations);
	status = *manifest ? document_check(*manifest, "the manifest that init made", 0, &document)
			   : cli_fail(SGPU_EINVALID, "the manifest_id is not UTF-8");
	if (!status) {
		name_outputs(draft, document.manifest);
	}
	document_free(&document);
	return status;
}

static int make_manifest(struct draft *draft, char **files)
{
	const char *output = draft->output;
	struct payload_folder folder = { .spool = -1 };
	struct sgpu_error error = { 0 };
	json_t *manifest = NULL;
	struct stat link;
	int status;

	/* An existing manifest may have been edited and is never replaced, nor is a dangling
	 * link. */
	if (output && lstat(output, &link) == 0 && S_ISLNK(link.st_mode) && access(output, F_OK)) {
		return cli_fail(SGPU_ESYSTEM, "'%s' exists, and 'init' replaces nothing", output);
	}
	status = cli_output_prepare(output, 0666, true);
	if (status) {
		return status;
	}
	if (payload_folder_open(output ? output : "-", &folder, &error)) {
		return cli_error(&error);
	}
	for (; *files && !status; files++) {
		status = add_file(draft, *files);
	}
	status = status ? status : build(draft, folder.path);
	status = status ? status : finish(draft, &manifest);
	status = status ? status : json_write(output, json_incref(manifest));
	if (!status && draft->outside) {
		cli_warning(
			"a file is outside the manifest's directory: pack it with --allow-outside");
	}
	json_decref(manifest);
	payload_folder_close(&folder);
	return status;
}

int verb_init(int argc, char **argv)
{
	struct draft draft = { .params = json_object(),
			       .low = json_object(),
			       .segments = json_array(),
			       .arguments = json_object(),
			       .operations = json_array() };
	char **files;
	int status = cli_read(argc, argv, &draft, &files);

	if (!status && !draft.op) {
		status = cli_usage("--op is missing; 'sgpu-manifest ops' lists the operations");
	}
	status = status ? status : make_manifest(&draft, files);
	for (int i = 0; i < draft.spec_count; i++) {
		free(draft.specs[i].path);
		free(draft.specs[i].member);
	}
	json_decref(draft.low);
	json_decref(draft.operations);
	json_decref(draft.arguments);
	json_decref(draft.segments);
	json_decref(draft.params);
	return status;
}
