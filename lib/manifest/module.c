/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation whose kernel is a module in a segment: its function, launch and parameters.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/reader.h"

static const char prefix[] = "module:";
enum { PREFIX = sizeof(prefix) - 1 };

bool sgpu_reader_names_module(const char *kernel)
{
	return strncmp(kernel, prefix, PREFIX) == 0;
}

/* ---- kernel ---- */
/* Reads "module:SEGMENT:FUNCTION", whose prefix has been checked. */
static void read_kernel(struct sgpu_reader *reader, const char *kernel,
			struct sgpu_module_call *module)
{
	const char *id = kernel + PREFIX, *colon = strchr(id, ':');
	char segment[SGPU_ID_MAX + 1];

	if (!colon || colon == id || colon - id > SGPU_ID_MAX) {
		sgpu_reader_report(reader, "kernel", NULL,
				   "the kernel of a module is written module:SEGMENT:FUNCTION");
		return;
	}
	memcpy(segment, id, (size_t)(colon - id));
	segment[colon - id] = '\0';
	module->segment = sgpu_reader_reference(reader, "kernel", segment,
						reader->manifest->segment_ids, "a segment");
	if (!sgpu_identifier(colon + 1) || strlen(colon + 1) > SGPU_MODULE_FUNCTION_MAX) {
		sgpu_reader_report(
			reader, "kernel", NULL,
			"a function's name is 1 to %d letters, digits and '_', no digit first",
			(int)SGPU_MODULE_FUNCTION_MAX);
		return;
	}
	module->function = colon + 1;
}

/* ---- grid, block, shared_bytes ---- */
static void read_extents(struct sgpu_reader *reader, const char *field, const json_t *value,
			 const unsigned most[3], unsigned extents[3])
{
	char *end;

	if (!value) {
		return;
	}
	if (!json_is_array(value) || json_array_size(value) < 1 || json_array_size(value) > 3) {
		sgpu_reader_refuse(reader, field, "for example [64, 4]", value,
				   "is not 1 to 3 numbers in an array");
		return;
	}
	for (size_t i = 0; i < json_array_size(value); i++) {
		uint64_t number = extents[i];

		end = sgpu_reader_enter(reader, "/%s/%zu", field, i);
		if (sgpu_reader_u64(reader, NULL, json_array_get(value, i), &number) &&
		    (number < 1 || number > most[i])) {
			sgpu_reader_report(reader, NULL, NULL, "is %llu, must be from 1 to %u",
					   (unsigned long long)number, most[i]);
			number = extents[i];
		}
		extents[i] = (unsigned)number;
		*end = '\0';
	}
}

static void read_shape(struct sgpu_reader *reader, json_t *const values[SGPU_MODULE_FIELDS],
		       struct sgpu_module_call *module)
{
	static const unsigned grid_most[3] = { SGPU_MODULE_GRID_X_MAX, SGPU_MODULE_GRID_YZ_MAX,
					       SGPU_MODULE_GRID_YZ_MAX };
	static const unsigned block_most[3] = { SGPU_MODULE_BLOCK_MAX, SGPU_MODULE_BLOCK_MAX,
						SGPU_MODULE_BLOCK_Z_MAX };
	uint64_t bytes = 0, threads;

	for (int i = 0; i < 3; i++) {
		module->grid[i] = module->block[i] = 1;
	}
	read_extents(reader, "grid", values[SGPU_MODULE_GRID], grid_most, module->grid);
	read_extents(reader, "block", values[SGPU_MODULE_BLOCK], block_most, module->block);
	threads = (uint64_t)module->block[0] * module->block[1] * module->block[2];
	if (threads > SGPU_MODULE_BLOCK_MAX) {
		sgpu_reader_report(reader, "block", NULL,
				   "is %llu threads, at most %d are possible",
				   (unsigned long long)threads, (int)SGPU_MODULE_BLOCK_MAX);
	}
	if (values[SGPU_MODULE_SHARED] &&
	    sgpu_reader_u64(reader, "shared_bytes", values[SGPU_MODULE_SHARED], &bytes) &&
	    bytes > SGPU_MODULE_SHARED_MAX) {
		sgpu_reader_report(reader, "shared_bytes", NULL, "is %llu, must be from 0 to %d",
				   (unsigned long long)bytes, (int)SGPU_MODULE_SHARED_MAX);
		return;
	}
	module->shared_bytes = (unsigned)bytes;
}

/* ---- module_digest ---- */
static void read_digest(struct sgpu_reader *reader, const json_t *value,
			struct sgpu_module_call *module)
{
	const char *text = sgpu_reader_string(reader, "module_digest", value);

	if (!text) {
		return;
	}
	module->has_digest = sgpu_base64url_decode(text, module->digest, sizeof(module->digest),
						   NULL) == SGPU_OK;
	if (!module->has_digest) {
		sgpu_reader_refuse(reader, "module_digest",
				   "sgpu-manifest pack fills it in when it is absent", value,
				   "is not %zu bytes in base64url", sizeof(module->digest));
	}
}

/* ---- params ---- */
enum form { I32, U32, I64, U64, F32, F64, ELEMENTS, BYTES, FORMS };
static const char *const forms[FORMS + 1] = { "i32", "u32",	 "i64",	  "u64", "f32",
					      "f64", "elements", "bytes", NULL };

static int find_argument(struct sgpu_reader *reader, const struct sgpu_operation *operation,
			 const json_t *value)
{
	const char *names[SGPU_ARGUMENTS_MAX + 1] = { NULL };
	const char *name = sgpu_reader_string(reader, NULL, value);
	char hint[SGPU_HINT_MAX];

	for (int i = 0; name && i < operation->arg_count; i++) {
		names[i] = operation->args[i].name;
		if (strcmp(name, names[i]) == 0) {
			return i;
		}
	}
	if (name) {
		sgpu_reader_refuse(reader, NULL, sgpu_reader_hint(name, names, hint), value,
				   "is not an argument of this operation");
	}
	return -1;
}

static void put(struct sgpu_module_param *param, const void *value, unsigned size)
{
	param->size = size;
	memcpy(param->value, value, size);
}

/* 3 and 3.0 are the same integer, since canonical form makes them equal. */
static bool read_integer(struct sgpu_reader *reader, enum form form, const json_t *value,
			 struct sgpu_module_param *param)
{
	static const double least[] = { INT32_MIN, 0, -(double)(SGPU_JSON_INTEGER_MAX - 1), 0 };
	static const double most[] = { INT32_MAX, UINT32_MAX, (double)(SGPU_JSON_INTEGER_MAX - 1),
				       (double)(SGPU_JSON_INTEGER_MAX - 1) };
	double number = json_number_value(value);
	char text[SGPU_NUMBER_TEXT_MAX];
	int64_t whole;

	if (number != floor(number) || number < least[form] || number > most[form]) {
		return sgpu_reader_report(
			reader, NULL, NULL, "is %s, %s is a whole number from %.17g to %.17g",
			sgpu_reader_number(number, text), forms[form], least[form], most[form]);
	}
	whole = (int64_t)number;
	/* The lower half of a 64-bit two's complement number, first in memory, is the same number
	 * in 32 bits. */
	put(param, &whole, form == I32 || form == U32 ? 4 : 8);
	return true;
}

static bool read_number(struct sgpu_reader *reader, enum form form, const json_t *value,
			struct sgpu_module_param *param)
{
	char text[SGPU_NUMBER_TEXT_MAX];
	double real = json_number_value(value);
	float single;

	if (!json_is_number(value)) {
		return sgpu_reader_refuse(reader, NULL, NULL, value, "is not a number");
	}
	if (sgpu_reader_too_large(value)) {
		return sgpu_reader_refuse(reader, NULL, NULL, value, "is not below 2^53");
	}
	if (form < F32) {
		return read_integer(reader, form, value, param);
	}
	if (form == F64) {
		put(param, &real, sizeof(real));
		return true;
	}
	single = fabs(real) <= (double)FLT_MAX * (1 + DBL_EPSILON) ? (float)real : INFINITY;
	if (isinf(single)) {
		return sgpu_reader_report(reader, NULL, NULL, "%s is too large for f32",
					  sgpu_reader_number(real, text));
	}
	put(param, &single, sizeof(single));
	return true;
}

static bool read_form(struct sgpu_reader *reader, const struct sgpu_operation *operation,
		      json_t *object, struct sgpu_module_param *param)
{
	json_t *values[FORMS];
	int form = 0;

	if (json_object_size(object) != 1) {
		return sgpu_reader_report(reader, NULL, "for example { \"u32\": 5 }",
					  "the object has %zu members, and not one",
					  json_object_size(object));
	}
	if (!sgpu_reader_fields(reader, object, forms, 0, values)) {
		return false;
	}
	while (form < FORMS && !values[form]) {
		form++;
	}
	if (form < ELEMENTS) {
		param->kind = SGPU_MODULE_VALUE;
		return read_number(reader, (enum form)form, values[form], param);
	}
	if (form < FORMS) {
		param->kind = form == ELEMENTS ? SGPU_MODULE_ELEMENTS : SGPU_MODULE_BYTES;
		param->argument = find_argument(reader, operation, values[form]);
	}
	return param->argument >= 0;
}

static bool read_param(struct sgpu_reader *reader, const struct sgpu_operation *operation,
		       json_t *value, struct sgpu_module_param *param)
{
	*param = (struct sgpu_module_param){ .kind = SGPU_MODULE_POINTER,
					     .argument = -1,
					     .size = 8 };
	if (json_is_object(value)) {
		return read_form(reader, operation, value, param);
	}
	if (!json_is_string(value)) {
		return sgpu_reader_refuse(
			reader, NULL,
			json_is_number(value) ? "say of which type: { \"f32\": 1.5 }" : NULL, value,
			"is neither an argument's name nor an object");
	}
	param->argument = find_argument(reader, operation, value);
	return param->argument >= 0;
}

/* Reports arguments that are not passed to the function; an output among them would remain 0. */
static void check_seen(struct sgpu_reader *reader, const struct sgpu_operation *operation)
{
	char *end = sgpu_reader_enter(reader, "/arguments");

	for (int i = 0; i < operation->arg_count; i++) {
		bool seen = false;

		for (int k = 0; k < operation->module->param_count; k++) {
			const struct sgpu_module_param *param = &operation->module->params[k];

			seen |= param->kind == SGPU_MODULE_POINTER && param->argument == i;
		}
		if (!seen) {
			sgpu_reader_report(
				reader, operation->args[i].name, NULL,
				"is not among the params, so that the module cannot reach it");
		}
	}
	*end = '\0';
}

static void read_params(struct sgpu_reader *reader, json_t *value, struct sgpu_operation *operation)
{
	char *end;
	struct sgpu_module_call *module = operation->module;
	static const char example[] = "[\"input\", \"output\", { \"u32\": 5 }]";
	size_t count = json_array_size(value);
	bool good = true;

	if (!value) {
		sgpu_reader_report(reader, NULL, example,
				   "missing field 'params': a module needs its function's "
				   "parameters, in their order");
		return;
	}
	if (!json_is_array(value)) {
		sgpu_reader_refuse(reader, "params", example, value,
				   "is not an array, as the parameters of a module are");
		return;
	}
	if (count > SGPU_MODULE_PARAMS_MAX) {
		sgpu_reader_report(reader, "params", NULL,
				   "there are %zu parameters, at most %d are possible", count,
				   (int)SGPU_MODULE_PARAMS_MAX);
		return;
	}
	operation->params = json_incref(value);
	module->params = calloc(count + 1, sizeof(*module->params));
	reader->no_memory |= !module->params;
	for (size_t i = 0; i < count && module->params; i++) {
		end = sgpu_reader_enter(reader, "/params/%zu", i);
		good &= read_param(reader, operation, json_array_get(value, i),
				   &module->params[module->param_count++]);
		*end = '\0';
	}
	if (good && module->params) {
		check_seen(reader, operation);
	}
}

void sgpu_reader_module(struct sgpu_reader *reader, json_t *const values[SGPU_MODULE_FIELDS],
			json_t *params, struct sgpu_operation *operation)
{
	struct sgpu_module_call *module = operation->module = calloc(1, sizeof(*module));

	if (!module) {
		reader->no_memory = true;
		return;
	}
	module->segment = -1;
	read_kernel(reader, operation->kernel, module);
	read_shape(reader, values, module);
	read_digest(reader, values[SGPU_MODULE_DIGEST], module);
	read_params(reader, params, operation);
}

void sgpu_reader_module_segment(struct sgpu_reader *reader, int index)
{
	const struct sgpu_module_call *module = reader->manifest->operations[index].module;
	const struct sgpu_segment *segment;
	char text[SGPU_TYPE_TEXT_MAX];

	if (!module || module->segment < 0) {
		return;
	}
	segment = &reader->manifest->segments[module->segment];
	sgpu_reader_at(reader, SGPU_LIST_OPERATIONS, index);
	if (segment->direction != SGPU_INPUT &&
	    !(reader->unsure[module->segment] & SGPU_UNSURE_DIRECTION)) {
		sgpu_reader_report(reader, "kernel", NULL,
				   "segment '%s' is %s, and a module must be INPUT", segment->id,
				   sgpu_direction_name(segment->direction));
	} else if (segment->type_stated &&
		   (segment->type.dtype != SGPU_U8 || segment->type.rank != 1)) {
		sgpu_type_text(&segment->type, text);
		sgpu_reader_report(reader, "kernel", NULL,
				   "segment '%s' is %s, and a module is u8 of rank 1", segment->id,
				   text);
	} else if (segment->type_stated &&
		   (segment->type.shape[0] < 1 || segment->type.shape[0] > SGPU_MODULE_SIZE_MAX)) {
		sgpu_reader_report(reader, "kernel", NULL,
				   "segment '%s' has %llu bytes, a module has 1 to %d", segment->id,
				   (unsigned long long)segment->type.shape[0],
				   (int)SGPU_MODULE_SIZE_MAX);
	}
}
