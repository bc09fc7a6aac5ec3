/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side: measurements are paired by what identifies them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/private.h"

/* Standard deviations by which two medians may differ, and what makes one of a median distance for samples that are
 * distributed normally. Single samples, not medians: two runs differ by more than the samples of one. */
static const double deviations = 2, deviation_of_mad = 1.4826;
/* Two processes do not have their code and data in the same places, which alone changes times by about so much. */
static const double least_noise = 0.02;

int sgpu_bench_index(const struct sgpu_bench_results *results, bool noise, json_t **index, struct sgpu_error *error)
{
	const size_t count = noise ? results->noise_count : results->count;
	int rc = SGPU_OK;

	*index = json_object();
	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		const void *item = noise ? (const void *)&results->noise[i] : &results->records[i];
		char key[SGPU_BENCH_KEY_MAX];

		if (noise) {
			memcpy(key, results->noise[i].key, sizeof(key));
		} else {
			sgpu_bench_key(item, key);
		}
		if (json_object_get(*index, key)) {
			rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is measured twice in one run", key);
		} else if (json_object_set_new_nocheck(*index, key, json_integer((json_int_t)(intptr_t)item)) != 0) {
			rc = sgpu_fail_nomem(error);
		}
	}
	return rc;
}

const void *sgpu_bench_find(const json_t *index, const struct sgpu_bench_record *record)
{
	char key[SGPU_BENCH_KEY_MAX];

	sgpu_bench_key(record, key);
	return (const void *)(intptr_t)json_integer_value(json_object_get(index, key));
}

const char *sgpu_bench_verdict_name(enum sgpu_bench_verdict verdict)
{
	static const char *const names[] = { "same", "faster", "slower", "ambiguous", "only in the first",
					     "only in the second", "not measured" };

	return names[verdict];
}

static double relative(const struct sgpu_bench_statistics *s)
{
	return deviation_of_mad * s->mad / s->median;
}

/* Whether all that `a` may be is below all that `b` may be: the intervals of their medians, or, if no runs beside each other have
 * shown the noise, nearly all of their samples, since a run does not know how the next one will differ. */
static bool is_below(const struct sgpu_bench_statistics *a, const struct sgpu_bench_statistics *b, bool noise_measured)
{
	/* An earlier version has recorded no interval; that is the one of samples that are distributed normally. */
	double half_a = 1.96 * 1.2533 * deviation_of_mad * a->mad / sqrt((double)a->n);
	double half_b = 1.96 * 1.2533 * deviation_of_mad * b->mad / sqrt((double)b->n);

	if (!noise_measured) {
		return a->p95 < b->min;
	}
	return (a->high > 0 ? a->high : a->median + half_a) < (b->high > 0 ? b->low : b->median - half_b);
}

static void judge(struct sgpu_bench_difference *d, const json_t *noise, bool ratios)
{
	const struct sgpu_bench_noise *measured = sgpu_bench_find(noise, d->first);
	bool have_ratios = d->first->ratio_to[0] && strcmp(d->first->ratio_to, d->second->ratio_to) == 0;
	const struct sgpu_bench_statistics *a = ratios ? &d->first->ratio : &d->first->ns;
	const struct sgpu_bench_statistics *b = ratios ? &d->second->ratio : &d->second->ns;

	if (d->first->status != SGPU_BENCH_PASSED || d->second->status != SGPU_BENCH_PASSED ||
	    (ratios && !have_ratios)) {
		d->verdict = SGPU_BENCH_NOT_MEASURED;
		return;
	}
	d->change = b->median / a->median - 1;
	d->noise_measured = measured && (!ratios || measured->ratio_floor >= 0);
	d->noise = !d->noise_measured ? fmax(least_noise, deviations * hypot(relative(a), relative(b))) :
		   ratios ? measured->ratio_floor : measured->floor;
	if (fabs(log1p(d->change)) <= d->noise) { /* as much up as down */
		d->verdict = SGPU_BENCH_SAME;
	} else if (is_below(a, b, d->noise_measured)) {
		d->verdict = SGPU_BENCH_SLOWER;
	} else {
		d->verdict = is_below(b, a, d->noise_measured) ? SGPU_BENCH_FASTER : SGPU_BENCH_AMBIGUOUS;
	}
}

/* With `ratios` those without one are passed over, unless they did not pass. */
static bool is_compared(const struct sgpu_bench_record *record, bool ratios)
{
	return !ratios || record->status != SGPU_BENCH_PASSED || record->ratio_to[0];
}

static size_t pair_all(const struct sgpu_bench_results *first, const struct sgpu_bench_results *second,
		       json_t *const indexes[3], bool ratios, struct sgpu_bench_difference *d)
{
	size_t n = 0;

	for (size_t i = 0; i < first->count; i++) {
		if (is_compared(&first->records[i], ratios)) {
			d[n].first = &first->records[i];
			d[n].second = sgpu_bench_find(indexes[1], d[n].first);
			d[n].verdict = SGPU_BENCH_ONLY_FIRST;
			if (d[n].second) {
				judge(&d[n], indexes[2], ratios);
			}
			n++;
		}
	}
	for (size_t i = 0; i < second->count; i++) {
		if (is_compared(&second->records[i], ratios) && !sgpu_bench_find(indexes[0], &second->records[i])) {
			d[n].second = &second->records[i];
			d[n++].verdict = SGPU_BENCH_ONLY_SECOND;
		}
	}
	return n;
}

int sgpu_bench_compare(const struct sgpu_bench_results *first, const struct sgpu_bench_results *second,
		       const struct sgpu_bench_results *noise, bool ratios, struct sgpu_bench_difference **differences,
		       size_t *count, struct sgpu_error *error)
{
	json_t *indexes[3] = { NULL };
	int rc = sgpu_bench_index(first, false, &indexes[0], error);

	*differences = NULL;
	*count = 0;
	rc = rc ? rc : sgpu_bench_index(second, false, &indexes[1], error);
	rc = rc || !noise ? rc : sgpu_bench_index(noise, true, &indexes[2], error);
	if (rc == SGPU_OK) {
		*differences = calloc(first->count + second->count + 1, sizeof(**differences));
		rc = *differences ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK) {
		*count = pair_all(first, second, indexes, ratios, *differences);
	}
	for (int i = 0; i < 3; i++) {
		json_decref(indexes[i]);
	}
	return rc;
}

const char *sgpu_bench_environments_differ(const json_t *a, const json_t *b)
{
	static const char *const members[] = {
		"processor", "processors", "memory_bytes", "kernel", "device", "device_driver", "sgpu_version", "commit",
		"tree", "compiler", "compiler_flags",
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(members); i++) {
		const json_t *x = json_object_get(a, members[i]), *y = json_object_get(b, members[i]);

		if (x != y && !json_equal(x, y)) {
			return members[i];
		}
	}
	return NULL;
}
