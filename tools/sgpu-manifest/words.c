/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of init, which are those of `sgpu run`: an operation, NAME=VALUE and files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draft.h"
#include "manifest/manifest.h"

static struct draft_stage *last(struct draft_request *request)
{
	return request->count ? &request->stages[request->count - 1] : NULL;
}

static int add_stage(struct draft_request *request, const struct sgpu_op *op)
{
	struct draft_stage *stage = &request->stages[request->count];

	if (!op) {
		return 2;
	}
	if (request->count == DRAFT_STAGES_MAX) {
		return cli_usage("at most %d operations follow one another", DRAFT_STAGES_MAX);
	}
	*stage = (struct draft_stage){ .op = op, .params = json_object() };
	request->count++;
	return stage->params ? 0 : cli_fail_nomem();
}

static bool is_map(const struct draft_stage *stage)
{
	return strcmp(stage->op->name, "map") == 0;
}

static int store(struct draft_words *words, const char *name, size_t length, const char *value,
		 bool named)
{
	struct draft_word *word = &words->list[words->count];

	if (length > DRAFT_NAME_MAX) {
		return cli_usage("the name '%.20s...' is too long", name);
	}
	if (words->count == SGPU_ARGUMENTS_MAX) {
		return cli_usage("'%s' is one file too many", SGPU_EXCERPT(value));
	}
	for (int i = 0; i < words->count; i++) {
		if (strlen(words->list[i].name) == length &&
		    strncmp(words->list[i].name, name, length) == 0) {
			return cli_usage(named ? "'%s' is given twice"
					       : "'%s' is one file too many",
					 named ? words->list[i].name : SGPU_EXCERPT(value));
		}
	}
	memcpy(word->name, name, length);
	word->name[length] = '\0';
	word->value = value;
	words->count++;
	return 0;
}

/* Returns a number, true, false, or else a string. */
static json_t *param_value(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
	char *end = NULL;
	double number;

	if (value && (json_is_number(value) || json_is_boolean(value))) {
		return value;
	}
	json_decref(value);
	number = strtod(text, &end); /* ".5" and "+1" are no JSON */
	return *text && !*end && isfinite(number) && !strpbrk(text, "xX") ? json_real(number)
									  : json_string(text);
}

static int take_named(struct draft_stage *stage, const char *word, size_t length)
{
	const char *value = word + length + 1;
	struct sgpu_error error = { 0 };
	char name[DRAFT_NAME_MAX + 1];
	int argument;

	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	if (!*value) {
		return cli_usage("'%s' gives nothing for '%s'", SGPU_EXCERPT(word), name);
	}
	if (is_map(stage)) {
		return sgpu_identifier(name) ? store(&stage->inputs, word, length, value, true)
					     : cli_usage("'%s' is no name of an expression", name);
	}
	argument = length <= DRAFT_NAME_MAX ? sgpu_op_arg(stage->op, name) : -1;
	if (argument >= 0 && sgpu_op_is_output(&stage->op->args[argument])) {
		return cli_usage("'%s' is an output: -o %s", name, SGPU_EXCERPT(word));
	}
	if (argument >= 0) {
		return store(&stage->inputs, word, length, value, true);
	}
	if (length > DRAFT_NAME_MAX || sgpu_op_param(stage->op, name) < 0) {
		sgpu_fail(&error, SGPU_EUSAGE, "'%s' is no argument or parameter of '%s'", name,
			  stage->op->name);
		(void)sgpu_hint(&error,
				"'sgpu-manifest ops %s' shows them; a file of that name is './%s'",
				stage->op->name, SGPU_EXCERPT(word));
		return cli_error(&error);
	}
	if (json_object_get(stage->params, name)) {
		return cli_usage("'%s' is given twice", name);
	}
	return json_object_set_new(stage->params, name, param_value(value))
		       ? cli_usage("'%s' is not UTF-8", SGPU_EXCERPT(word))
		       : 0;
}

static int take_file(struct draft_stage *stage, const char *word)
{
	char names[OP_TEXT_MAX];

	if (!is_map(stage) && sgpu_op_arg(stage->op, "input") < 0) {
		return cli_usage("'%s' has no argument 'input': name each file, NAME=%s, of %s",
				 stage->op->name, SGPU_EXCERPT(word),
				 op_arguments(stage->op, false, names));
	}
	const char *name = is_map(stage) ? "x" : "input";

	return store(&stage->inputs, name, strlen(name), word, false);
}

int draft_take_word(void *values, const char *word)
{
	struct draft_request *request = values;
	struct draft_stage *stage = last(request);
	const size_t length = strcspn(word, "=/");

	if (!stage) {
		return add_stage(request, op_find(word));
	}
	if (is_map(stage) && !stage->expression) {
		stage->expression = word;
		return 0;
	}
	return word[length] == '=' ? take_named(stage, word, length) : take_file(stage, word);
}

int draft_take_map(void *values, const char *expression)
{
	struct draft_request *request = values;

	if (request->count) {
		return cli_usage(
			"--map stands in the place of the first operation; later: --then map "
			"EXPRESSION");
	}
	const int status = add_stage(request, op_find("map"));
	if (!status) {
		last(request)->expression = expression;
	}
	return status;
}

int draft_take_then(void *values, const char *operation)
{
	struct draft_request *request = values;

	if (!request->count) {
		return cli_usage("--then: no operation before '%s'", SGPU_EXCERPT(operation));
	}
	return add_stage(request, op_find(operation));
}

int draft_take_low(void *values, const char *name)
{
	struct draft_request *request = values;
	struct draft_stage *stage = last(request);

	if (!stage) {
		return cli_usage("--low %s comes after the operation whose argument it is",
				 SGPU_EXCERPT(name));
	}
	return cli_list_add(&stage->low, name) ? 0 : cli_fail_nomem();
}

int draft_take_output(void *values, const char *word)
{
	struct draft_request *request = values;
	const size_t length = strcspn(word, "=/");

	if (!*word || (word[length] == '=' && !word[length + 1])) {
		return cli_usage("-o '%s' names no file", word);
	}
	if (word[length] != '=') {
		return store(&request->outputs, "", 0, word, false);
	}
	return store(&request->outputs, word, length, word + length + 1, true);
}

int draft_take_cast(void *values, const char *dtype)
{
	struct draft_request *request = values;

	request->cast = sgpu_dtype_parse(dtype);
	return request->cast == SGPU_NONE
		       ? cli_usage("--cast: '%s' is no element type", SGPU_EXCERPT(dtype))
		       : 0;
}

int draft_check_words(const struct draft_request *request)
{
	if (!request->count) {
		return cli_usage("an operation is missing: 'sgpu-manifest ops' lists them");
	}
	for (int i = 0; i < request->count; i++) {
		if (is_map(&request->stages[i]) && !request->stages[i].expression) {
			return cli_usage("map: an expression is missing");
		}
	}
	return 0;
}

void draft_clear(struct draft_request *request)
{
	for (int i = 0; i < request->count; i++) {
		json_decref(request->stages[i].params);
		free(request->stages[i].low.items);
	}
}
