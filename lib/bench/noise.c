/* SPDX-License-Identifier: Apache-2.0
 *
 * How much runs of one build differ. The samples of one run do not tell, since data have other
 * addresses in the next.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/private.h"

/* Two-sided 99 % quantiles of Student's t by the number of runs; the last also for more. Two
 * further runs differ by more than the quantile times the deviation of their difference in 1 of 100
 * measurements if times are normally distributed, in at most 1 of 20 with heavy tails. */
static const double quantiles[] = { 0, 0, 63.66, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25 };

static double noise_floor(const double *values, size_t n)
{
	double pairs[SGPU_BENCH_RUNS_MAX * (SGPU_BENCH_RUNS_MAX - 1) / 2], variance = 0;
	struct sgpu_bench_statistics of_pairs;
	size_t count = 0,
	       row = n < SGPU_ARRAY_LENGTH(quantiles) ? n : SGPU_ARRAY_LENGTH(quantiles) - 1;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < i; k++) {
			pairs[count] = fabs(log(values[i] / values[k]));
			/* the sum over all pairs is the sample variance */
			variance += pairs[count] * pairs[count] / (double)(n * (n - 1));
			count++;
		}
	}
	/* The 95th percentile covers outliers: one among fewer than 40 runs is in more than 5 % of
	 * the pairs. */
	sgpu_bench_summarise(pairs, count, &of_pairs);
	return fmax(of_pairs.p95, quantiles[row] * sqrt(2 * variance));
}

/* Adds the noise of a measurement. pairs[i][at]: the measurement in the first run and in run i. */
static int add_noise(const struct sgpu_bench_difference *const *pairs, size_t at, size_t count,
		     struct sgpu_bench_results *noise, struct sgpu_error *error)
{
	const struct sgpu_bench_record *record = pairs[0][at].first;
	struct sgpu_bench_noise found = { .ratio_floor = -1, .runs = count };
	double times[SGPU_BENCH_RUNS_MAX], ratios[SGPU_BENCH_RUNS_MAX];

	for (size_t i = 0; i < count; i++) {
		if (pairs[i][at].verdict > SGPU_BENCH_AMBIGUOUS) { /* not passed in both runs */
			return SGPU_OK;
		}
		times[i] = pairs[i][at].second->ns.median;
		ratios[i] =
			pairs[i][at].second->ratio_to[0] ? pairs[i][at].second->ratio.median : 1;
	}
	sgpu_bench_key(record, found.key);
	found.floor = noise_floor(times, count);
	if (record->ratio_to[0]) {
		found.ratio_floor = noise_floor(ratios, count);
	}
	return sgpu_bench_append((void **)&noise->noise, &noise->noise_count, &found, sizeof(found),
				 error);
}

int sgpu_bench_measure_noise(const struct sgpu_bench_results *runs, size_t count,
			     struct sgpu_bench_results *noise, struct sgpu_error *error)
{
	struct sgpu_bench_difference *pairs[SGPU_BENCH_RUNS_MAX] = { NULL };
	size_t ignored;
	int rc = SGPU_OK;

	if (count < 2 || count > SGPU_BENCH_RUNS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "noise shows in 2 to %d runs",
				 SGPU_BENCH_RUNS_MAX);
	}
	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_bench_compare(&runs[0], &runs[i], NULL, false, &pairs[i], &ignored,
					error);
	}
	for (size_t i = 0; rc == SGPU_OK && i < runs[0].count; i++) {
		rc = add_noise((const struct sgpu_bench_difference *const *)pairs, i, count, noise,
			       error);
	}
	for (size_t i = 0; i < SGPU_BENCH_RUNS_MAX; i++) {
		free(pairs[i]);
	}
	return rc;
}
