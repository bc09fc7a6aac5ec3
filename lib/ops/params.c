/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of an operation: JSON values to numbers, checked against the row.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops_private.h"

/* Functions here return false after they have reported a diagnostic. */
static bool check_number(struct sgpu_reader *reader, const struct sgpu_op_param *param,
			 const json_t *json, double *number)
{
	const bool integer = param->kind == SGPU_PARAM_INTEGER;
	const double value = *number = json_number_value(json);

	/* 3.0 is an integer, too: the canonical form writes it as 3. */
	if (!json_is_number(json) || (integer && value != floor(value))) {
		return sgpu_reader_refuse(reader, param->name, NULL, json, "is not %s",
					  integer ? "an integer" : "a number");
	}
	if (value >= param->min && value <= param->max) {
		return true;
	}
	return param->max > (double)FLT_MAX
		       ? sgpu_reader_refuse(reader, param->name, NULL, json, "is not at %s %.15g",
					    value < param->min ? "least" : "most",
					    value < param->min ? param->min : param->max)
		       : sgpu_reader_refuse(reader, param->name, NULL, json,
					    "is not from %.15g to %.15g", param->min, param->max);
}

static bool check_text(struct sgpu_reader *reader, const struct sgpu_op_param *param,
		       const json_t *json, const char **text)
{
	*text = sgpu_reader_string(reader, param->name, json);
	return *text && ((double)strlen(*text) <= param->max ||
			 sgpu_reader_report(reader, param->name, NULL,
					    "has %zu characters, at most %.0f are possible",
					    strlen(*text), param->max));
}

static bool check_value(struct sgpu_reader *reader, const struct sgpu_op_param *param,
			const json_t *json, struct sgpu_op_call *call, double *number)
{
	switch (param->kind) {
	case SGPU_PARAM_TEXT:
		return check_text(reader, param, json, &call->text);
	case SGPU_PARAM_CHOICE:
		*number = sgpu_reader_choice(reader, param->name, json, param->choices, -1);
		return *number >= 0;
	case SGPU_PARAM_BOOLEAN:
		*number = json_is_true(json);
		return json_is_boolean(json) ||
		       sgpu_reader_refuse(reader, param->name, NULL, json, "is not true or false");
	default:
		return check_number(reader, param, json, number);
	}
}

void sgpu_ops_check_params(struct sgpu_ops_checker *checker, struct sgpu_op_call *call)
{
	const struct sgpu_op_param *params = call->op->params;
	json_t *given = checker->operation->params, *json;
	struct sgpu_reader *reader = &checker->reader;
	const char *key;
	bool good = true;

	snprintf(reader->where, SGPU_WHERE_MAX, "/operations/%d%s", checker->index,
		 given ? "/params" : "");
	for (int i = 0; params[i].name; i++) {
		call->param[i].number = params[i].standard;
		json = json_object_get(given, params[i].name);
		if (json) {
			call->param[i].given = true;
			good &= check_value(reader, &params[i], json, call, &call->param[i].number);
		} else if (params[i].required) {
			good = sgpu_reader_report(reader, NULL, NULL,
						  "'%s' needs the parameter '%s'", call->op->name,
						  params[i].name);
		}
	}
	checker->failed |= !good;
	json_object_foreach (given, key, json) {
		if (sgpu_op_param(call->op, key) < 0) {
			sgpu_ops_unknown(checker, "params", key, "a parameter", &params[0].name,
					 sizeof(params[0]));
		}
	}
}
