/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing faults and tables.
 */
#ifndef SGPU_MANIFEST_REPORT_H
#define SGPU_MANIFEST_REPORT_H

#include <stdio.h>

#include "document.h"

/* One line a fault on standard error, hints below it; with --json one record a line to `records`. */
void report_faults(const struct document *document, FILE *records);

#endif
