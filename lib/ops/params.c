/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of an operation: JSON values to numbers, checked against the row.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops_private.h"

enum { CHOICES_TEXT_MAX = 256 };

static const char *json_kind(const json_t *value)
{
	static const char *const kinds[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number", [JSON_REAL] = "a number",	[JSON_TRUE] = "a boolean",
		[JSON_FALSE] = "a boolean",  [JSON_NULL] = "null",
	};

	return kinds[json_typeof(value)];
}

static void choices_text(const char *const *choices, char text[CHOICES_TEXT_MAX])
{
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; choices[i] && used < CHOICES_TEXT_MAX; i++) {
		used += (size_t)snprintf(text + used, CHOICES_TEXT_MAX - used, "%s%s",
					 i ? ", " : "", choices[i]);
	}
}

static void check_choice(struct sgpu_ops_checker *checker, const struct sgpu_op_param *param,
			 const json_t *json, double *number)
{
	char hint[SGPU_ERROR_HINT_MAX], text[CHOICES_TEXT_MAX];
	const char *word = json_string_value(json);

	choices_text(param->choices, text);
	if (!word) {
		sgpu_ops_report(checker, "params", param->name, NULL,
				"is %s, must be one of the strings %s", json_kind(json), text);
		return;
	}
	for (int i = 0; param->choices[i]; i++) {
		if (strcmp(param->choices[i], word) == 0) {
			*number = i;
			return;
		}
	}
	sgpu_ops_report(checker, "params", param->name, sgpu_ops_near(word, param->choices, hint),
			"'%s' is not one of %s", word, text);
}

static void check_number(struct sgpu_ops_checker *checker, const struct sgpu_op_param *param,
			 const json_t *json, double *number)
{
	bool integer = param->kind == SGPU_PARAM_INTEGER;
	double value = json_number_value(json);

	*number = value;
	if (!json_is_number(json)) {
		sgpu_ops_report(checker, "params", param->name, NULL, "is %s, must be %s",
				json_kind(json), integer ? "an integer" : "a number");
	} else if (integer && value != floor(value)) {
		/* 3.0 is an integer, too: the canonical form writes it as 3. */
		sgpu_ops_report(checker, "params", param->name, NULL,
				"is %.15g, must be an integer", value);
	} else if (value >= param->min && value <= param->max) {
		return;
	} else if (param->max > (double)FLT_MAX) {
		sgpu_ops_report(checker, "params", param->name, NULL,
				"is %.15g, must be at %s %.15g", value,
				value < param->min ? "least" : "most",
				value < param->min ? param->min : param->max);
	} else {
		sgpu_ops_report(checker, "params", param->name, NULL,
				"is %.15g, must be from %.15g to %.15g", value, param->min,
				param->max);
	}
}

static void check_text(struct sgpu_ops_checker *checker, const struct sgpu_op_param *param,
		       const json_t *json, const char **text)
{
	*text = json_string_value(json);
	if (!*text) {
		sgpu_ops_report(checker, "params", param->name, NULL, "is %s, must be a string",
				json_kind(json));
	} else if ((double)json_string_length(json) > param->max) {
		sgpu_ops_report(checker, "params", param->name, NULL,
				"has %zu characters, at most %.0f are possible",
				json_string_length(json), param->max);
	}
}

static void check_value(struct sgpu_ops_checker *checker, const struct sgpu_op_param *param,
			const json_t *json, struct sgpu_op_call *call, double *number)
{
	if (param->kind == SGPU_PARAM_TEXT) {
		check_text(checker, param, json, &call->text);
	} else if (param->kind == SGPU_PARAM_CHOICE) {
		check_choice(checker, param, json, number);
	} else if (param->kind != SGPU_PARAM_BOOLEAN) {
		check_number(checker, param, json, number);
	} else if (json_is_boolean(json)) {
		*number = json_is_true(json) ? 1 : 0;
	} else {
		sgpu_ops_report(checker, "params", param->name, NULL,
				"is %s, must be true or false", json_kind(json));
	}
}

void sgpu_ops_check_params(struct sgpu_ops_checker *checker, struct sgpu_op_call *call)
{
	const struct sgpu_op_param *params = call->op->params;
	json_t *given = checker->operation->params, *json;
	const char *key;

	for (int i = 0; params[i].name; i++) {
		call->param[i].number = params[i].standard;
		json = json_object_get(given, params[i].name);
		if (json) {
			call->param[i].given = true;
			check_value(checker, &params[i], json, call, &call->param[i].number);
		} else if (params[i].required) {
			sgpu_ops_report(checker, given ? "params" : NULL, NULL, NULL,
					"'%s' needs the parameter '%s'", call->op->name,
					params[i].name);
		}
	}
	json_object_foreach (given, key, json) {
		if (sgpu_op_param(call->op, key) < 0) {
			sgpu_ops_unknown(checker, "params", key, "a parameter", &params[0].name,
					 sizeof(params[0]));
		}
	}
}
