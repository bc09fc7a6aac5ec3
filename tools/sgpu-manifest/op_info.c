/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the table of operations as text and as JSON.
 */
#include "base/json.h"
#include "manifest_tool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bounds beyond this are there only because a row must have some. */
static const double unbounded = 1e30;

const char *op_param_kind(enum sgpu_param_kind kind)
{
	switch (kind) {
	case SGPU_PARAM_NUMBER:
		return "number";
	case SGPU_PARAM_INTEGER:
		return "integer";
	case SGPU_PARAM_BOOLEAN:
		return "boolean";
	case SGPU_PARAM_CHOICE:
		return "choice";
	}
	return "unknown";
}

void op_dtypes_text(unsigned dtypes, char text[OP_TEXT_MAX])
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
		if (dtypes & SGPU_TYPE_BIT(i)) {
			used += (size_t)snprintf(text + used, OP_TEXT_MAX - used, "%s%s",
						 used ? " " : "",
						 sgpu_dtype_name((enum sgpu_dtype)i));
		}
	}
}

void op_ranks_text(const struct sgpu_op_argument *argument, char text[OP_TEXT_MAX])
{
	snprintf(text, OP_TEXT_MAX, argument->min_rank == argument->max_rank ? "%d" : "%d to %d",
		 argument->min_rank, argument->max_rank);
}

void op_range_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX])
{
	bool low = param->min > -unbounded, high = param->max < unbounded;
	size_t used = 0;

	text[0] = '\0';
	if (param->kind == SGPU_PARAM_BOOLEAN) {
		snprintf(text, OP_TEXT_MAX, "true or false");
	} else if (param->kind == SGPU_PARAM_CHOICE) {
		for (int i = 0; param->choices[i] && used < OP_TEXT_MAX; i++) {
			used += (size_t)snprintf(text + used, OP_TEXT_MAX - used, "%s%s",
						 i ? ", " : "", param->choices[i]);
		}
	} else if (low && high) {
		snprintf(text, OP_TEXT_MAX, "%.10g to %.10g", param->min, param->max);
	} else if (low) {
		snprintf(text, OP_TEXT_MAX, "at least %.10g", param->min);
	} else if (high) {
		snprintf(text, OP_TEXT_MAX, "at most %.10g", param->max);
	}
}

void op_default_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX])
{
	if (param->required) {
		snprintf(text, OP_TEXT_MAX, "required");
	} else if (param->kind == SGPU_PARAM_BOOLEAN) {
		snprintf(text, OP_TEXT_MAX, "%s", param->standard != 0 ? "true" : "false");
	} else if (param->kind == SGPU_PARAM_CHOICE) {
		snprintf(text, OP_TEXT_MAX, "%s", param->choices[(int)param->standard]);
	} else if (fabs(param->standard) >= unbounded) {
		snprintf(text, OP_TEXT_MAX, "none");
	} else {
		snprintf(text, OP_TEXT_MAX, "%.10g", param->standard);
	}
}

json_t *op_number_json(double number)
{
	if (!isfinite(number) || fabs(number) >= unbounded) {
		return NULL;
	}
	if (number == floor(number) && fabs(number) < (double)SGPU_JSON_INTEGER_MAX) {
		return json_integer((json_int_t)number);
	}
	return json_real(number);
}

json_t *op_default_json(const struct sgpu_op_param *param)
{
	if (param->required) {
		return NULL;
	}
	if (param->kind == SGPU_PARAM_BOOLEAN) {
		return json_boolean(param->standard != 0);
	}
	if (param->kind == SGPU_PARAM_CHOICE) {
		return json_string(param->choices[(int)param->standard]);
	}
	return op_number_json(param->standard);
}
