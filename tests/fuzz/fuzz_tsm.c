/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the TSM record. Without a trusted root nothing may verify, whatever it holds.
 */
#include <stdint.h>
#include <stdlib.h>

#include "attest/verify/tsm_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sgpu_chain no_roots;
	static const struct sgpu_quote_checks checks = { .tee_roots = &no_roots,
							 .now = 1800000000 };
	struct sgpu_error error = { 0 };
	struct sgpu_tee_report report;

	if (sgpu_tsm_verify((const char *)data, size, &checks, &report, &error) == SGPU_OK ||
	    !error.text[0] || report.kind != SGPU_PLATFORM_PLAIN) {
		abort();
	}
	return 0;
}
