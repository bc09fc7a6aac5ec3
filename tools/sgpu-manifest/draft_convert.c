/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a file holds to what an operation takes: the scaling that its header states, and a
 * cast.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "draft.h"
#include "manifest_tool.h"

/* Whether every value of the one type is one of the other. */
static bool holds_all(enum sgpu_dtype from, enum sgpu_dtype to)
{
	switch (from) {
	case SGPU_U8:
		return true;
	case SGPU_I16:
		return to != SGPU_U8 && to != SGPU_F16;
	case SGPU_F16:
		return to == SGPU_F32 || to == SGPU_F64;
	case SGPU_I32:
	case SGPU_F32:
		return to == SGPU_F64;
	default:
		return false;
	}
}

/* What a draft's files of f64 ask for, so that an operation on several need not take two types. */
static bool is_wide(const struct draft *draft)
{
	bool wide = false;

	for (int i = 0; i < draft->spec_count; i++) {
		wide |= draft->specs[i].type.dtype == SGPU_F64;
	}
	return wide;
}

/* A type of the set that holds all values, f32 first where no file has f64; else a float, to which
 * values are rounded; else none: integers that are cut off or rounded would be other data. */
static enum sgpu_dtype choose_type(const struct draft *draft, enum sgpu_dtype from,
				   unsigned allowed)
{
	static const enum sgpu_dtype order[] = { SGPU_F64, SGPU_F32, SGPU_F64,
						 SGPU_I32, SGPU_I16, SGPU_F16 };

	for (size_t i = is_wide(draft) ? 0 : 1; i < SGPU_ARRAY_LENGTH(order); i++) {
		if ((allowed & SGPU_TYPE_BIT(order[i])) && holds_all(from, order[i])) {
			return order[i];
		}
	}
	return allowed & SGPU_TYPE_BIT(SGPU_F64)   ? SGPU_F64
	       : allowed & SGPU_TYPE_BIT(SGPU_F32) ? SGPU_F32
						   : SGPU_NONE;
}

/* One operation of one input and one output behind the segment `id`, which becomes its output. */
static int add_step(struct draft *draft, const char *kernel, const char *suffix, bool low,
		    json_t *params, char id[SGPU_ID_MAX + 1], char operation[SGPU_ID_MAX + 1])
{
	char name[SGPU_ID_MAX + 8], output[SGPU_ID_MAX + 1];
	size_t length = strlen(id), room = SGPU_ID_MAX - 8 - strlen(suffix);
	json_t *entry;
	int status;

	for (size_t i = 0; i <= strlen(kernel); i++) {
		name[i] = (char)toupper((unsigned char)kernel[i]);
	}
	draft_make_id(draft, name, operation);
	snprintf(name, sizeof(name), "%.*s_%s", (int)(length < room ? length : room), id, suffix);
	draft_make_id(draft, name, output);
	entry = json_pack("{s:s, s:s, s:{s:s, s:s}, s:o}", "gpu_operation_id", operation, "kernel",
			  kernel, "arguments", "input", id, "output", output, "params", params);
	status = entry && json_array_append_new(draft->operations, entry) == 0
			 ? draft_add_segment(draft, output, "INTERMEDIATE", low, NULL, NULL)
			 : cli_fail(SGPU_ENOMEM, "out of memory");
	memcpy(id, output, sizeof(output));
	return status;
}

static int refuse(const struct draft *draft, const struct file_spec *spec, enum sgpu_dtype type,
		  const char *takes)
{
	const struct sgpu_op_argument *argument = &draft->op->args[spec->argument];
	struct sgpu_error error = { 0 };

	sgpu_fail(&error, SGPU_EINVALID,
		  "'%s' has values of %s, and '%s' of '%s' takes %s, which cannot hold them",
		  spec->path, sgpu_dtype_name(type), argument->name, draft->op->name, takes);
	if (argument->dtypes & SGPU_TYPE_BIT(SGPU_U8)) {
		sgpu_hint(
			&error,
			"the operation 'threshold' makes a mask of u8; 'cast' rounds and cuts off");
	}
	return cli_error(&error);
}

int draft_convert(struct draft *draft, const struct file_spec *spec, bool low,
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
			 holds_all(type, target) ? "" : ", rounded");
	}
	return status;
}
