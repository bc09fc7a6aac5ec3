/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a manifest of stages: an operation each, after what convert.c makes of its files.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draft.h"

/* Takes over the references; the last three arguments may be NULL. */
static int add_segment(struct draft *draft, struct value *value, const char *direction,
		       const char *location, json_t *type, json_t *file)
{
	value->segment =
		json_pack("{s:s, s:s, s:s, s:s*, s:o*, s:o*}", "segment_id", value->id,
			  "sensitivity_level", value->low ? "LOW" : "HIGH", "direction", direction,
			  "data_location_client", location, "data_type_info", type, "file", file);
	return json_array_append_new(draft->segments, value->segment)
		       ? cli_fail(SGPU_EINVALID, "a file's name is not UTF-8")
		       : 0;
}

/* Takes over the references; `params` may be NULL. */
static int add_operation(struct draft *draft, const char *id, const char *kernel, json_t *arguments,
			 json_t *params)
{
	return json_array_append_new(draft->operations,
				     json_pack("{s:s, s:s, s:o, s:o*}", "gpu_operation_id", id,
					       "kernel", kernel, "arguments", arguments, "params",
					       params))
		       ? cli_fail_nomem()
		       : 0;
}

static void id_of_op(const char *name, char id[SGPU_ID_MAX + 1])
{
	snprintf(id, SGPU_ID_MAX + 1, "%s", name);
	for (; *id; id++) {
		*id = (char)toupper((unsigned char)*id);
	}
}

int draft_step(struct draft *draft, const char *kernel, const char *suffix, json_t *params,
	       struct value *value)
{
	char output[SGPU_ID_MAX + 1], operation[SGPU_ID_MAX + 1];
	int status;

	snprintf(output, sizeof(output), "%.*s_%s", SGPU_ID_MAX - 12, value->id, suffix);
	id_of_op(output, operation);
	status = add_operation(draft, operation, kernel,
			       json_pack("{s:s, s:s}", "input", value->id, "output", output),
			       params);
	memcpy(value->id, output, sizeof(value->id));
	return status ? status : add_segment(draft, value, "INTERMEDIATE", NULL, NULL, NULL);
}

json_t *draft_type(const struct sgpu_type *type, uint64_t offset)
{
	return json_pack("{s:s, s:o, s:o*}", "dtype", sgpu_dtype_name(type->dtype), "shape",
			 shape_json(type), "offset",
			 offset ? json_integer((json_int_t)offset) : NULL);
}

static json_t *file_json(const struct draft_file *file)
{
	return file->info.plain ? NULL
				: json_pack("{s:s, s:s*}", "format",
					    sgpu_file_format_names[file->info.format], "member",
					    file->request.member);
}

static int add_file(struct draft *draft, const char *name, const char *text, struct value *value)
{
	const int number = draft->file_count++;
	struct draft_file *file = &draft->files[number];
	struct sgpu_error error = { 0 };
	char *location;
	int status;

	if (draft_file_read(text, draft->request->size_max, file, &error)) {
		return cli_error(&error);
	}
	location = draft_location(file->path);
	if (!location) {
		return cli_fail_nomem();
	}
	snprintf(value->id, sizeof(value->id), draft->later ? "%s_%d" : "%s", name, number + 1);
	memcpy(file->id, value->id, sizeof(value->id));
	value->file = file;
	sgpu_file_payload_type(&file->info, &value->type);
	value->reversed = file->info.first_fastest && file->info.type.rank > 1;
	value->scaled = file->info.scaled;
	status = add_segment(draft, value, "INPUT", location,
			     draft_type(&value->type, file->info.plain ? file->info.offset : 0),
			     file_json(file));
	free(location);
	return status;
}

static bool is_low(const struct draft_stage *stage, const char *name)
{
	for (int i = 0; i < stage->low.count; i++) {
		if (strcmp(stage->low.items[i], name) == 0) {
			return true;
		}
	}
	return false;
}

/* Returns the one output of the stage before, for a file "@", or NULL after a message. */
static const struct value *output_before(const struct draft *draft, const char *name)
{
	const struct value *found = NULL;
	int count = 0;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (draft->outputs[i].segment) {
			found = found ? found : &draft->outputs[i];
			count++;
		}
	}
	if (count != 1) {
		cli_usage("%s=@: %s", name[0] ? name : "input",
			  count ? "the operation before has several outputs"
				: "there is no operation before");
		return NULL;
	}
	return found;
}

static const struct sgpu_op_argument *find_argument(const struct draft_stage *stage,
						    const char *name)
{
	const int index = sgpu_op_arg(stage->op, name);

	return &stage->op->args[index < 0 ? 0 : index]; /* names of a map are of its first */
}

static int gather(struct draft *draft, const struct draft_stage *stage, bool first,
		  struct draft_words *inputs, struct value *values)
{
	char names[OP_TEXT_MAX];
	bool wide = false, fed = first;
	int status = 0;

	*inputs = stage->inputs;
	for (int i = 0; i < inputs->count; i++) {
		fed |= strcmp(inputs->list[i].value, "@") == 0;
	}
	if (!fed && !stage->expression && sgpu_op_arg(stage->op, "input") < 0) {
		return cli_usage(
			"'%s' has no argument 'input' for what the operation before writes: "
			"NAME=@, of %s",
			stage->op->name, op_arguments(stage->op, false, names));
	}
	if (!fed && inputs->count < SGPU_ARGUMENTS_MAX) {
		struct draft_word *word = &inputs->list[inputs->count++];

		snprintf(word->name, sizeof(word->name), stage->expression ? "x" : "input");
		word->value = "@";
	}
	for (int i = 0; i < inputs->count && !status; i++) {
		const struct draft_word *word = &inputs->list[i];

		values[i] = (struct value){ .low = is_low(stage, word->name) };
		if (strcmp(word->value, "@") == 0) {
			const struct value *before = output_before(draft, word->name);

			status = before ? 0 : 2;
			values[i] = before ? *before : values[i];
		} else {
			status = add_file(draft, word->name, word->value, &values[i]);
		}
		wide |= values[i].type.dtype == SGPU_F64 || values[i].scaled;
	}
	for (int i = 0; i < inputs->count && !status; i++) {
		status = draft_convert(draft, stage->op, find_argument(stage, inputs->list[i].name),
				       wide, &values[i]);
	}
	return status ? status : draft_arrange(draft, stage, values, inputs->count);
}

/* Whether an output of the last stage is named with -o, or required. */
static bool is_wanted(const struct draft *draft, const struct sgpu_op_argument *argument, bool last)
{
	for (int i = 0; last && i < draft->request->outputs.count; i++) {
		if (strcmp(draft->request->outputs.list[i].name, argument->name) == 0) {
			return true;
		}
	}
	return !argument->optional;
}

/* Adds a stage's outputs as segments: INTERMEDIATE, until the files of the last are known; all of
 * them, if all are optional and none is named. */
static int add_outputs(struct draft *draft, const struct draft_stage *stage, int number, bool last,
		       json_t *arguments)
{
	const struct sgpu_op_argument *args = stage->op->args;
	bool any = false;
	int status = 0;

	memset(draft->outputs, 0, sizeof(draft->outputs));
	for (int i = 0; args[i].name; i++) {
		any |= sgpu_op_is_output(&args[i]) && is_wanted(draft, &args[i], last);
	}
	for (int i = 0; args[i].name && !status; i++) {
		struct value *value = &draft->outputs[i];

		if (!sgpu_op_is_output(&args[i]) || (any && !is_wanted(draft, &args[i], last))) {
			continue;
		}
		snprintf(value->id, sizeof(value->id), last ? "%s" : "%s_%d", args[i].name,
			 number + 1);
		value->low = is_low(stage, args[i].name);
		status = add_segment(draft, value, "INTERMEDIATE", NULL, NULL, NULL);
		json_object_set_new(arguments, args[i].name, json_string(value->id));
	}
	return status;
}

/* A length in millimetres as a number of voxels: `sigma=4mm`. */
static int in_voxels(const struct value *values, int count, const char *name, json_t *params)
{
	const char *text = json_string_value(json_object_get(params, name));
	const double *voxel = NULL;
	char *end = NULL;
	const double length = text ? strtod(text, &end) : 0;

	if (!text || end == text || strcmp(end, "mm") != 0 || !isfinite(length)) {
		return 0;
	}
	for (int i = 0; i < count && !voxel; i++) {
		voxel = values[i].file && values[i].file->info.voxel[0] > 0
				? values[i].file->info.voxel
				: NULL;
	}
	if (!voxel) {
		return cli_usage("%s=%s: no input says how large its voxels are", name, text);
	}
	for (int i = 1; i < 3; i++) {
		if (!(fabs(voxel[i] - voxel[0]) <= 1e-4 * voxel[0])) {
			return cli_fail(SGPU_EINVALID,
					"%s=%s: the voxels are not cubes: %.6g x %.6g x %.6g mm",
					name, text, voxel[0], voxel[1], voxel[2]);
		}
	}
	return json_object_set_new(params, name, json_real(length / voxel[0])) ? cli_fail_nomem()
									       : 0;
}

static int check_low(const struct draft_stage *stage, const json_t *arguments)
{
	for (int i = 0; i < stage->low.count; i++) {
		if (!json_object_get(arguments, stage->low.items[i])) {
			return cli_usage("--low: '%s' is not an argument of '%s' that is given",
					 SGPU_EXCERPT(stage->low.items[i]), stage->op->name);
		}
	}
	return 0;
}

static json_t *manifest_of(const struct draft *draft)
{
	const struct draft_request *request = draft->request;
	const char *id = request->id ? request->id : request->stages[0].op->name;

	return json_pack("{s:i, s:s, s:O, s:O}", "version", (int)SGPU_MANIFEST_VERSION,
			 "manifest_id", id, "segments", draft->segments, "operations",
			 draft->operations);
}

static void direct(const struct draft *draft, const char *direction)
{
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (draft->outputs[i].segment) {
			json_object_set_new(draft->outputs[i].segment, "direction",
					    json_string(direction));
		}
	}
}

static int infer(struct draft *draft)
{
	struct document document = { 0 };
	json_t *manifest;
	int status;

	direct(draft, "OUTPUT");
	manifest = manifest_of(draft);
	status = manifest ? document_check(manifest, DOCUMENT_MADE, 0, &document)
			  : cli_fail(SGPU_EINVALID, "the manifest_id is not UTF-8");
	for (int i = 0; i < SGPU_ARGUMENTS_MAX && !status; i++) {
		struct value *value = &draft->outputs[i];

		if (value->segment) {
			const int k = sgpu_manifest_segment(document.manifest, value->id);

			value->type = document.manifest->segments[k].type;
			value->reversed = draft->reversed && value->type.rank > 1;
		}
	}
	document_free(&document);
	json_decref(manifest);
	return status;
}

/* Returns the expression with bool(NAME) for each name whose file holds bool, which a manifest has
 * as u8. From malloc; NULL: out of memory. */
static char *with_bools(const char *expression, const struct draft_words *inputs,
			const struct value *values)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	for (size_t length; out && *expression; expression += length) {
		bool is_bool = false;

		length = strspn(expression, letters);
		for (int i = 0; i < inputs->count; i++) {
			is_bool |= values[i].file && values[i].file->info.boolean &&
				   strlen(inputs->list[i].name) == length &&
				   strncmp(inputs->list[i].name, expression, length) == 0;
		}
		length = length ? length : 1;
		fprintf(out, is_bool ? "bool(%.*s)" : "%.*s", (int)length, expression);
	}
	if (out && fclose(out) != 0) {
		free(text);
		text = NULL;
	}
	return text;
}

static int add_stage(struct draft *draft, int number)
{
	const struct draft_request *request = draft->request;
	const struct draft_stage *stage = &request->stages[number];
	const bool last = number + 1 == request->count;
	struct value values[SGPU_ARGUMENTS_MAX];
	json_t *arguments = json_object();
	struct draft_words inputs;
	char operation[SGPU_ID_MAX + 1], id[SGPU_ID_MAX + 16];
	int status;

	draft->later = number > 0;
	status = gather(draft, stage, number == 0, &inputs, values);
	for (int i = 0; i < inputs.count && !status; i++) {
		json_object_set_new(arguments, inputs.list[i].name, json_string(values[i].id));
	}
	for (int i = 0; stage->op->params[i].name && !status; i++) {
		status = in_voxels(values, inputs.count, stage->op->params[i].name, stage->params);
	}
	if (!status && stage->expression) {
		char *expression = with_bools(stage->expression, &inputs, values);

		status = json_object_set_new(stage->params, "expression", json_string(expression))
				 ? cli_fail(SGPU_EINVALID, "the expression is not UTF-8")
				 : 0;
		free(expression);
	}
	direct(draft, "INTERMEDIATE");
	id_of_op(stage->op->name, operation);
	snprintf(id, sizeof(id), number ? "%.60s_%d" : "%.60s", operation, number + 1);
	status = status ? status : add_outputs(draft, stage, number, last, arguments);
	status = status ? status : check_low(stage, arguments);
	status = status ? status
			: add_operation(draft, id, stage->op->name, json_incref(arguments),
					json_object_size(stage->params) ? json_incref(stage->params)
									: NULL);
	status = status ? status : infer(draft);
	json_decref(arguments);
	return status;
}

static int finish(struct draft *draft, json_t **manifest)
{
	const struct sgpu_op *op = draft->request->stages[draft->request->count - 1].op;
	struct document document = { 0 };
	int count = 0, status;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		count += draft->outputs[i].segment != NULL;
	}
	status = draft_check_outputs(draft, count);
	direct(draft, "INTERMEDIATE");
	for (int i = 0; op->args[i].name && !status; i++) {
		if (draft->outputs[i].segment) {
			status = draft_finish_output(draft, op->args[i].name, count == 1,
						     &draft->outputs[i]);
		}
	}
	if (status) {
		return status;
	}
	*manifest = manifest_of(draft);
	status = document_check(*manifest, DOCUMENT_MADE, 0, &document);
	document_free(&document);
	return status;
}

int draft_make(const struct draft_request *request, json_t **manifest)
{
	struct draft *draft = calloc(1, sizeof(*draft));
	int status;

	*manifest = NULL;
	if (!draft) {
		return cli_fail_nomem();
	}
	draft->request = request;
	draft->segments = json_array();
	draft->operations = json_array();
	status = draft_check_words(request);
	for (int i = 0; i < request->count && !status; i++) {
		status = add_stage(draft, i);
	}
	status = status ? status : finish(draft, manifest);
	json_decref(draft->segments);
	json_decref(draft->operations);
	for (int i = 0; i < draft->file_count; i++) {
		free(draft->files[i].path);
	}
	free(draft);
	return status;
}
