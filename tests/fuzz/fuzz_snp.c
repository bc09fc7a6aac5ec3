/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes a report of SEV-SNP, and behind it the table of certificates. Without a trusted root
 * nothing may verify.
 */
#include <stdlib.h>

#include "attest/verify/tsm_report.h"

enum { REPORT_SIZE = 0x4a0 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sgpu_chain no_roots;
	static const struct sgpu_quote_checks checks = { .tee_roots = &no_roots,
							 .now = 1800000000 };
	struct sgpu_chain certificates;
	size_t report_size = size < REPORT_SIZE ? size : REPORT_SIZE;
	struct sgpu_bytes blob = { data, report_size },
			  table = { data + report_size, size - report_size };
	struct sgpu_tee_report report = { 0 };
	struct sgpu_error error = { 0 };

	if (sgpu_snp_verify(blob, table, &checks, &report, &error) == SGPU_OK || !error.text[0]) {
		abort();
	}
	/* What a certificate says is read only after its chain is good, so here it is read by
	 * itself. */
	(void)!sgpu_snp_certificates(table, NULL, &certificates, NULL);
	for (int i = 0; i < certificates.count; i++) {
		static const uint8_t tcb[8], chip[64];

		(void)!sgpu_snp_match(certificates.list[i], false, tcb, chip, NULL);
	}
	sgpu_chain_clear(&certificates);
	return 0;
}
