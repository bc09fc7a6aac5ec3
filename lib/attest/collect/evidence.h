/* SPDX-License-Identifier: Apache-2.0
 *
 * A platform's evidence: where it comes from, and whether it belongs to a quote.
 */
#ifndef SGPU_ATTEST_COLLECT_EVIDENCE_H
#define SGPU_ATTEST_COLLECT_EVIDENCE_H

#include <sgpu/attest.h>

/* Collects a record as a new object or array. After a failure, the error's text says why the record
 * is absent. */
typedef int sgpu_evidence_collector(const uint8_t report_data[64], struct sgpu_device *device,
				    json_t **document, struct sgpu_error *error);
/* A row for each record that a quote may have. */
enum { SGPU_EVIDENCE_SOURCES = 3 };
_Static_assert(2 * (int)SGPU_EVIDENCE_SOURCES < (int)SGPU_RECORDS_MAX,
	       "a quote may hold each and call each absent");
extern const struct sgpu_evidence_source {
	const char *label, *type;
	sgpu_evidence_collector *collect;
} sgpu_evidence_sources[SGPU_EVIDENCE_SOURCES];

/* Absent records are listed, too. */
void sgpu_evidence_collect(const uint8_t data[64], struct sgpu_device *device,
			   struct sgpu_record *records);

/* Returns the root directory of an interface or, for "", of all other paths: `usual`, except in
 * tests. */
#define SGPU_USUAL_TSM "/sys/kernel/config/tsm/report"
#define SGPU_USUAL_GRAMINE "/dev/attestation"
const char *sgpu_evidence_root(const char *usual);
/* Derives the nonce of a GPU's report from report data by SHAKE256. */
enum { SGPU_GPU_NONCE_SIZE = 32 };
SGPU_MUST_CHECK int sgpu_gpu_nonce(const uint8_t report_data[64],
				   uint8_t nonce[SGPU_GPU_NONCE_SIZE], struct sgpu_error *error);

/* Checks that the record carries this report data, and verifies a TSM record if `checks` has roots
 * for it. *report: of other records, only whether others can read the runner's memory (debug).
 * Errors: SGPU_EBINDING (made for something else), those of sgpu_tsm_verify. */
SGPU_MUST_CHECK int sgpu_record_check(const struct sgpu_record *record,
				      const uint8_t report_data[64],
				      const struct sgpu_quote_checks *checks,
				      struct sgpu_tee_report *report, struct sgpu_error *error);

#endif
