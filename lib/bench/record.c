/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as JSON, their keys, and lists of them.
 */
#include <inttypes.h>
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

/* Returns a number rounded to `digits` decimal places; an integer if no fraction is left. */
static json_t *number(double value, int digits)
{
	double scale = pow(10, digits), rounded = round(value * scale) / scale;

	return rounded == floor(rounded) && fabs(rounded) < 9e15 ? json_integer((json_int_t)rounded)
								 : json_real(rounded);
}

#define AT(its_kind, member)                                                                    \
	.kind = SGPU_BENCH_IS_##its_kind, .offset = offsetof(struct sgpu_bench_record, member), \
	.size = sizeof(((struct sgpu_bench_record *)0)->member)

const struct sgpu_bench_member sgpu_bench_reason[] = { { "reason", AT(TEXT, reason) },
						       { .key = NULL } };

const struct sgpu_bench_member sgpu_bench_heads[] = {
	{ "case", AT(TEXT, name) },
	{ "variant", AT(TEXT, variant) },
	{ "unit", AT(WORD, unit), .words = sgpu_bench_units },
	{ "status", AT(WORD, status), .words = sgpu_bench_statuses },
	{ .key = NULL },
};

const struct sgpu_bench_member sgpu_bench_members[] = {
	{ "n", AT(COUNT, ns.n), 0, NULL },
	{ "min_ns", AT(NUMBER, ns.min), 1, NULL },
	{ "median_ns", AT(NUMBER, ns.median), 1, NULL },
	{ "p90_ns", AT(NUMBER, ns.p90), 1, "p90_ns" },
	{ "p95_ns", AT(NUMBER, ns.p95), 1, NULL },
	{ "p99_ns", AT(NUMBER, ns.p99), 1, "p99_ns" },
	{ "median_low_ns", AT(NUMBER, ns.low), 1, "median_low_ns" },
	{ "median_high_ns", AT(NUMBER, ns.high), 1, "median_low_ns" },
	{ "mad_ns", AT(NUMBER, ns.mad), 1, NULL },
	{ "spread", AT(NUMBER, ns.spread), 4, NULL },
	{ "cpu_median_ns", AT(NUMBER, cpu_ns), 1, NULL },
	{ "goal_ns", AT(NUMBER, goal_ns), 1, "goal_ns" },
	{ "bytes", AT(COUNT, bytes), 0, "bytes" },
	{ "operations", AT(COUNT, operations), 0, NULL },
	{ "ratio_to", AT(TEXT, ratio_to), 0, "ratio_to" },
	{ "ratio", AT(NUMBER, ratio.median), 5, "ratio_to" },
	{ "ratio_min", AT(NUMBER, ratio.min), 5, "ratio_to" },
	{ "ratio_p95", AT(NUMBER, ratio.p95), 5, "ratio_to" },
	{ "ratio_mad", AT(NUMBER, ratio.mad), 5, "ratio_to" },
	{ "ratio_low", AT(NUMBER, ratio.low), 5, "ratio_low" },
	{ "ratio_high", AT(NUMBER, ratio.high), 5, "ratio_low" },
	{ "stopped", AT(WORD, stopped), 0, "stopped", sgpu_bench_stops },
	{ .key = NULL },
};

/* Returns the member as JSON, or NULL if it is an empty text or not above 0. */
static json_t *member_json(const void *at, const struct sgpu_bench_member *m)
{
	json_t *text;

	switch (m->kind) {
	case SGPU_BENCH_IS_COUNT:
		return *(const uint64_t *)at ? json_integer((json_int_t) * (const uint64_t *)at)
					     : NULL;
	case SGPU_BENCH_IS_NUMBER:
		return *(const double *)at > 0 ? number(*(const double *)at, m->digits) : NULL;
	case SGPU_BENCH_IS_WORD:
		at = m->words[*(const unsigned *)at];
		break;
	default:
		break;
	}
	/* A message may quote bytes that are not UTF-8, which JSON cannot hold. */
	text = *(const char *)at ? json_string(at) : NULL;
	return text || !*(const char *)at ? text : json_string("not to be told in UTF-8");
}

static void set_members(json_t *object, const void *from, const struct sgpu_bench_member *m)
{
	for (; m->key; m++) {
		json_t *value = member_json((const char *)from + m->offset, m);

		if (!m->with || json_object_get(object, m->with) ||
		    (value && strcmp(m->with, m->key) == 0)) {
			json_object_set_new(object, m->key,
					    value			    ? value
					    : m->kind == SGPU_BENCH_IS_TEXT ? json_string("")
									    : json_integer(0));
		} else {
			json_decref(value);
		}
	}
}

json_t *sgpu_bench_record_json(const struct sgpu_bench_record *record)
{
	const double operations = record->operations ? (double)record->operations : 1;
	json_t *object = json_pack("{s:s}", "record", "measurement"), *parameters = json_object(),
	       *samples;

	set_members(object, record, sgpu_bench_heads);
	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p = &record->parameters[i];

		json_object_set_new(parameters, p->key,
				    p->is_number ? json_integer((json_int_t)p->number)
						 : json_string(p->text));
	}
	json_object_set_new(object, "parameters", parameters);
	if (record->status != SGPU_BENCH_PASSED) {
		set_members(object, record, sgpu_bench_reason);
		return object;
	}
	set_members(object, record, sgpu_bench_members);
	if (record->bytes > 0) {
		json_object_set_new(object, "bytes_per_second",
				    number((double)record->bytes / record->ns.median * 1e9, 0));
	}
	json_object_set_new(object, "operations_per_second",
			    number(operations / record->ns.median * 1e9, 3));
	json_object_set_new(object, "ns_per_operation", number(record->ns.median / operations, 1));
	if (record->samples_ns) {
		samples = json_array();
		for (uint64_t i = 0; i < record->ns.n; i++) {
			json_array_append_new(samples, number(record->samples_ns[i], 1));
		}
		json_object_set_new(object, "samples_ns", samples);
	}
	return object;
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct sgpu_bench_record_parameter *)a)->key,
		      ((const struct sgpu_bench_record_parameter *)b)->key);
}

void sgpu_bench_key(const struct sgpu_bench_record *record, char key[SGPU_BENCH_KEY_MAX])
{
	struct sgpu_bench_record sorted = *record;
	size_t length;

	length = (size_t)snprintf(key, SGPU_BENCH_KEY_MAX, "%s%s%s", record->name,
				  record->variant[0] ? " " : "", record->variant);
	qsort(sorted.parameters, (size_t)record->parameter_count, sizeof(sorted.parameters[0]),
	      by_key);
	for (int i = 0; i < record->parameter_count; i++) {
		const struct sgpu_bench_record_parameter *p = &sorted.parameters[i];
		char number[24];

		snprintf(number, sizeof(number), "%" PRIu64, p->number);
		length += (size_t)snprintf(key + length, SGPU_BENCH_KEY_MAX - length, " %s=%s",
					   p->key, p->is_number ? number : p->text);
	}
}

/* The capacity is not stored: an array is full when its count is 0 or a power of two. */
int sgpu_bench_append(void **array, size_t *count, const void *item, size_t size,
		      struct sgpu_error *error)
{
	void *grown =
		*count & (*count - 1) ? *array : realloc(*array, (*count ? 2 * *count : 1) * size);

	if (!grown) {
		return sgpu_fail_nomem(error);
	}
	*array = grown;
	memcpy((uint8_t *)grown + (*count)++ * size, item, size);
	return SGPU_OK;
}

void sgpu_bench_results_clear(struct sgpu_bench_results *results)
{
	json_decref(results->environment);
	free(results->records);
	free(results->text);
	memset(results, 0, sizeof(*results));
}
