/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments of a manifest in the making, and the operation that they belong to.
 */
#include "draft.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "document.h"
#include "manifest_tool.h"
#include "payload.h"

static bool has_id(const json_t *list, const char *member, const char *id)
{
	size_t i;
	json_t *entry;

	json_array_foreach (list, i, entry) {
		if (strcmp(json_string_value(json_object_get(entry, member)), id) == 0) {
			return true;
		}
	}
	return false;
}

static bool id_taken(const struct draft *draft, const char *id)
{
	return strcmp(id, draft->operation) == 0 || has_id(draft->segments, "segment_id", id) ||
	       has_id(draft->operations, "gpu_operation_id", id);
}

void draft_make_id(const struct draft *draft, const char *text, char id[SGPU_ID_MAX + 1])
{
	size_t used = strnlen(text, SGPU_ID_MAX - 8);

	memmove(id, text, used);
	id[used] = '\0';
	for (int number = 2; !used || id_taken(draft, id); number++) {
		snprintf(id + used, (size_t)(SGPU_ID_MAX + 1) - used, "%s%d", used ? "_" : "input",
			 number);
	}
}

/* A file's name without its folder and its ending, and not in the middle of a character. */
static void stem_of_file(const char *path, char stem[DRAFT_STEM_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : strcmp(path, "-") ? path : "input";
	size_t length = strcspn(name, ".");

	length = length ? length : strlen(name);
	for (length = length < DRAFT_STEM_MAX ? length : DRAFT_STEM_MAX;
	     length && (name[length] & 0xc0) == 0x80;) {
		length--;
	}
	snprintf(stem, DRAFT_STEM_MAX + 1, "%.*s", (int)length, name);
}

/* Ids are ASCII: other characters become their numbers, as JSON has them, so that two names are two
 * ids. */
static void id_of_stem(const struct draft *draft, const char *stem, char id[SGPU_ID_MAX + 1])
{
	json_t *text = json_string(stem);
	char *ascii = text ? json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
	size_t used = 0;

	for (const char *c = ascii; c && *c && used < SGPU_ID_MAX - 8; c++) {
		if (*c != '"' && *c != '\\') {
			id[used] = isalnum((unsigned char)*c) || (used && *c == '-') ? *c : '_';
			used++;
		}
	}
	id[used] = '\0';
	draft_make_id(draft, id, id);
	free(ascii);
	json_decref(text);
}

bool draft_is_low(const struct draft *draft, const char *argument, const char *id)
{
	size_t i;
	json_t *name;

	json_array_foreach (draft->low, i, name) {
		if (strcmp(json_string_value(name), argument) == 0 ||
		    strcmp(json_string_value(name), id) == 0) {
			return true;
		}
	}
	return false;
}

int draft_add_segment(struct draft *draft, const char *id, const char *direction, bool low,
		      json_t *location, json_t *type)
{
	json_t *segment = json_pack("{s:s, s:s, s:s}", "segment_id", id, "sensitivity_level",
				    low ? "LOW" : "HIGH", "direction", direction);
	int failed = !segment;

	if (location) {
		failed = failed || json_object_set(segment, "data_location_client", location);
	}
	if (type) {
		failed = failed || json_object_set(segment, "data_type_info", type);
	}
	json_decref(location);
	json_decref(type);
	return json_array_append_new(draft->segments, segment) || failed
		       ? cli_fail(SGPU_EINVALID, "a file's name is not UTF-8")
		       : 0;
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
		if (!cli_op_is_output(&draft->op->args[i]) && !draft->used[i]) {
			return i;
		}
	}
	return -1;
}

int draft_add_file(struct draft *draft, const char *text)
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
	return 0;
}

static int add_input(struct draft *draft, const struct file_spec *spec)
{
	const char *argument = draft->op->args[spec->argument].name;
	char id[SGPU_ID_MAX + 1], stem[DRAFT_STEM_MAX + 1],
		*location = file_spec_location(spec->path, draft->folder);
	json_t *name;
	bool low;
	int status;

	if (!location) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	draft->outside |= strcmp(location, "-") && sgpu_location_outside(location);
	stem_of_file(spec->path, stem);
	id_of_stem(draft, stem, id);
	if (!*draft->stem) {
		memcpy(draft->stem, stem, sizeof(stem));
	}
	low = draft_is_low(draft, argument, id);
	if (!low && strcmp(location, "-") == 0) {
		cli_warning("'pack' takes nothing HIGH from standard input: put it into a file, or "
			    "lower it with --low %s",
			    argument);
	}
	name = json_string(location);
	status = name ? draft_add_segment(draft, id, "INPUT", low, name, type_json(spec))
		      : cli_fail(SGPU_EINVALID, "a file's name is not UTF-8");
	status = status ? status : draft_convert(draft, spec, low, id);
	json_object_set_new(draft->arguments, argument, json_string(id));
	free(location);
	return status;
}

/* The outputs that must be there; where all are optional, all. */
static int add_outputs(struct draft *draft)
{
	bool needed = false;
	int status = 0;

	for (int i = 0; draft->op->args[i].name; i++) {
		needed |= cli_op_is_output(&draft->op->args[i]) && !draft->op->args[i].optional;
	}
	for (int i = 0; draft->op->args[i].name && !status; i++) {
		const struct sgpu_op_argument *argument = &draft->op->args[i];
		char id[SGPU_ID_MAX + 1];

		if (cli_op_is_output(argument) && (!needed || !argument->optional)) {
			draft_make_id(draft, argument->name, id);
			status = draft_add_segment(draft, id, "OUTPUT",
						   draft_is_low(draft, argument->name, id),
						   json_string(id), NULL);
			json_object_set_new(draft->arguments, argument->name, json_string(id));
		}
	}
	return status;
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
		param.standard =
			param.standard == 0 && strcmp(param.name, "max") == 0 ? 1 : param.standard;
		op_default_text(&param, text);
		json_object_set_new(draft->params, param.name, op_default_json(&param));
		cli_note("the parameter '%s' is needed and was set to %s", param.name, text);
	}
}

/* A segment that the user knows: what is inserted is as its input is. */
static bool is_file(const struct draft *draft, const char *id)
{
	size_t i;
	json_t *segment;

	json_array_foreach (draft->segments, i, segment) {
		if (json_object_get(segment, "data_location_client") &&
		    strcmp(json_string_value(json_object_get(segment, "segment_id")), id) == 0) {
			return true;
		}
	}
	return false;
}

/* Every name that the user made LOW is that of an argument or of a file's segment. */
static int check_low(const struct draft *draft)
{
	size_t i;
	json_t *name;

	json_array_foreach (draft->low, i, name) {
		const char *text = json_string_value(name);
		struct sgpu_error error = { 0 };

		if (json_object_get(draft->arguments, text) || is_file(draft, text)) {
			continue;
		}
		sgpu_fail(&error, SGPU_EUSAGE,
			  "--low: '%s' is neither an argument of '%s' nor a segment", text,
			  draft->op->name);
		sgpu_hint(&error, "'sgpu-manifest ops %s' shows the arguments", draft->op->name);
		return cli_error(&error);
	}
	return 0;
}

int draft_build(struct draft *draft)
{
	size_t i = 0;
	json_t *entry;
	int status = 0;

	for (; draft->op->name[i] && i < SGPU_ID_MAX; i++) {
		draft->operation[i] = (char)toupper((unsigned char)draft->op->name[i]);
	}
	for (int k = 0; k < draft->spec_count && !status; k++) {
		status = add_input(draft, &draft->specs[k]);
	}
	status = status ? status : add_outputs(draft);
	status = status ? status : check_low(draft);
	if (status) {
		return status;
	}
	fill_params(draft);
	entry = json_pack("{s:s, s:s, s:O}", "gpu_operation_id", draft->operation, "kernel",
			  draft->op->name, "arguments", draft->arguments);
	if (entry && json_object_size(draft->params)) {
		json_object_set(entry, "params", draft->params);
	}
	return json_array_append_new(draft->operations, entry)
		       ? cli_fail(SGPU_ENOMEM, "out of memory")
		       : 0;
}

/* Outputs are called after the first input, the operation and their element type, which is known
 * now. */
static void name_outputs(struct draft *draft, const struct sgpu_manifest *checked)
{
	for (int i = 0; i < checked->segment_count; i++) {
		const struct sgpu_segment *segment = &checked->segments[i];
		const char *part = strchr(segment->id, '_'); /* "output_call" */
		char location[DRAFT_STEM_MAX + SGPU_ID_MAX + 64];

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

int draft_finish(struct draft *draft, json_t **manifest)
{
	struct document document = { 0 };
	char *text;
	int status;

	*manifest = json_pack("{s:i, s:s, s:O, s:O}", "version", (int)SGPU_MANIFEST_VERSION,
			      "manifest_id", draft->id ? draft->id : draft->op->name, "segments",
			      draft->segments, "operations", draft->operations);
	text = *manifest ? pretty_json(*manifest, 2, false) : NULL;
	status = text ? document_check(text, strlen(text), "the manifest that init made", 0,
				       &document)
		      : cli_fail(SGPU_EINVALID, "the manifest_id is not UTF-8");
	if (!status) {
		name_outputs(draft, document.manifest);
	}
	document_free(&document);
	free(text);
	return status;
}

void draft_clear(struct draft *draft)
{
	for (int i = 0; i < draft->spec_count; i++) {
		file_spec_clear(&draft->specs[i]);
	}
	json_decref(draft->low);
	json_decref(draft->operations);
	json_decref(draft->arguments);
	json_decref(draft->segments);
	json_decref(draft->params);
}
