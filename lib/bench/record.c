/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as JSON, what identifies them, and lists of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/private.h"

double sgpu_bench_value(const struct sgpu_bench_record *record)
{
	double operations = record->operations ? (double)record->operations : 1;

	if (record->status != SGPU_BENCH_PASSED || record->ns.median <= 0) {
		return 0;
	}
	switch (record->unit) {
	case SGPU_BENCH_BYTES_PER_SECOND:
		return (double)record->bytes / record->ns.median * 1e9;
	case SGPU_BENCH_OPERATIONS_PER_SECOND:
		return operations / record->ns.median * 1e9;
	default:
		return record->ns.median / operations;
	}
}

/* Rounded to `digits` behind the point, and an integer where nothing is left behind it. */
static json_t *number(double value, int digits)
{
	double scale = pow(10, digits), rounded = round(value * scale) / scale;

	return rounded == floor(rounded) && fabs(rounded) < 9e15 ? json_integer((json_int_t)rounded) :
	       json_real(rounded);
}

static void set_times(json_t *object, const struct sgpu_bench_record *record)
{
	const struct sgpu_bench_statistics *s = &record->ns;

	json_object_set_new(object, "n", json_integer((json_int_t)s->n));
	json_object_set_new(object, "min_ns", number(s->min, 1));
	json_object_set_new(object, "median_ns", number(s->median, 1));
	json_object_set_new(object, "p95_ns", number(s->p95, 1));
	json_object_set_new(object, "mad_ns", number(s->mad, 1));
	json_object_set_new(object, "spread", number(s->spread, 4));
	json_object_set_new(object, "cpu_median_ns", number(record->cpu_ns, 1));
	if (record->latency.p50_ns > 0) {
		json_object_set_new(object, "operation_p50_ns", number(record->latency.p50_ns, 1));
		json_object_set_new(object, "operation_p99_ns", number(record->latency.p99_ns, 1));
	}
}

static void set_rates(json_t *object, const struct sgpu_bench_record *record)
{
	double operations = record->operations ? (double)record->operations : 1;

	if (record->bytes > 0) {
		json_object_set_new(object, "bytes", json_integer((json_int_t)record->bytes));
		json_object_set_new(object, "bytes_per_second",
				    number((double)record->bytes / record->ns.median * 1e9, 0));
	}
	json_object_set_new(object, "operations", json_integer((json_int_t)operations));
	json_object_set_new(object, "operations_per_second", number(operations / record->ns.median * 1e9, 3));
	json_object_set_new(object, "ns_per_operation", number(record->ns.median / operations, 1));
}

static void set_ratio(json_t *object, const struct sgpu_bench_record *record)
{
	if (record->ratio_to[0]) {
		json_object_set_new(object, "ratio_to", json_string(record->ratio_to));
		json_object_set_new(object, "ratio", number(record->ratio.median, 5));
		json_object_set_new(object, "ratio_min", number(record->ratio.min, 5));
		json_object_set_new(object, "ratio_p95", number(record->ratio.p95, 5));
		json_object_set_new(object, "ratio_mad", number(record->ratio.mad, 5));
	}
	if (record->reference_ratio > 0) {
		json_object_set_new(object, "reference_ratio", number(record->reference_ratio, 5));
		json_object_set_new(object, "reference", json_string(record->reference));
	}
}

json_t *sgpu_bench_record_json(const struct sgpu_bench_record *record)
{
	json_t *parameters = json_object(), *object;

	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];

		json_object_set_new(parameters, p->key,
				    p->is_number ? json_integer((json_int_t)p->number) : json_string(p->text));
	}
	object = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "record", "measurement", "case", record->name, "variant",
			   record->variant, "parameters", parameters, "unit", sgpu_bench_unit_name(record->unit),
			   "status", sgpu_bench_status_name(record->status));
	if (object && record->status == SGPU_BENCH_PASSED) {
		set_times(object, record);
		set_rates(object, record);
		set_ratio(object, record);
	} else if (object) {
		/* A message may quote anything: what is not UTF-8 has no place in JSON. */
		json_t *reason = json_string(record->reason);

		json_object_set_new(object, "reason", reason ? reason : json_string("not to be told in UTF-8"));
	}
	return object;
}

void sgpu_bench_key(const struct sgpu_bench_record *record, char key[SGPU_BENCH_KEY_MAX])
{
	bool taken[SGPU_BENCH_PARAMETERS_MAX] = { false };
	int length = snprintf(key, SGPU_BENCH_KEY_MAX, "%s%s%s", record->name, record->variant[0] ? " " : "",
			      record->variant);

	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p;
		int next = -1;

		for (int k = 0; k < record->parameter_count; k++) {
			const char *key_k = record->parameters[k].key;

			if (!taken[k] && (next < 0 || strcmp(key_k, record->parameters[next].key) < 0)) {
				next = k;
			}
		}
		taken[next] = true;
		p = &record->parameters[next];
		length += p->is_number ?
			snprintf(key + length, (size_t)(SGPU_BENCH_KEY_MAX - length), " %s=%llu", p->key,
				 (unsigned long long)p->number) :
			snprintf(key + length, (size_t)(SGPU_BENCH_KEY_MAX - length), " %s=%s", p->key, p->text);
	}
}

int sgpu_bench_results_add(struct sgpu_bench_results *results, const struct sgpu_bench_record *record,
			   struct sgpu_error *error)
{
	if (results->count == results->capacity) {
		size_t capacity = results->capacity ? 2 * results->capacity : 32;
		void *grown = realloc(results->records, capacity * sizeof(*results->records));

		if (!grown) {
			return sgpu_fail_nomem(error);
		}
		results->records = grown;
		results->capacity = capacity;
	}
	results->records[results->count++] = *record;
	return SGPU_OK;
}

void sgpu_bench_results_clear(struct sgpu_bench_results *results)
{
	json_decref(results->environment);
	free(results->records);
	memset(results, 0, sizeof(*results));
}
