/* SPDX-License-Identifier: Apache-2.0
 *
 * Health tests of a noise source (NIST SP 800-90B), on raw samples of a byte: repetition count (4.4.1), adaptive
 * proportion (4.4.2), both with a chance of 2^-30 to fail a source that is as good as claimed; and a cautious
 * estimate of its min-entropy, the lower of the most common value's (6.3.1) and that of guessing that a sample is the
 * one `lag` samples before (after 6.3.8), which finds what repeats itself.
 *
 * A device counts on its own samples, which never leave it, and gives the counts; what they mean is judged here.
 */
#ifndef SGPU_ENTROPY_H
#define SGPU_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_ENTROPY_WINDOW = 512,  /* samples of the adaptive proportion test */
	SGPU_ENTROPY_LAGS = 128,
	SGPU_ENTROPY_START = 1024,  /* samples that a source is judged by at start-up, at least */
};

struct sgpu_entropy_counts {
	uint32_t samples;
	uint32_t longest_run;       /* of the same value */
	uint32_t most_in_window;    /* how often the first value of a window is in it, full or not */
	uint32_t most_common;       /* how often the most common value is there */
	/* How many samples from SGPU_ENTROPY_LAGS on are the one `lag` before, for the lag up to there that has most: as many
	 * tries for each. */
	uint32_t most_at_lag;
};

struct sgpu_entropy_verdict {
	unsigned sources, sound;    /* all; those that passed */
	double least;               /* the lowest estimate among those */
	double credited;            /* bits in all: what is claimed of those, less what their counts may tell */
};
/* A source passes when its tests do for `bits` and its estimate is `margin` times as much. SGPU_EDEVICE, with the
 * first failure, when fewer than half of the sources pass or the credit is below `needed` bits. */
SGPU_MUST_CHECK int sgpu_entropy_judge(const struct sgpu_entropy_counts *counts, unsigned sources, double bits,
				       double margin, double needed, struct sgpu_entropy_verdict *verdict,
				       struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
