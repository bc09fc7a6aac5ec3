/* SPDX-License-Identifier: Apache-2.0
 *
 * The health tests of SP 800-90B and their verdict.
 */
#include <math.h>
#include <string.h>

#include "crypto/internal.h"

enum {
	ALPHA_BITS = 30,
	COUNTS = 5, /* counts reported for each source; none has more bits than the number of
		       samples */
};
/* The margin of a proportion at 99 % confidence, in standard deviations. */
static const double bound = 2.576;

unsigned sgpu_entropy_repetition_cutoff(double bits)
{
	return 1 + (unsigned)ceil(ALPHA_BITS / bits);
}

/* Returns 1 + the smallest k that the window's binomial count exceeds with probability at most
 * 2^-30. */
unsigned sgpu_entropy_proportion_cutoff(double bits)
{
	const double p = exp2(-bits), n = SGPU_ENTROPY_WINDOW;
	double tail = 0;
	int k;

	for (k = SGPU_ENTROPY_WINDOW; k > 0; k--) {
		double log_chance = lgamma(n + 1) - lgamma(k + 1.0) - lgamma(n - k + 1) +
				    k * log(p) + (n - k) * log1p(-p);

		tail += exp(log_chance);
		if (tail > exp2(-ALPHA_BITS)) {
			break;
		}
	}
	return 1 + (unsigned)k;
}

static double bits_of(double hits, double tries)
{
	double p = hits / tries;

	p += bound * sqrt(p * (1 - p) / (tries - 1));
	return p >= 1 ? 0 : -log2(p);
}

double sgpu_entropy_estimate(const struct sgpu_entropy_counts *counts)
{
	double common, lag;

	if (counts->samples <= SGPU_ENTROPY_LAGS + 1 || counts->most_common > counts->samples ||
	    counts->most_common == 0 || counts->most_at_lag > counts->samples - SGPU_ENTROPY_LAGS) {
		return 0;
	}
	common = bits_of(counts->most_common, counts->samples);
	lag = counts->most_at_lag
		      ? bits_of(counts->most_at_lag, counts->samples - SGPU_ENTROPY_LAGS)
		      : common;
	return common < lag ? common : lag;
}

/* Returns NULL, or the test that fails, with its value and its limit. */
static const char *fault_of(const struct sgpu_entropy_counts *counts, double bits, double wanted,
			    double *is, double *limit)
{
	*is = counts->longest_run;
	*limit = sgpu_entropy_repetition_cutoff(bits);
	if (*is >= *limit) {
		return "repetition count";
	}
	*is = counts->most_in_window;
	*limit = sgpu_entropy_proportion_cutoff(bits);
	if (*is >= *limit) {
		return "adaptive proportion";
	}
	*is = sgpu_entropy_estimate(counts);
	*limit = wanted;
	if (*is < wanted || counts->samples < SGPU_ENTROPY_START) {
		return "estimate of min-entropy";
	}
	return NULL;
}

int sgpu_entropy_judge(const struct sgpu_entropy_counts *counts, unsigned sources, double bits,
		       double margin, double needed, struct sgpu_entropy_verdict *verdict,
		       struct sgpu_error *error)
{
	const char *first = NULL;
	double is = 0, limit = 0, first_is = 0, first_limit = 0, estimate, told;

	memset(verdict, 0, sizeof(*verdict));
	verdict->sources = sources;
	for (unsigned i = 0; i < sources; i++) {
		const char *fault = fault_of(&counts[i], bits, bits * margin, &is, &limit);

		if (fault) {
			if (!first) {
				first = fault;
				first_is = is;
				first_limit = limit;
			}
			continue;
		}
		estimate = sgpu_entropy_estimate(&counts[i]);
		verdict->least = verdict->sound == 0 || estimate < verdict->least ? estimate
										  : verdict->least;
		verdict->sound++;
		told = COUNTS * (log2(counts[i].samples) + 1);
		verdict->credited +=
			counts[i].samples * bits > told ? counts[i].samples * bits - told : 0;
	}
	if (sources > 0 && 2 * verdict->sound >= sources && verdict->credited >= needed) {
		return 0;
	}
	if (!first) {
		return sgpu_fail(error, SGPU_EDEVICE,
				 "%u sources give %.0f bits of entropy, %.0f are needed", sources,
				 verdict->credited, needed);
	}
	return sgpu_fail(error, SGPU_EDEVICE,
			 "entropy failed the health tests: %u of %u sources passed; first failure: "
			 "%s, %.2f against %.2f",
			 verdict->sound, sources, first, first_is, first_limit);
}
