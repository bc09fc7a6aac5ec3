/* SPDX-License-Identifier: Apache-2.0
 *
 * The counts of samples that a device reports, as SP 800-90B has them: what its kernel must give.
 */
#include <string.h>

#include "entropy_count.h"

enum { VALUES = 256 };

static void count_runs(const uint8_t *samples, size_t size, struct sgpu_entropy_counts *counts)
{
	uint32_t run = 0, same = 0;
	uint8_t first = 0;

	for (size_t i = 0; i < size; i++) {
		run = i > 0 && samples[i] == samples[i - 1] ? run + 1 : 1;
		counts->longest_run = run > counts->longest_run ? run : counts->longest_run;
		if (i % SGPU_ENTROPY_WINDOW == 0) {
			first = samples[i];
			same = 0;
		}
		same += samples[i] == first;
		counts->most_in_window =
			same > counts->most_in_window ? same : counts->most_in_window;
	}
}

void entropy_count(const uint8_t *samples, size_t size, struct sgpu_entropy_counts *counts)
{
	uint32_t times[VALUES] = { 0 };

	memset(counts, 0, sizeof(*counts));
	counts->samples = (uint32_t)size;
	count_runs(samples, size, counts);
	for (size_t i = 0; i < size; i++) {
		times[samples[i]]++;
	}
	for (int i = 0; i < VALUES; i++) {
		counts->most_common =
			times[i] > counts->most_common ? times[i] : counts->most_common;
	}
	for (size_t lag = 1; lag <= SGPU_ENTROPY_LAGS; lag++) {
		uint32_t same = 0;

		for (size_t i = SGPU_ENTROPY_LAGS; i < size; i++) {
			same += samples[i] == samples[i - lag];
		}
		counts->most_at_lag = same > counts->most_at_lag ? same : counts->most_at_lag;
	}
}
