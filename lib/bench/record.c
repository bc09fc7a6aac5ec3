/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of records, and keys made of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

const char *sgpu_bench_text(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

double sgpu_bench_number(const json_t *record, const char *key)
{
	return json_number_value(json_object_get(record, key));
}

bool sgpu_bench_passed(const json_t *record)
{
	return strcmp(sgpu_bench_text(record, "status"), "passed") == 0;
}

double sgpu_bench_value(const json_t *record)
{
	const char *unit = sgpu_bench_text(record, "unit");
	const double ns = sgpu_bench_number(record, "median_ns"),
		     operations = fmax(1, sgpu_bench_number(record, "operations"));

	if (!sgpu_bench_passed(record)) {
		return 0;
	}
	return strcmp(unit, SGPU_BENCH_BYTES_PER_SECOND) == 0
		       ? sgpu_bench_number(record, "bytes") / ns * 1e9
	       : strcmp(unit, SGPU_BENCH_OPERATIONS_PER_SECOND) == 0 ? operations / ns * 1e9
								     : ns / operations;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void sgpu_bench_key(const json_t *record, char key[SGPU_BENCH_KEY_MAX])
{
	json_t *parameters = json_object_get(record, "parameters"), *value;
	const char *names[SGPU_BENCH_PARAMETERS_MAX], *name,
		*variant = sgpu_bench_text(record, "variant");
	size_t count = 0, length;

	length = (size_t)snprintf(key, SGPU_BENCH_KEY_MAX, "%s%s%s",
				  sgpu_bench_text(record, "case"), variant[0] ? " " : "", variant);
	json_object_foreach (parameters, name, value) {
		names[count++] = name;
	}
	qsort(names, count, sizeof(names[0]), by_text);
	for (size_t i = 0; i < count; i++) {
		char number[24];

		value = json_object_get(parameters, names[i]);
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(value));
		length += (size_t)snprintf(
			key + length, SGPU_BENCH_KEY_MAX - length, " %s=%s", names[i],
			json_is_string(value) ? json_string_value(value) : number);
	}
}

void sgpu_bench_results_clear(struct sgpu_bench_results *results)
{
	json_decref(results->environment);
	json_decref(results->records);
	free(results->text);
	memset(results, 0, sizeof(*results));
}
