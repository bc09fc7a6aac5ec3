/* SPDX-License-Identifier: Apache-2.0
 *
 * Printing diagnostics and tables.
 */
#ifndef SGPU_MANIFEST_REPORT_H
#define SGPU_MANIFEST_REPORT_H

#include <stdio.h>

#include "document.h"

/* One line a diagnostic on standard error, hints below it; with --json one record a line to
 * `records`. */
void report_diagnostics(const struct document *document, FILE *records);

#endif
