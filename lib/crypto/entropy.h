/* SPDX-License-Identifier: Apache-2.0
 *
 * Health tests of a noise source (NIST SP 800-90B) on raw samples of a byte: repetition count
 * (4.4.1) and adaptive proportion (4.4.2), which fail a source as good as claimed with a
 * probability of 2^-30; and a conservative estimate of its min-entropy: the lower of that of the
 * most common value (6.3.1) and that of a predictor that repeats the sample `lag` positions earlier
 * (like 6.3.8), which detects repetitions.
 *
 * A device counts properties of its samples, which never leave it, and reports the counts, which
 * are judged here. */
#ifndef SGPU_CRYPTO_ENTROPY_H
#define SGPU_CRYPTO_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

enum {
	SGPU_ENTROPY_WINDOW = 512, /* samples of the adaptive proportion test */
	SGPU_ENTROPY_LAGS = 128,
	SGPU_ENTROPY_START =
		1024, /* least number of samples by which a source is judged at start-up */
};

struct sgpu_entropy_counts {
	uint32_t samples;
	uint32_t longest_run;	 /* samples of the same value in a row */
	uint32_t most_in_window; /* most occurrences of a window's first value in that window */
	uint32_t most_common;	 /* occurrences of the most common value */
	/* Samples that equal the one `lag` positions earlier, for the best lag up to
	 * SGPU_ENTROPY_LAGS, from sample SGPU_ENTROPY_LAGS on, so all lags have as many tries. */
	uint32_t most_at_lag;
};

struct sgpu_entropy_verdict {
	unsigned sources, sound; /* all sources; those that passed */
	double least;		 /* the lowest estimate of the sources that passed */
	double credited; /* bits in all: the claim of the sources that passed, less what their
			    counts reveal */
};
/* A source passes if its tests pass for `bits`, the claimed min-entropy of a sample, and its
 * estimate is at least `margin` times `bits`. Errors: SGPU_EDEVICE, with the first failure, if
 * fewer than half of the sources pass or the credit is below `needed` bits. */
SGPU_MUST_CHECK int sgpu_entropy_judge(const struct sgpu_entropy_counts *counts, unsigned sources,
				       double bits, double margin, double needed,
				       struct sgpu_entropy_verdict *verdict,
				       struct sgpu_error *error);

#endif
