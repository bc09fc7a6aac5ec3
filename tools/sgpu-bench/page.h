/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a report: tools/sgpu-bench/report/, as bytes of the program.
 */
#ifndef BENCH_PAGE_H
#define BENCH_PAGE_H

#include <stdio.h>

#include <sgpu/error.h>

/* Write what stands before the data, which are one JSON value, and what stands after them. The page loads nothing, and
 * runs only its own script: its policy names the digests of script and style. Errors: SGPU_ECRYPTO. */
SGPU_MUST_CHECK int page_begin(FILE *out, struct sgpu_error *error);
void page_end(FILE *out);
/* Writes JSON so that it cannot end the element that it stands in; a line feed becomes `separator`. */
void page_put_json(FILE *out, const char *text, size_t size, char separator);

#endif
