/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a manifest of stages: an operation each, and before it what makes of a file the data that the
 * operation takes: the scaling of the file's header, a cast that is exact, another order of the axes.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "draft.h"

enum { STEM_MAX = 160 }; /* bytes; a file's name may have 255 together with its suffixes */

/* A segment on its way to an argument. */
struct value {
	char id[SGPU_ID_MAX + 1];
	struct sgpu_type type; /* as the bytes lie */
	bool reversed;	       /* people count the axes from the last one: the first varies fastest */
	bool low;
	const struct draft_file *file; /* where it comes from, or NULL */
	bool scaled;		       /* what is stored has still to be scaled */
};

struct draft {
	const struct draft_request *request;
	json_t *segments, *operations;
	struct draft_file files[SGPU_ARGUMENTS_MAX * DRAFT_STAGES_MAX];
	char ids[SGPU_ARGUMENTS_MAX * DRAFT_STAGES_MAX][SGPU_ID_MAX + 1]; /* by file: its segment */
	int file_count;
	struct value outputs[SGPU_ARGUMENTS_MAX]; /* by argument, of the last stage so far; "": none */
	bool reversed;				  /* these lie with the first axis fastest */
	bool later;				  /* not in the first stage */
	bool outside;				  /* a file is outside the current directory */
};

/* ---- segments and operations ---- */
/* Adds a segment. Takes over the references; all but `id` and `direction` may be NULL. */
static int add_segment(struct draft *draft, const char *id, const char *direction, bool low,
		       const char *location, json_t *type, json_t *file)
{
	json_t *segment = json_pack("{s:s, s:s, s:s, s:s*, s:o*, s:o*}", "segment_id", id,
				    "sensitivity_level", low ? "LOW" : "HIGH", "direction",
				    direction, "data_location_client", location, "data_type_info",
				    type, "file", file);

	return json_array_append_new(draft->segments, segment)
		       ? cli_fail(SGPU_EINVALID, "a file's name is not UTF-8")
		       : 0;
}

/* Adds an operation. Takes over the references; `params` may be NULL. */
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

/* Adds an operation that reads `value` and sets it to what the operation writes, a segment that is
 * named after the one that was read. The caller sets the type. */
static int add_step(struct draft *draft, const char *kernel, const char *suffix, json_t *params,
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
	return status ? status
		      : add_segment(draft, output, "INTERMEDIATE", value->low, NULL, NULL, NULL);
}

/* ---- what has to be done to a value ---- */
static const char *shown(const struct value *value)
{
	return value->file ? value->file->path : value->id;
}

static int reverse(struct draft *draft, struct value *value)
{
	const struct sgpu_type from = value->type;
	const int status = add_step(draft, "transpose", "t", NULL, value);

	for (int i = 0; i < from.rank; i++) {
		value->type.shape[i] = from.shape[from.rank - 1 - i];
	}
	value->reversed = !value->reversed;
	if (!status) {
		cli_note("the axes of '%s' are reversed on the device", shown(value));
	}
	return status;
}

static int cast(struct draft *draft, struct value *value, enum sgpu_dtype to)
{
	const char *name = sgpu_dtype_name(to);
	const enum sgpu_dtype from = value->type.dtype;
	const int status =
		from == to ? 0 : add_step(draft, "cast", name, json_pack("{s:s}", "dtype", name), value);

	value->type.dtype = to;
	if (!status && from != to) {
		cli_note("'%s' has values of %s, which are cast to %s", shown(value),
			 sgpu_dtype_name(from), name);
	}
	return status;
}

/* As NIfTI means it: in f64, so that the values are those that other programs compute. */
static int scale(struct draft *draft, struct value *value)
{
	const struct sgpu_file_info *info = &value->file->info;
	int status = cast(draft, value, SGPU_F64);

	status = status ? status
			: add_step(draft, "scale", "scaled",
				   json_pack("{s:f, s:f}", "gain", info->slope, "bias", info->inter),
				   value);
	value->scaled = false;
	if (!status) {
		cli_note("the header of '%s' scales what is stored, %.9g * value + %.9g", shown(value),
			 info->slope, info->inter);
	}
	return status;
}

/* Whether every value of `from` is one of `to`. */
static bool is_exact(enum sgpu_dtype from, enum sgpu_dtype to)
{
	static const uint8_t bits[SGPU_DTYPE_COUNT] = {
		[SGPU_F16] = 11, [SGPU_F32] = 24, [SGPU_F64] = 53, [SGPU_I8] = 7,   [SGPU_U8] = 8,
		[SGPU_I16] = 15, [SGPU_U16] = 16, [SGPU_I32] = 31, [SGPU_U32] = 32, [SGPU_I64] = 63,
		[SGPU_U64] = 64,
	};
	const bool is_float = to == SGPU_F32 || to == SGPU_F64;

	return is_float && bits[from] <= bits[to];
}

/* Returns the type to which a value is cast for an argument: the smaller float that holds all its
 * values, f64 if another file has f64; SGPU_NONE if there is none. */
static enum sgpu_dtype exact_type(const struct value *value, unsigned allowed, bool wide,
				  struct sgpu_error *error)
{
	static const enum sgpu_dtype floats[] = { SGPU_F32, SGPU_F64 };
	const enum sgpu_dtype from = value->type.dtype;
	bool fits = false;

	for (size_t i = wide && (allowed & SGPU_TYPE_BIT(SGPU_F64)); i < SGPU_ARRAY_LENGTH(floats);
	     i++) {
		if ((allowed & SGPU_TYPE_BIT(floats[i])) && is_exact(from, floats[i])) {
			return floats[i];
		}
	}
	if ((from == SGPU_I64 || from == SGPU_U64) && (allowed & SGPU_TYPE_BIT(SGPU_F64)) &&
	    value->file && draft_file_fits(value->file, &fits, error) == SGPU_OK && fits) {
		return SGPU_F64;
	}
	return SGPU_NONE;
}

static int refuse_type(const struct value *value, const struct sgpu_op *op, const char *argument,
		       unsigned allowed)
{
	struct sgpu_error error = { 0 };
	char takes[OP_TEXT_MAX];

	op_dtypes_text(allowed, takes);
	sgpu_fail(&error, SGPU_EINVALID,
		  "'%s' has values of %s; '%s' of '%s' takes %s, and no cast to these keeps every value",
		  shown(value), sgpu_dtype_name(value->type.dtype), argument, op->name, takes);
	sgpu_hint(&error, "--cast TYPE casts all the same: it rounds, and cuts off what TYPE cannot hold");
	return cli_error(&error);
}

/* Makes of a value what the argument takes: scaled, and of one of its types. */
static int convert(struct draft *draft, const struct sgpu_op *op, const struct sgpu_op_argument *argument,
		   bool wide, struct value *value)
{
	struct sgpu_error error = { 0 };
	enum sgpu_dtype target;
	int status = value->scaled ? scale(draft, value) : 0;

	if (status || (argument->dtypes & SGPU_TYPE_BIT(value->type.dtype))) {
		return status;
	}
	target = exact_type(value, argument->dtypes, wide, &error);
	if (error.code) {
		return cli_error(&error);
	}
	if (target == SGPU_NONE && (argument->dtypes & SGPU_TYPE_BIT(draft->request->cast))) {
		target = draft->request->cast;
	}
	return target == SGPU_NONE ? refuse_type(value, op, argument->name, argument->dtypes)
				   : cast(draft, value, target);
}

/* ---- the order of axes ---- */
/* Whether an operation gives the same result, in the order of its input, whichever way the axes are
 * counted. */
static bool ignores_order(const struct draft_stage *stage)
{
	static const char among[] =
		" activation_gradient black_scholes cast copy gaussian3d histogram map morphology3d "
		"percentile scale sgd threshold vector_add ";
	char name[DRAFT_NAME_MAX + 3];

	snprintf(name, sizeof(name), " %s ", stage->op->name);
	if (json_object_get(stage->params, "mode")) { /* the indexes of threshold count elements */
		return false;
	}
	return strstr(among, name) ||
	       (strcmp(stage->op->name, "reduce") == 0 && !json_object_get(stage->params, "axis"));
}

static bool has_order(const struct value *value)
{
	return value->type.rank > 1;
}

/* Gives all values of a stage one order: that in which they lie if the operation ignores it, else
 * the order in which people count. */
static int arrange(struct draft *draft, const struct draft_stage *stage, struct value *values, int count)
{
	const struct value *first = NULL;
	bool keep = ignores_order(stage), reversed;
	int status = 0;

	for (int i = 0; i < count; i++) {
		if (has_order(&values[i])) {
			keep = keep && (!first || values[i].type.rank == first->type.rank);
			first = first ? first : &values[i];
		}
	}
	reversed = keep && first && first->reversed;
	for (int i = 0; i < count && !status; i++) {
		if (has_order(&values[i]) && values[i].reversed != reversed) {
			status = reverse(draft, &values[i]);
		}
	}
	draft->reversed = reversed;
	return status;
}

/* ---- files ---- */
static json_t *type_json(const struct value *value, const struct sgpu_file_info *info)
{
	return json_pack("{s:s, s:o, s:o*}", "dtype", sgpu_dtype_name(value->type.dtype), "shape",
			 shape_json(&value->type), "offset",
			 info->plain && info->offset ? json_integer((json_int_t)info->offset) : NULL);
}

static json_t *file_json(const struct draft_file *file)
{
	return file->info.plain ? NULL
				: json_pack("{s:s, s:s*}", "format",
					    sgpu_file_format_names[file->info.format], "member",
					    file->member);
}

/* Sets a value's type to that of the file, as the bytes lie. */
static void lay(const struct sgpu_file_info *info, struct value *value)
{
	sgpu_file_payload_type(info, &value->type);
	value->reversed = info->first_fastest && info->type.rank > 1;
	value->scaled = info->scaled;
}

/* Adds the input segment of a file. */
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
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	draft->outside |= strcmp(location, "-") && sgpu_location_outside(location);
	if (!value->low && strcmp(location, "-") == 0) {
		cli_warning("'pack' takes nothing HIGH from standard input: put it into a file, or "
			    "lower it with --low %s",
			    name);
	}
	snprintf(value->id, sizeof(value->id),
		 draft->later ? "%s_%d" : "%s", name, number + 1);
	memcpy(draft->ids[number], value->id, sizeof(value->id));
	value->file = file;
	lay(&file->info, value);
	status = add_segment(draft, value->id, "INPUT", value->low, location,
			     type_json(value, &file->info), file_json(file));
	free(location);
	return status;
}

/* ---- stages ---- */
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
		if (*draft->outputs[i].id) {
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

static const struct sgpu_op_argument *find_argument(const struct draft_stage *stage, const char *name)
{
	const int index = sgpu_op_arg(stage->op, name);

	return &stage->op->args[index < 0 ? 0 : index]; /* names of a map are of its first */
}

/* Gets the value of each input of a stage: files, and the output of the stage before. */
static int gather(struct draft *draft, const struct draft_stage *stage, bool first,
		  struct draft_words *inputs, struct value *values)
{
	const char *chained = strcmp(stage->op->name, "map") ? "input" : "x";
	bool wide = false, fed = first;
	int status = 0;

	*inputs = stage->inputs;
	for (int i = 0; i < inputs->count; i++) {
		fed |= strcmp(inputs->list[i].value, "@") == 0;
	}
	if (!fed && inputs->count < SGPU_ARGUMENTS_MAX) {
		struct draft_word *word = &inputs->list[inputs->count++];

		snprintf(word->name, sizeof(word->name), "%s", chained);
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
		status = convert(draft, stage->op, find_argument(stage, inputs->list[i].name), wide,
				 &values[i]);
	}
	return status ? status : arrange(draft, stage, values, inputs->count);
}

/* Whether an output of the last stage is wanted: it is named with -o, or it is required. */
static bool is_wanted(const struct draft *draft, const struct sgpu_op_argument *argument, bool last)
{
	for (int i = 0; last && i < draft->request->outputs.count; i++) {
		if (strcmp(draft->request->outputs.list[i].name, argument->name) == 0) {
			return true;
		}
	}
	return !argument->optional;
}

/* Adds the outputs of a stage as segments: INTERMEDIATE, until the files of the last are known. If
 * all outputs are optional, and none is named, there are all. */
static int add_outputs(struct draft *draft, const struct draft_stage *stage, int number, bool last,
		       json_t *arguments)
{
	const struct sgpu_op_argument *args = stage->op->args;
	bool any = false;
	int status = 0;

	memset(draft->outputs, 0, sizeof(draft->outputs));
	for (int i = 0; args[i].name; i++) {
		any |= cli_op_is_output(&args[i]) && is_wanted(draft, &args[i], last);
	}
	for (int i = 0; args[i].name && !status; i++) {
		struct value *value = &draft->outputs[i];

		if (!cli_op_is_output(&args[i]) || (any && !is_wanted(draft, &args[i], last))) {
			continue;
		}
		snprintf(value->id, sizeof(value->id), last ? "%s" : "%s_%d", args[i].name, number + 1);
		value->low = is_low(stage, args[i].name);
		status = add_segment(draft, value->id, "INTERMEDIATE", value->low, NULL, NULL, NULL);
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
					"%s=%s: the voxels are not cubes: %.6g x %.6g x %.6g mm", name,
					text, voxel[0], voxel[1], voxel[2]);
		}
	}
	return json_object_set_new(params, name, json_real(length / voxel[0]))
		       ? cli_fail(SGPU_ENOMEM, "out of memory")
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

/* Sets the direction of the last outputs. */
static void direct(const struct draft *draft, const char *direction)
{
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		json_t *segment;
		size_t k;

		json_array_foreach (draft->segments, k, segment) {
			if (strcmp(draft->outputs[i].id, cli_text_of(segment, "segment_id")) == 0) {
				json_object_set_new(segment, "direction", json_string(direction));
			}
		}
	}
}

/* Checks the manifest so far, in which the last outputs get their types. *manifest: a new
 * reference. */
static int infer(struct draft *draft, json_t **manifest)
{
	struct document document = { 0 };
	int status;

	direct(draft, "OUTPUT");
	*manifest = manifest_of(draft);
	status = *manifest ? document_check(*manifest, DOCUMENT_MADE, 0, &document)
			   : cli_fail(SGPU_EINVALID, "the manifest_id is not UTF-8");
	for (int i = 0; i < SGPU_ARGUMENTS_MAX && !status; i++) {
		struct value *value = &draft->outputs[i];

		if (*value->id) {
			const int k = sgpu_manifest_segment(document.manifest, value->id);

			value->type = document.manifest->segments[k].type;
			value->reversed = draft->reversed && value->type.rank > 1;
		}
	}
	document_free(&document);
	return status;
}

static int add_stage(struct draft *draft, int number)
{
	const struct draft_request *request = draft->request;
	const struct draft_stage *stage = &request->stages[number];
	const bool last = number + 1 == request->count;
	struct value values[SGPU_ARGUMENTS_MAX];
	json_t *arguments = json_object(), *manifest = NULL;
	struct draft_words inputs;
	char operation[SGPU_ID_MAX + 1], id[SGPU_ID_MAX + 16];
	int status;

	draft->later = number > 0;
	status = gather(draft, stage, number == 0, &inputs, values);
	for (int i = 0; i < inputs.count && !status; i++) {
		json_object_set_new(arguments, inputs.list[i].name, json_string(values[i].id));
	}
	for (int i = 0; stage->op->params && stage->op->params[i].name && !status; i++) {
		status = in_voxels(values, inputs.count, stage->op->params[i].name, stage->params);
	}
	if (!status && stage->expression) {
		json_object_set_new(stage->params, "expression", json_string(stage->expression));
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
	status = status ? status : infer(draft, &manifest);
	json_decref(arguments);
	json_decref(manifest);
	return status;
}

/* ---- what becomes of the outputs ---- */
static bool same_shape(const struct value *value, const struct sgpu_file_info *info)
{
	const int rank = value->type.rank;
	bool same = rank == info->type.rank;

	for (int i = 0; i < rank && same; i++) {
		same = value->type.shape[value->reversed ? rank - 1 - i : i] == info->type.shape[i];
	}
	return same;
}

/* Finds the NIfTI file whose header an output takes over: that of --like, else the first of its
 * shape; -1: none. Returns an exit status. */
static int find_like(const struct draft *draft, const struct value *value, int *file)
{
	const char *like = draft->request->like;

	*file = -1;
	for (int i = 0; i < draft->file_count && *file < 0; i++) {
		const struct sgpu_file_info *info = &draft->files[i].info;

		if (like ? strcmp(like, draft->ids[i]) == 0
			 : info->format == SGPU_FILE_NIFTI && same_shape(value, info)) {
			*file = i;
		}
	}
	if (like && (*file < 0 || draft->files[*file].info.format != SGPU_FILE_NIFTI)) {
		return cli_usage(*file < 0 ? "--like: '%s' is no input"
					   : "--like: the file of '%s' has no NIfTI header",
				 SGPU_EXCERPT(like));
	}
	return 0;
}

/* Returns the file of -o for an output: NULL if none is given. */
static const char *output_file(const struct draft *draft, const char *name, bool alone)
{
	const struct draft_words *outputs = &draft->request->outputs;

	for (int i = 0; i < outputs->count; i++) {
		if (strcmp(outputs->list[i].name, name) == 0 || (alone && !*outputs->list[i].name)) {
			return outputs->list[i].value;
		}
	}
	return NULL;
}

/* Names an output after the first input, the operation and the element type. */
static void default_name(const struct draft *draft, const char *name, const struct value *value,
			 char text[STEM_MAX + SGPU_ID_MAX + 64])
{
	const char *path = draft->file_count ? draft->files[0].path : "output";
	const char *slash = strrchr(path, '/'), *part = strchr(name, '_'); /* "output_call" */
	const char *stem = slash ? slash + 1 : strcmp(path, "-") ? path : "input";
	size_t length = strcspn(stem, ".");

	length = length ? length : strlen(stem);
	for (length = length < STEM_MAX ? length : STEM_MAX;
	     length && ((unsigned char)stem[length] & 0xc0) == 0x80;) {
		length--; /* not in the middle of a character */
	}
	snprintf(text, STEM_MAX + SGPU_ID_MAX + 64, "%.*s.%s%s%s.%s", (int)length, stem,
		 draft->request->stages[draft->request->count - 1].op->name, part ? "." : "",
		 part ? part + 1 : "", sgpu_dtype_name(value->type.dtype));
}

/* Returns the segment's member `file` for an output, NULL for a raw one. */
static json_t *output_json(const struct draft *draft, const struct sgpu_file_style *style,
			   const struct value *value, int like)
{
	if (style->format == SGPU_FILE_RAW) {
		return NULL;
	}
	return json_pack("{s:s, s:s*, s:s*}", "format",
			 style->gzip ? "nifti.gz" : sgpu_file_format_names[style->format], "like",
			 style->format == SGPU_FILE_NIFTI && like >= 0 ? draft->ids[like] : NULL,
			 "axes", value->reversed ? "reversed" : NULL);
}

/* Turns a segment that an operation writes into an output with its file. */
static int finish_output(struct draft *draft, const char *name, bool alone, struct value *value)
{
	const char *path = output_file(draft, name, alone), *slash;
	char named[STEM_MAX + SGPU_ID_MAX + 64];
	struct sgpu_file_style style = { .format = SGPU_FILE_RAW };
	int like = -1, status;
	json_t *segment;
	size_t k;

	default_name(draft, name, value, named);
	slash = path && sgpu_location_outside(path) ? strrchr(path, '/') : NULL;
	if (path) {
		sgpu_file_style_of(path, &style);
	}
	status = find_like(draft, value, &like);
	if (!status && like >= 0 && style.format != SGPU_FILE_NIFTI && path) {
		cli_note("'%s' keeps no affine and no units of '%s': .nii and .nii.gz do", path,
			 draft->files[like].path);
	}
	if (!status && style.format == SGPU_FILE_NIFTI && has_order(value) && !value->reversed) {
		status = reverse(draft, value);
	}
	json_array_foreach (draft->segments, k, segment) {
		if (!status && strcmp(value->id, cli_text_of(segment, "segment_id")) == 0) {
			json_t *file = output_json(draft, &style, value, like);

			json_object_set_new(segment, "direction", json_string("OUTPUT"));
			json_object_set_new(segment, "data_type_info",
					    json_pack("{s:s, s:o}", "dtype",
						      sgpu_dtype_name(value->type.dtype), "shape",
						      shape_json(&value->type)));
			if (json_object_set_new(segment, "data_location_client",
						json_string(slash ? slash + 1 : path ? path : named))) {
				status = cli_fail(SGPU_EINVALID, "a file's name is not UTF-8");
			}
			if (file) {
				json_object_set_new(segment, "file", file);
			}
		}
	}
	return status;
}

/* Checks that each -o is of an output of the last operation, and that a -o without a name is of the
 * only one. */
static int check_outputs(const struct draft *draft, int count)
{
	const struct draft_stage *stage = &draft->request->stages[draft->request->count - 1];
	const struct draft_words *outputs = &draft->request->outputs;
	char names[CLI_OP_TEXT_MAX];

	for (int i = 0; i < outputs->count; i++) {
		const char *name = outputs->list[i].name;
		const int argument = sgpu_op_arg(stage->op, name);

		if (*name ? argument < 0 || !cli_op_is_output(&stage->op->args[argument])
			  : count != 1 || outputs->count != 1) {
			return cli_usage("-o %s%s%s: '%s' has the outputs %s: -o NAME=FILE", name,
					 *name ? "=" : "", SGPU_EXCERPT(outputs->list[i].value),
					 stage->op->name, cli_op_arguments(stage->op, true, names));
		}
	}
	return 0;
}

static int finish(struct draft *draft, json_t **manifest)
{
	const struct sgpu_op *op = draft->request->stages[draft->request->count - 1].op;
	struct document document = { 0 };
	int count = 0, status;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		count += *draft->outputs[i].id != '\0';
	}
	status = check_outputs(draft, count);
	direct(draft, "INTERMEDIATE");
	for (int i = 0; op->args[i].name && !status; i++) {
		if (*draft->outputs[i].id) {
			status = finish_output(draft, op->args[i].name, count == 1,
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
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	draft->request = request;
	draft->segments = json_array();
	draft->operations = json_array();
	status = draft_check_words(request);
	for (int i = 0; i < request->count && !status; i++) {
		status = add_stage(draft, i);
	}
	status = status ? status : finish(draft, manifest);
	if (!status && draft->outside) {
		cli_note("a file is outside the current directory: pack with --allow-outside");
	}
	json_decref(draft->segments);
	json_decref(draft->operations);
	for (int i = 0; i < draft->file_count; i++) {
		free(draft->files[i].path);
	}
	free(draft);
	return status;
}
