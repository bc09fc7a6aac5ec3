/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads results from JSON Lines, which are not trusted: members of measurements that are used are
 * checked, others are ignored, and strings that could move a terminal's cursor, or reverse or hide
 * text, are refused.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/base.h"
#include "bench/private.h"

enum { RECORDS_MAX = 100000, VALUES_MAX = 1 << 17 /* of a line, with 100000 samples */ };

struct reader {
	const char *name;
	int line;
	struct sgpu_error *error;
};

static int SGPU_PRINTF(2, 3) fault(const struct reader *r, const char *format, ...)
{
	char text[SGPU_ERROR_TEXT_MAX / 2];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return sgpu_fail(r->error, SGPU_EINVALID, "%s:%d: %s", r->name, r->line, text);
}

/* Whether a text can be shown in a line as it is. */
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

/* Stores a value in `at`; fails unless the member can have it. */
static int take_value(const struct reader *r, const struct sgpu_bench_member *m,
		      const json_t *value, void *at)
{
	const char *text = json_string_value(value);
	const json_int_t count = json_is_integer(value) ? json_integer_value(value) : -1;
	const double number = json_is_number(value) ? json_number_value(value) : -1;
	unsigned word = 0;

	if (!value) {
		return fault(r, "'%s' is missing", m->key);
	}
	switch (m->kind) {
	case SGPU_BENCH_IS_COUNT:
		*(uint64_t *)at = (uint64_t)count;
		return count >= 0 && (uint64_t)count < SGPU_JSON_INTEGER_MAX
			       ? SGPU_OK
			       : fault(r, "'%s' is not an integer from 0 to 2^53 - 1", m->key);
	case SGPU_BENCH_IS_NUMBER:
		*(double *)at = number;
		/* Covers times in ns and ratios on any machine. */
		return number == 0 || (number >= 1e-9 && number <= 1e18)
			       ? SGPU_OK
			       : fault(r, "'%s' is not 0, nor a number from 1e-9 to 1e18", m->key);
	case SGPU_BENCH_IS_WORD:
		while (text && m->words[word] && strcmp(text, m->words[word]) != 0) {
			word++;
		}
		*(unsigned *)at = word;
		return text && m->words[word] ? SGPU_OK
					      : fault(r, "'%s' has an unknown value", m->key);
	default:
		if (!text || json_string_length(value) >= m->size) {
			return fault(r, "'%s' is not a string of at most %zu bytes", m->key,
				     m->size - 1);
		}
		memcpy(at, text, json_string_length(value) + 1);
		return SGPU_OK;
	}
}

static int take_parameters(const struct reader *r, json_t *object, struct sgpu_bench_record *record)
{
	json_t *parameters = json_object_get(object, "parameters"), *value;
	const char *key;
	int rc = SGPU_OK;

	if (!json_is_object(parameters)) {
		return fault(r, "'parameters' is missing or not an object");
	}
	if (json_object_size(parameters) > SGPU_BENCH_PARAMETERS_MAX) {
		return fault(r, "more than %d parameters", SGPU_BENCH_PARAMETERS_MAX);
	}
	json_object_foreach (parameters, key, value) {
		struct sgpu_bench_record_parameter *p =
			&record->parameters[record->parameter_count++];
		const struct sgpu_bench_member text = { .key = key,
							.kind = SGPU_BENCH_IS_TEXT,
							.size = sizeof(p->text) };
		const struct sgpu_bench_member number = { .key = key, .kind = SGPU_BENCH_IS_COUNT };

		if (strlen(key) >= sizeof(p->key)) {
			return fault(r, "a parameter's name is too long");
		}
		memcpy(p->key, key, strlen(key) + 1);
		p->is_number = json_is_number(value);
		rc = p->is_number ? take_value(r, &number, value, &p->number)
				  : take_value(r, &text, value, p->text);
		if (rc != SGPU_OK) {
			return rc;
		}
	}
	return rc;
}

static int take_members(const struct reader *r, const json_t *object,
			const struct sgpu_bench_member *m, void *into)
{
	int rc = SGPU_OK;

	for (; rc == SGPU_OK && m->key; m++) {
		if (!m->with || json_object_get(object, m->with)) {
			rc = take_value(r, m, json_object_get(object, m->key),
					(char *)into + m->offset);
		}
	}
	return rc;
}

static int take_passed(const struct reader *r, json_t *object, struct sgpu_bench_record *record)
{
	int rc = take_members(r, object, sgpu_bench_members, record);

	if (rc == SGPU_OK && (record->ns.n == 0 || record->ns.median <= 0)) {
		rc = fault(r, "a measurement that passed has 'n' and 'median_ns' above 0");
	} else if (rc == SGPU_OK && record->ratio_to[0] && record->ratio.median <= 0) {
		rc = fault(r, "'ratio' is not above 0");
	}
	return rc;
}

static int take_measurement(const struct reader *r, json_t *object,
			    struct sgpu_bench_results *results)
{
	struct sgpu_bench_record record = { .parameter_count = 0 };
	int rc = take_members(r, object, sgpu_bench_heads, &record);

	rc = rc ? rc : take_parameters(r, object, &record);
	if (rc == SGPU_OK) {
		rc = record.status == SGPU_BENCH_PASSED
			     ? take_passed(r, object, &record)
			     : take_members(r, object, sgpu_bench_reason, &record);
	}
	if (rc == SGPU_OK && results->count == RECORDS_MAX) {
		rc = fault(r, "more than %d measurements", RECORDS_MAX);
	}
	return rc ? rc
		  : sgpu_bench_append((void **)&results->records, &results->count, &record,
				      sizeof(record), r->error);
}

static int take_line(const struct reader *r, const char *line, size_t size,
		     struct sgpu_bench_results *results)
{
	struct sgpu_error inner = { 0 };
	json_t *object = NULL;
	const char *kind;
	size_t position;
	int rc, row, column;

	rc = sgpu_json_parse_at(line, size, false, VALUES_MAX, &object, &position, &inner);
	if (rc != SGPU_OK) {
		sgpu_json_place(line, position, &row, &column);
		return fault(r, "column %d: %s", column, inner.text);
	}
	kind = json_string_value(json_object_get(object, "record"));
	if (!is_all_clean(object)) {
		rc = fault(r, "a string with control characters, or such as turn or hide text");
	} else if (kind && strcmp(kind, "environment") == 0) {
		rc = results->environment || results->count
			     ? fault(r, "an environment that is not the first record")
			     : SGPU_OK;
		results->environment = rc ? results->environment : json_incref(object);
	} else if (kind && strcmp(kind, "measurement") == 0) {
		rc = take_measurement(r, object, results);
	} else if (!kind || strcmp(kind, "end") != 0) { /* older results have an end */
		rc = fault(r, "no object whose \"record\" is \"environment\" or \"measurement\"");
	}
	json_decref(object);
	return rc;
}

int sgpu_bench_read(const char *text, size_t size, const char *name,
		    struct sgpu_bench_results *results, struct sgpu_error *error)
{
	struct reader r = { .name = name, .error = error };
	const char *end = text + size;
	int rc = SGPU_OK;

	memset(results, 0, sizeof(*results));
	while (rc == SGPU_OK && text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)),
			   *stop = newline ? newline : end;

		r.line++;
		if (stop > text) {
			rc = take_line(&r, text, (size_t)(stop - text), results);
		}
		text = newline ? newline + 1 : end;
	}
	if (rc == SGPU_OK && results->count == 0) {
		rc = sgpu_fail(error, SGPU_EINVALID, "%s: no measurements", name);
	}
	if (rc != SGPU_OK) {
		sgpu_bench_results_clear(results);
	}
	return rc;
}
