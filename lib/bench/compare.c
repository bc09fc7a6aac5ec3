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

struct entry {
	char *key;
	const struct sgpu_bench_record *record;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static void free_index(struct entry *index, size_t count)
{
	for (size_t i = 0; index && i < count; i++) {
		free(index[i].key);
	}
	free(index);
}

static int make_index(const struct sgpu_bench_results *results, struct entry **index, struct sgpu_error *error)
{
	char key[SGPU_BENCH_KEY_MAX];

	*index = calloc(results->count ? results->count : 1, sizeof(**index));
	for (size_t i = 0; *index && i < results->count; i++) {
		sgpu_bench_key(&results->records[i], key);
		(*index)[i].key = strdup(key);
		(*index)[i].record = &results->records[i];
		if (!(*index)[i].key) {
			free_index(*index, results->count);
			*index = NULL;
		}
	}
	if (!*index) {
		return sgpu_fail_nomem(error);
	}
	qsort(*index, results->count, sizeof(**index), by_key);
	for (size_t i = 1; i < results->count; i++) {
		if (strcmp((*index)[i - 1].key, (*index)[i].key) == 0) {
			return sgpu_fail(error, SGPU_EINVALID, "'%s' is measured twice in one run", (*index)[i].key);
		}
	}
	return SGPU_OK;
}

static const struct sgpu_bench_record *find(const struct entry *index, size_t count,
					    const struct sgpu_bench_record *record)
{
	char key[SGPU_BENCH_KEY_MAX];
	const struct entry wanted = { key, NULL }, *found;

	sgpu_bench_key(record, key);
	found = bsearch(&wanted, index, count, sizeof(*index), by_key);
	return found ? found->record : NULL;
}

static double relative(const struct sgpu_bench_statistics *s)
{
	return deviation_of_mad * s->mad / s->median;
}

static void judge(struct sgpu_bench_difference *d, bool ratios)
{
	bool have_ratios = d->first->ratio_to[0] && strcmp(d->first->ratio_to, d->second->ratio_to) == 0;
	const struct sgpu_bench_statistics *a = ratios ? &d->first->ratio : &d->first->ns;
	const struct sgpu_bench_statistics *b = ratios ? &d->second->ratio : &d->second->ns;

	if (d->first->status != SGPU_BENCH_PASSED || d->second->status != SGPU_BENCH_PASSED ||
	    (ratios && !have_ratios)) {
		d->verdict = SGPU_BENCH_NOT_MEASURED;
		return;
	}
	d->change = b->median / a->median - 1;
	d->noise = deviations * hypot(relative(a), relative(b));
	d->verdict = fabs(d->change) <= d->noise ? SGPU_BENCH_WITHIN_NOISE : d->change > 0 ? SGPU_BENCH_SLOWER :
		     SGPU_BENCH_FASTER;
}

/* With `ratios` those without one are passed over, unless they did not pass. */
static bool is_compared(const struct sgpu_bench_record *record, bool ratios)
{
	return !ratios || record->status != SGPU_BENCH_PASSED || record->ratio_to[0];
}

static size_t pair_all(const struct sgpu_bench_results *first, const struct sgpu_bench_results *second,
		       struct entry *const indexes[2], bool ratios, struct sgpu_bench_difference *d)
{
	size_t n = 0;

	for (size_t i = 0; i < first->count; i++) {
		if (is_compared(&first->records[i], ratios)) {
			d[n].first = &first->records[i];
			d[n].second = find(indexes[1], second->count, d[n].first);
			d[n].verdict = SGPU_BENCH_ONLY_FIRST;
			if (d[n].second) {
				judge(&d[n], ratios);
			}
			n++;
		}
	}
	for (size_t i = 0; i < second->count; i++) {
		if (is_compared(&second->records[i], ratios) && !find(indexes[0], first->count, &second->records[i])) {
			d[n].second = &second->records[i];
			d[n++].verdict = SGPU_BENCH_ONLY_SECOND;
		}
	}
	return n;
}

int sgpu_bench_compare(const struct sgpu_bench_results *first, const struct sgpu_bench_results *second, bool ratios,
		       struct sgpu_bench_difference **differences, size_t *count, struct sgpu_error *error)
{
	struct entry *indexes[2] = { NULL, NULL };
	int rc = make_index(first, &indexes[0], error);

	*differences = NULL;
	*count = 0;
	if (rc == SGPU_OK) {
		rc = make_index(second, &indexes[1], error);
	}
	if (rc == SGPU_OK) {
		*differences = calloc(first->count + second->count + 1, sizeof(**differences));
		rc = *differences ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK) {
		*count = pair_all(first, second, indexes, ratios, *differences);
	}
	free_index(indexes[0], first->count);
	free_index(indexes[1], second->count);
	return rc;
}
