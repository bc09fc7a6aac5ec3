/* SPDX-License-Identifier: Apache-2.0
 *
 * Median, percentiles and spread of samples. No mean, since one interrupt would move it.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/bench.h"

/* The probability that the true median lies below its interval, and above. */
static const double tail = 0.025;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const double *sorted, uint64_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Returns the most samples that can be cut from each end so that the others enclose the true median
 * with probability 95 %. Whatever the distribution, a sample is below that with probability 1/2, so
 * the number below is binomial. */
static uint64_t outside_of_interval(uint64_t n)
{
	double log_share = -(double)n * log(2), below = 0;
	uint64_t k = 0;

	while (k < n / 2 && below + exp(log_share) <= tail) {
		below += exp(log_share);
		log_share += log((double)(n - k) / (double)(k + 1));
		k++;
	}
	return k > 0 ? k - 1 : 0;
}

struct sgpu_bench_statistics sgpu_bench_summarise(double *samples, uint64_t n)
{
	struct sgpu_bench_statistics s = { .n = n };

	qsort(samples, n, sizeof(*samples), by_value);
	s.min = samples[0];
	s.median = middle(samples, n);
	s.p90 = samples[(n * 90 + 99) / 100 - 1];
	s.p95 = samples[(n * 95 + 99) / 100 - 1];
	s.p99 = samples[(n * 99 + 99) / 100 - 1];
	s.low = samples[outside_of_interval(n)];
	s.high = samples[n - 1 - outside_of_interval(n)];
	if (s.median > 0) {
		s.spread = (s.p95 - s.min) / s.median;
	}
	for (uint64_t i = 0; i < n; i++) {
		samples[i] = fabs(samples[i] - s.median);
	}
	qsort(samples, n, sizeof(*samples), by_value);
	s.mad = middle(samples, n);
	return s;
}
