/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure inspect, between its two files: a quote in plain words.
 */
#ifndef SGPU_MEASURE_INSPECTING_H
#define SGPU_MEASURE_INSPECTING_H

#include "parts.h"

/* On standard output; nothing of it reaches a terminal as it stands. */
void inspecting_print(const json_t *claims, const uint8_t *ak, const struct sgpu_record *records,
		      int count);

#endif
