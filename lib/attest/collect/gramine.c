/* SPDX-License-Identifier: Apache-2.0
 *
 * Under Gramine: /dev/attestation, virtual files of its library OS. The quote covers the last data
 * written to user_report_data, and is made when it is read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "attest/collect/evidence.h"

enum { QUOTE_MAX = 1 << 16, WORD_MAX = 64 };

/* "dcap", or "none" without SGX; the caller frees it. */
static int read_type(const char *root, char **word, struct sgpu_error *error)
{
	size_t size = 0;
	int rc;

	if (!sgpu_evidence_has(root, "attestation_type")) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "this process does not run under Gramine: there is no "
				 "'%s/attestation_type'",
				 root);
	}
	rc = sgpu_evidence_read(root, "attestation_type", WORD_MAX, word, &size, error);
	if (rc == SGPU_OK) {
		(*word)[strcspn(*word, "\n")] = '\0';
		if (!strcmp(*word, "none")) {
			rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
				       "Gramine runs without SGX, or without remote "
				       "attestation");
		}
	}
	return rc;
}

static int collect(const uint8_t report_data[64], struct sgpu_device *device, char **value,
		   size_t *size, struct sgpu_error *error)
{
	const char *root = sgpu_evidence_root(SGPU_USUAL_GRAMINE);
	char *word = NULL, *quote = NULL;
	size_t quote_size = 0;
	int rc = read_type(root, &word, error);

	(void)device;
	if (rc == SGPU_OK) {
		rc = sgpu_evidence_write(root, "user_report_data", report_data, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_evidence_read(root, "quote", QUOTE_MAX, &quote, &quote_size, error);
	}
	if (rc == SGPU_OK && !quote_size) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "Gramine gave an empty quote");
	}
	if (rc == SGPU_OK) {
		rc = sgpu_evidence_text(json_pack("{s:s, s:o}", "attestation_type", word, "quote",
						  sgpu_json_from_bytes(quote, quote_size)),
					value, size, error);
	}
	free(quote);
	free(word);
	return rc;
}

const struct sgpu_evidence_source sgpu_evidence_gramine = { "gramine", SGPU_TYPE_GRAMINE, collect };
