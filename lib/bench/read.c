/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads results from JSON Lines, which are not trusted: members of measurements that are used are
 * checked, others are ignored, and strings that could move a terminal's cursor, or reverse or hide
 * text, are refused.
 */
#include <string.h>

#include "base/json.h"
#include "base/base.h"
#include "bench/bench.h"

enum { RECORDS_MAX = 100000, VALUES_MAX = 1 << 17 /* of a line, with 100000 samples */ };

/* Whether a line can show the text as it is. */
static bool is_clean(const char *text)
{
	size_t left = strlen(text), one = 1;

	for (; left && one; text += one, left -= one) {
		one = sgpu_shown_length(text, left);
	}
	return !left;
}

/* The same for all texts in a value. The parser has limited the depth. */
static bool is_all_clean(json_t *value)
{
	const char *key;
	json_t *member;
	size_t i;

	json_object_foreach (value, key, member) {
		if (!is_clean(key) || !is_all_clean(member)) {
			return false;
		}
	}
	json_array_foreach (value, i, member) {
		if (!is_all_clean(member)) {
			return false;
		}
	}
	return !json_is_string(value) || is_clean(json_string_value(value));
}

/* words: the possible texts, or NULL. */
static int check_text(const json_t *object, const char *key, size_t size, const char *const *words,
		      struct sgpu_error *error)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);

	if (!value) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is missing", key);
	}
	if (!text || json_string_length(value) >= size) {
		return sgpu_fail(error, SGPU_EINVALID, "'%s' is not a string of at most %zu bytes",
				 key, size - 1);
	}
	while (words && *words && strcmp(text, *words) != 0) {
		words++;
	}
	return !words || *words ? SGPU_OK
				: sgpu_fail(error, SGPU_EINVALID, "'%s' has an unknown value", key);
}

static int check_parameters(json_t *parameters, struct sgpu_error *error)
{
	const char *key;
	json_t *value;
	int rc = SGPU_OK;

	if (!json_is_object(parameters)) {
		return sgpu_fail(error, SGPU_EINVALID, "'parameters' is missing or not an object");
	}
	if (json_object_size(parameters) > SGPU_BENCH_PARAMETERS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "more than %d parameters",
				 SGPU_BENCH_PARAMETERS_MAX);
	}
	json_object_foreach (parameters, key, value) {
		const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;

		if (strlen(key) >= SGPU_BENCH_NAME_MAX) {
			rc = sgpu_fail(error, SGPU_EINVALID, "a parameter's name is too long");
		} else if (!json_is_number(value)) {
			rc = check_text(parameters, key, SGPU_BENCH_NAME_MAX, NULL, error);
		} else if (number < 0 || (uint64_t)number >= SGPU_JSON_INTEGER_MAX) {
			rc = sgpu_fail(error, SGPU_EINVALID,
				       "'%s' is not an integer from 0 to 2^53 - 1", key);
		}
		if (rc != SGPU_OK) {
			return rc;
		}
	}
	return rc;
}

/* Of a measurement that passed. What is no number counts as 0, as what is missing does. */
static int check_figures(json_t *object, struct sgpu_error *error)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		const double number = json_number_value(value);

		/* Any machine's times in ns and ratios. */
		if (number != 0 && !(number >= 1e-9 && number <= 1e18)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "'%s' is not 0, nor a number from 1e-9 to 1e18", key);
		}
	}
	if (sgpu_bench_number(object, "n") <= 0 || sgpu_bench_number(object, "median_ns") <= 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "a measurement that passed has 'n' and 'median_ns' above 0");
	}
	if (!json_object_get(object, "ratio_to")) {
		return SGPU_OK;
	}
	return sgpu_bench_number(object, "ratio") > 0
		       ? check_text(object, "ratio_to", SGPU_BENCH_NAME_MAX, NULL, error)
		       : sgpu_fail(error, SGPU_EINVALID, "'ratio' is not above 0");
}

static int take_measurement(json_t *object, struct sgpu_bench_results *results,
			    struct sgpu_error *error)
{
	static const char *const units[] = { SGPU_BENCH_BYTES_PER_SECOND,
					     SGPU_BENCH_OPERATIONS_PER_SECOND, SGPU_BENCH_NS,
					     NULL };
	int rc = check_text(object, "case", SGPU_BENCH_NAME_MAX, NULL, error);

	rc = rc ? rc : check_text(object, "variant", SGPU_BENCH_NAME_MAX, NULL, error);
	rc = rc ? rc : check_text(object, "unit", SGPU_BENCH_NAME_MAX, units, error);
	rc = rc ? rc
		: check_text(object, "status", SGPU_BENCH_NAME_MAX, sgpu_bench_statuses, error);
	rc = rc ? rc : check_parameters(json_object_get(object, "parameters"), error);
	if (rc == SGPU_OK) {
		rc = sgpu_bench_passed(object)
			     ? check_figures(object, error)
			     : check_text(object, "reason", SGPU_ERROR_TEXT_MAX, NULL, error);
	}
	if (rc == SGPU_OK && json_array_size(results->records) == RECORDS_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID, "more than %d measurements", RECORDS_MAX);
	}
	return rc || json_array_append(results->records, object) == 0 ? rc : sgpu_fail_nomem(error);
}

static int take_line(const char *line, size_t size, struct sgpu_bench_results *results,
		     struct sgpu_error *error)
{
	struct sgpu_error inner;
	json_t *object = NULL;
	const char *kind;
	size_t position;
	int rc, row, column;

	rc = sgpu_json_parse_at(line, size, false, VALUES_MAX, &object, &position, &inner);
	if (rc != SGPU_OK) {
		sgpu_json_place(line, position, &row, &column);
		return sgpu_fail(error, rc, "column %d: %s", column, inner.text);
	}
	kind = sgpu_bench_text(object, "record");
	if (!is_all_clean(object)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "a string with control characters, or such as turn or hide text");
	} else if (strcmp(kind, "environment") == 0) {
		rc = results->environment || json_array_size(results->records)
			     ? sgpu_fail(error, SGPU_EINVALID,
					 "an environment that is not the first record")
			     : SGPU_OK;
		results->environment = rc ? results->environment : json_incref(object);
	} else if (strcmp(kind, "measurement") == 0) {
		rc = take_measurement(object, results, error);
	} else if (strcmp(kind, "end") != 0) { /* older results have an end */
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "no object whose \"record\" is \"environment\" or \"measurement\"");
	}
	json_decref(object);
	return rc;
}

int sgpu_bench_read(const char *text, size_t size, const char *name,
		    struct sgpu_bench_results *results, struct sgpu_error *error)
{
	const char *end = text + size;
	struct sgpu_error inner = { 0 };
	int rc = SGPU_OK, line = 0;

	*results = (struct sgpu_bench_results){ .records = json_array() };
	while (rc == SGPU_OK && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)),
			   *stop = newline ? newline : end;

		line++;
		if (stop > text) {
			rc = take_line(text, (size_t)(stop - text), results, &inner);
		}
		text = newline ? newline + 1 : end;
	}
	if (rc != SGPU_OK) {
		sgpu_fail(error, rc, "%s:%d: %s", name, line, inner.text);
	} else if (json_array_size(results->records) == 0) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: no measurements", name);
	}
	if (rc != SGPU_OK) {
		sgpu_bench_results_clear(results);
	}
	return rc;
}
