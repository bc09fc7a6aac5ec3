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

static double relative(const struct sgpu_bench_statistics *s)
{
	return deviation_of_mad * s->mad / s->median;
}

/* Whether 95 % of the samples of `a` are below all of `b`. */
static bool is_below(const struct sgpu_bench_statistics *a, const struct sgpu_bench_statistics *b)
{
	return a->p95 < b->min;
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
	d->noise = fmax(least_noise, deviations * hypot(relative(&a), relative(&b)));
	if (fabs(log1p(d->change)) <= d->noise) { /* a factor and its inverse count alike */
		d->verdict = SGPU_BENCH_SAME;
	} else if (is_below(&a, &b)) {
		d->verdict = SGPU_BENCH_SLOWER;
	} else {
		d->verdict = is_below(&b, &a) ? SGPU_BENCH_FASTER : SGPU_BENCH_AMBIGUOUS;
	}
}

/* Returns the key's position in d[]; a new key gets `next`. */
static size_t place(json_t *index, const char *key, size_t next)
{
	const json_t *at = json_object_get(index, key);

	if (!at) {
		json_object_set_new_nocheck(index, key, json_integer((json_int_t)next));
	}
	return at ? (size_t)json_integer_value(at) : next;
}

static int pair_all(const struct sgpu_bench_results *first, const struct sgpu_bench_results *second,
		    json_t *index, struct sgpu_bench_difference *d, size_t *count,
		    struct sgpu_error *error)
{
	const size_t middle = json_array_size(first->records),
		     end = middle + json_array_size(second->records);

	for (size_t i = 0; i < end; i++) {
		const bool is_first = i < middle;
		const json_t *record = is_first ? json_array_get(first->records, i)
						: json_array_get(second->records, i - middle);
		const json_t **side;
		char key[SGPU_BENCH_KEY_MAX];
		size_t at;

		sgpu_bench_key(record, key);
		at = place(index, key, *count);
		side = is_first ? &d[at].first : &d[at].second;
		if (*side) {
			return sgpu_fail(error, SGPU_EINVALID, "'%s' is measured twice in one run",
					 key);
		}
		*side = record;
		*count += at == *count;
	}
	return json_object_size(index) == *count ? SGPU_OK : sgpu_fail_nomem(error);
}

int sgpu_bench_compare(const struct sgpu_bench_results *first,
		       const struct sgpu_bench_results *second, bool ratios,
		       struct sgpu_bench_difference **differences, size_t *count,
		       struct sgpu_error *error)
{
	const size_t most = json_array_size(first->records) + json_array_size(second->records);
	struct sgpu_bench_difference *d = calloc(most + 1, sizeof(*d));
	json_t *index = json_object();
	size_t all = 0;
	int rc = d ? pair_all(first, second, index, d, &all, error) : sgpu_fail_nomem(error);

	json_decref(index);
	*count = 0;
	for (size_t i = 0; rc == SGPU_OK && i < all; i++) {
		const json_t *record = d[i].first ? d[i].first : d[i].second;

		/* `ratios` leaves out measurements that passed without a ratio. */
		if (!ratios || sgpu_bench_text(record, "ratio_to")[0] ||
		    !sgpu_bench_passed(record)) {
			judge(&d[i], ratios);
			d[(*count)++] = d[i];
		}
	}
	if (rc != SGPU_OK) {
		free(d);
		d = NULL;
	}
	*differences = d;
	return rc;
}
