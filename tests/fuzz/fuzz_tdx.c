/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes a TDX quote. Its parts lie inside of it, and without a trusted root nothing may verify.
 */
#include <stdlib.h>

#include "attest/verify/tsm_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const uint8_t *data, size_t size, const uint8_t *part, size_t part_size)
{
	if (part < data || part_size > size || (size_t)(part - data) > size - part_size) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sgpu_chain no_roots;
	static const struct sgpu_quote_checks checks = { .tee_roots = &no_roots,
							 .now = 1800000000 };
	struct sgpu_bytes blob = { data, size };
	struct sgpu_tee_report report = { 0 };
	struct sgpu_error error = { 0 };
	struct sgpu_tdx_quote quote;

	if (sgpu_tdx_parse(blob, &quote, NULL) == SGPU_OK) {
		inside(data, size, quote.head.data, quote.head.size);
		inside(data, size, quote.body.data, quote.body.size);
		inside(data, size, quote.signature.data, 2 * SGPU_TDX_HALF);
		inside(data, size, quote.attestation_key.data, 2 * SGPU_TDX_HALF);
		inside(data, size, quote.qe_report.data, SGPU_QE_REPORT_SIZE);
		inside(data, size, quote.qe_signature.data, 2 * SGPU_TDX_HALF);
		inside(data, size, quote.qe_data.data, quote.qe_data.size);
		inside(data, size, quote.chain.data, quote.chain.size);
	}
	if (sgpu_tdx_verify(blob, &checks, &report, &error) == SGPU_OK || !error.text[0]) {
		abort();
	}
	return 0;
}
