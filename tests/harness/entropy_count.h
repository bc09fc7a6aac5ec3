/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts samples as a device does.
 */
#ifndef HARNESS_ENTROPY_COUNT_H
#define HARNESS_ENTROPY_COUNT_H
#include "crypto/entropy.h"

void entropy_count(const uint8_t *samples, size_t size, struct sgpu_entropy_counts *counts);

#endif
