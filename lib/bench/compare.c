/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two runs, whose measurements are paired by their keys.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

/* Up to `deviations` standard deviations of the samples, a difference of two runs is noise: runs
 * vary more than samples, and only several runs can tell how much. deviation_of_mad: standard
 * deviation / MAD of a normal distribution. */
static const double deviations = 2, deviation_of_mad = 1.4826;
/* Each process has other addresses, which alone changes times by about this fraction. */
static const double least_noise = 0.02;

const char *const sgpu_bench_verdicts[] = {
	"same",	       "faster", "slower", "ambiguous", "only in the first", "only in the second",
	"not measured"
};

static struct sgpu_bench_statistics statistics_of(const json_t *record, bool ratios)
{
	return (struct sgpu_bench_statistics){
		.min = sgpu_bench_number(record, ratios ? "ratio_min" : "min_ns"),
		.median = sgpu_bench_number(record, ratios ? "ratio" : "median_ns"),
		.p95 = sgpu_bench_number(record, ratios ? "ratio_p95" : "p95_ns"),
		.mad = sgpu_bench_number(record, ratios ? "ratio_mad" : "mad_ns"),
	};
}

static void judge(struct sgpu_bench_difference *d, bool ratios)
{
	const struct sgpu_bench_statistics a = statistics_of(d->first, ratios),
					   b = statistics_of(d->second, ratios);
	const char *const to = sgpu_bench_text(d->first, "ratio_to");

	if (!d->first || !d->second) {
		d->verdict = d->first ? SGPU_BENCH_ONLY_FIRST : SGPU_BENCH_ONLY_SECOND;
		return;
	}
	if (!sgpu_bench_passed(d->first) || !sgpu_bench_passed(d->second) ||
	    (ratios && (!to[0] || strcmp(to, sgpu_bench_text(d->second, "ratio_to")) != 0))) {
		d->verdict = SGPU_BENCH_NOT_MEASURED;
		return;
	}
	d->change = b.median / a.median - 1;
	d->noise = fmax(least_noise,
			deviations * deviation_of_mad * hypot(a.mad / a.median, b.mad / b.median));
	/* A factor and its inverse count alike. A run is below another if 95 % of its samples are
	 * below all of the other's. */
	d->verdict = fabs(log1p(d->change)) <= d->noise ? SGPU_BENCH_SAME
		     : a.p95 < b.min			? SGPU_BENCH_SLOWER
		     : b.p95 < a.min			? SGPU_BENCH_FASTER
							: SGPU_BENCH_AMBIGUOUS;
}

/* Adds a pair, of which one may be NULL. `ratios` leaves out what passed without a ratio. */
static void pair(const json_t *first, const json_t *second, bool ratios,
		 struct sgpu_bench_difference *d, size_t *count)
{
	const json_t *record = first ? first : second;

	if (!ratios || sgpu_bench_text(record, "ratio_to")[0] || !sgpu_bench_passed(record)) {
		d[*count] = (struct sgpu_bench_difference){ .first = first, .second = second };
		judge(&d[(*count)++], ratios);
	}
}

static int index_by_key(const struct sgpu_bench_results *run, json_t *index,
			struct sgpu_error *error)
{
	char key[SGPU_BENCH_KEY_MAX];
	json_t *record;
	size_t i;

	json_array_foreach (run->records, i, record) {
		sgpu_bench_key(record, key);
		if (json_object_get(index, key)) {
			return sgpu_fail(error, SGPU_EINVALID, "'%s' is measured twice in one run",
					 key);
		}
		json_object_set_nocheck(index, key, record);
	}
	return json_object_size(index) == i ? SGPU_OK : sgpu_fail_nomem(error);
}

int sgpu_bench_compare(const struct sgpu_bench_results *first,
		       const struct sgpu_bench_results *second, bool ratios,
		       struct sgpu_bench_difference **differences, size_t *count,
		       struct sgpu_error *error)
{
	const size_t most = json_array_size(first->records) + json_array_size(second->records);
	struct sgpu_bench_difference *d = calloc(most + 1, sizeof(*d));
	json_t *a = json_object(), *b = json_object(), *record;
	const char *key;
	int rc = d ? index_by_key(first, a, error) : sgpu_fail_nomem(error);

	rc = rc ? rc : index_by_key(second, b, error);
	*count = 0;
	*differences = d;
	if (rc != SGPU_OK) {
		free(d);
		*differences = NULL;
		json_object_clear(a);
		json_object_clear(b);
	}
	json_object_foreach (a, key, record) {
		pair(record, json_object_get(b, key), ratios, d, count);
	}
	json_object_foreach (b, key, record) {
		if (!json_object_get(a, key)) {
			pair(NULL, record, ratios, d, count);
		}
	}
	json_decref(a);
	json_decref(b);
	return rc;
}
