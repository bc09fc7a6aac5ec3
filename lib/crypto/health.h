/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests of which sgpu_entropy_judge consists.
 */
#ifndef SGPU_CRYPTO_HEALTH_H
#define SGPU_CRYPTO_HEALTH_H

#include <sgpu/entropy.h>

/* Counts samples as a device does. */
void sgpu_entropy_count(const uint8_t *samples, size_t size, struct sgpu_entropy_counts *counts);

/* A count that reaches its cutoff fails. bits: the claimed min-entropy of a sample, more than 0 and
 * at most 8. */
unsigned sgpu_entropy_repetition_cutoff(double bits);
unsigned sgpu_entropy_proportion_cutoff(double bits);
/* Estimates the min-entropy of a sample in bits; the bound is at 99 %. */
double sgpu_entropy_estimate(const struct sgpu_entropy_counts *counts);

#endif
