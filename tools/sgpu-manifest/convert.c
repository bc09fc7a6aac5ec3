/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands before an operation of init: the scaling of a file's header, an exact cast, another
 * order of the axes.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "draft.h"

static const char *shown(const struct value *value)
{
	return value->file ? value->file->path : value->id;
}

int draft_reverse(struct draft *draft, struct value *value)
{
	const struct sgpu_type from = value->type;
	const int status = draft_step(draft, "transpose", "t", NULL, value);

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
	const int status = from == to ? 0
				      : draft_step(draft, "cast", name,
						   json_pack("{s:s}", "dtype", name), value);

	value->type.dtype = to;
	if (!status && from != to) {
		cli_note("'%s' has values of %s, which are cast to %s", shown(value),
			 sgpu_dtype_name(from), name);
	}
	return status;
}

/* As NIfTI means it: in f64, for the values that other programs compute. */
static int scale(struct draft *draft, struct value *value)
{
	const struct sgpu_file_info *info = &value->file->info;
	int status = cast(draft, value, SGPU_F64);

	status = status ? status
			: draft_step(
				  draft, "scale", "scaled",
				  json_pack("{s:f, s:f}", "gain", info->slope, "bias", info->inter),
				  value);
	value->scaled = false;
	if (!status) {
		cli_note("the header of '%s' scales what is stored, %.9g * value + %.9g",
			 shown(value), info->slope, info->inter);
	}
	return status;
}

static bool is_exact(enum sgpu_dtype from, enum sgpu_dtype to)
{
	static const uint8_t bits[SGPU_DTYPE_COUNT] = {
		[SGPU_F16] = 11, [SGPU_F32] = 24, [SGPU_F64] = 53, [SGPU_I8] = 7,
		[SGPU_U8] = 8,	 [SGPU_I16] = 15, [SGPU_U16] = 16, [SGPU_I32] = 31,
		[SGPU_U32] = 32, [SGPU_I64] = 63, [SGPU_U64] = 64,
	};
	const bool is_float = to == SGPU_F32 || to == SGPU_F64;

	return is_float && bits[from] <= bits[to];
}

/* Returns the type to cast a value to: i32 of small integers, with which nothing is rounded; else
 * the smaller float that holds all its values, f64 if another file has f64; SGPU_NONE if there is
 * none. */
static enum sgpu_dtype exact_type(const struct value *value, unsigned allowed, bool wide,
				  struct sgpu_error *error)
{
	static const enum sgpu_dtype floats[] = { SGPU_F32, SGPU_F64 };
	const enum sgpu_dtype from = value->type.dtype;
	bool fits = false;

	if ((from == SGPU_I8 || from == SGPU_U16) && !wide && (allowed & SGPU_TYPE_BIT(SGPU_I32))) {
		return SGPU_I32;
	}

	for (size_t i = wide && (allowed & SGPU_TYPE_BIT(SGPU_F64)); i < SGPU_ARRAY_LENGTH(floats);
	     i++) {
		if ((allowed & SGPU_TYPE_BIT(floats[i])) && is_exact(from, floats[i])) {
			return floats[i];
		}
	}
	if ((from == SGPU_I64 || from == SGPU_U64) && (allowed & SGPU_TYPE_BIT(SGPU_F64)) &&
	    value->file && draft_file_look(value->file, NULL, &fits, error) == SGPU_OK && fits) {
		return SGPU_F64;
	}
	return SGPU_NONE;
}

static int refuse_type(const struct value *value, const struct sgpu_op *op,
		       const struct sgpu_op_argument *argument)
{
	struct sgpu_error error = { 0 };
	char takes[OP_TEXT_MAX];

	op_dtypes_text(argument->dtypes, takes);
	sgpu_fail(&error, SGPU_EINVALID,
		  "'%s' has values of %s; '%s' of '%s' takes %s, and no cast to these keeps every "
		  "value",
		  shown(value), sgpu_dtype_name(value->type.dtype), argument->name, op->name,
		  takes);
	sgpu_hint(&error,
		  "--cast TYPE casts all the same: it rounds, and cuts off what TYPE cannot hold");
	return cli_error(&error);
}

int draft_convert(struct draft *draft, const struct sgpu_op *op,
		  const struct sgpu_op_argument *argument, bool wide, struct value *value)
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
	return target == SGPU_NONE ? refuse_type(value, op, argument) : cast(draft, value, target);
}

/* Whether an operation's result, in its input's order, is the same however axes are counted. */
static bool ignores_order(const struct draft_stage *stage)
{
	static const char among[] = " activation_gradient black_scholes cast copy gaussian3d "
				    "histogram map morphology3d "
				    "scale sgd threshold vector_add ";
	char name[DRAFT_NAME_MAX + 3];

	snprintf(name, sizeof(name), " %s ", stage->op->name);
	if (json_object_get(stage->params, "mode")) { /* the indexes of threshold count elements */
		return false;
	}
	return strstr(among, name) ||
	       (strcmp(stage->op->name, "reduce") == 0 && !json_object_get(stage->params, "axis"));
}

int draft_arrange(struct draft *draft, const struct draft_stage *stage, struct value *values,
		  int count)
{
	const struct value *first = NULL;
	bool keep = ignores_order(stage), reversed;
	int status = 0;

	for (int i = 0; i < count; i++) {
		if (values[i].type.rank > 1) {
			keep = keep && (!first || values[i].type.rank == first->type.rank);
			first = first ? first : &values[i];
		}
	}
	reversed = keep && first && first->reversed;
	for (int i = 0; i < count && !status; i++) {
		if (values[i].type.rank > 1 && values[i].reversed != reversed) {
			status = draft_reverse(draft, &values[i]);
		}
	}
	draft->reversed = reversed;
	return status;
}
