/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks by its report data whether a native record was made for this quote, and its signature if
 * the maker's roots are given.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "attest/verify/tsm_report.h"

/* Offsets: Intel, SGX DCAP quoting library. */
enum {
	SGX_HEADER = 48,
	SGX_SIZE = SGX_HEADER + 384,
	SGX_ATTRIBUTES = SGX_HEADER + 48,
	SGX_DEBUG = 2 /* mask */,
	SGX_REPORT_DATA = SGX_HEADER + 320,
};

static int compare(const char *label, const uint8_t *got, const uint8_t *expected, size_t size,
		   struct sgpu_error *error)
{
	return sgpu_equal(got, expected, size)
		       ? 0
		       : sgpu_fail(error, SGPU_EBINDING,
				   "the record '%s' was made for other claims or another key",
				   label);
}

struct tsm {
	bool snp;
	uint8_t *report, *table;
	size_t report_size, table_size;
};

/* The caller frees the parts of *tsm in any case. */
static int tsm_read(const json_t *record, struct tsm *tsm, struct sgpu_error *error)
{
	const char *provider = NULL, *report = NULL, *table = NULL;
	bool has_table = false;
	const struct sgpu_field fields[] = {
		{ "provider", SGPU_FIELD_TEXT, .to = &provider },
		{ "outblob", SGPU_FIELD_TEXT, .to = &report },
		{ "auxblob", SGPU_FIELD_TEXT, .to = &table, .given = &has_table },
	};
	int rc = sgpu_fields_read(record, "TSM report", fields, SGPU_ARRAY_LENGTH(fields), error);

	rc = rc ? rc
		: sgpu_base64url_read(report, strlen(report), "outblob", &tsm->report,
				      &tsm->report_size, error);
	if (!rc && has_table) {
		rc = sgpu_base64url_read(table, strlen(table), "auxblob", &tsm->table,
					 &tsm->table_size, error);
	}
	if (rc) {
		return rc;
	}
	/* The kernel ends the name with a newline. */
	const int length = (int)strcspn(provider, "\n");
	const bool named = length == 9 && (!provider[9] || !provider[10]);
	tsm->snp = !strncmp(provider, "sev_guest", 9);
	return named && (tsm->snp || !strncmp(provider, "tdx_guest", 9))
		       ? 0
		       : sgpu_fail(error, SGPU_EINVALID,
				   "TSM report: provider '%.*s' is neither 'sev_guest' nor "
				   "'tdx_guest'",
				   length < 24 ? length : 24, provider);
}

int sgpu_tsm_verify(const char *record, size_t size, const struct sgpu_quote_checks *checks,
		    struct sgpu_tee_report *report, struct sgpu_error *error)
{
	json_t *document = NULL;
	struct tsm tsm = { .snp = false };
	int rc = sgpu_document_parse(record, size, "TSM report", &document, error);

	memset(report, 0, sizeof(*report));
	rc = rc ? rc : tsm_read(document, &tsm, error);
	const struct sgpu_bytes blob = { tsm.report, tsm.report_size },
				table = { tsm.table, tsm.table_size };
	rc = rc	       ? rc
	     : tsm.snp ? sgpu_snp_verify(blob, table, checks, report, error)
		       : sgpu_tdx_verify(blob, checks, report, error);
	free(tsm.report);
	free(tsm.table);
	json_decref(document);
	if (rc) {
		memset(report, 0, sizeof(*report));
	}
	return rc;
}

static int check_gramine(const json_t *document, const uint8_t report_data[64], bool *debug,
			 struct sgpu_error *error)
{
	const char *text = NULL;
	uint8_t *data = NULL;
	size_t size = 0;
	int rc = sgpu_json_string(document, "Gramine quote", "quote", &text, error);

	rc = rc ? rc : sgpu_base64url_read(text, strlen(text), "quote", &data, &size, error);

	if (!rc && size < SGX_SIZE) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "Gramine quote: %zu bytes are too few for an SGX quote", size);
	}
	if (!rc) {
		*debug = data[SGX_ATTRIBUTES] & SGX_DEBUG;
		rc = compare("gramine", data + SGX_REPORT_DATA, report_data, 64, error);
	}
	free(data);
	return rc;
}

/* Checks the nonce that the record states; only a verifier of the GPU's report can tell whether the
 * GPU signed the nonce. */
static int check_gpu(const json_t *document, const uint8_t report_data[64],
		     struct sgpu_error *error)
{
	uint8_t expected[SGPU_GPU_NONCE_SIZE], got[SGPU_GPU_NONCE_SIZE] = { 0 };
	int rc = sgpu_gpu_nonce(report_data, expected, error);

	if (!rc && !json_array_size(document)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "GPU evidence: not an array of GPUs");
	}
	for (size_t i = 0; i < json_array_size(document) && !rc; i++) {
		struct sgpu_error inner = { 0 };
		const char *hex = NULL;
		rc = sgpu_json_string(json_array_get(document, i), "GPU evidence", "nonce", &hex,
				      error);
		if (!rc && sgpu_hex_decode(hex, got, sizeof(got), &inner)) {
			rc = sgpu_fail(error, SGPU_EINVALID, "GPU evidence: 'nonce' %s",
				       inner.text);
		}
		rc = rc ? rc : compare("nv-gpu-evidence", got, expected, sizeof(got), error);
	}
	return rc;
}

int sgpu_record_check(const struct sgpu_record *record, const uint8_t report_data[64],
		      const struct sgpu_quote_checks *checks, struct sgpu_tee_report *report,
		      struct sgpu_error *error)
{
	json_t *document = NULL;

	if (!strcmp(record->label, "tsm-report")) {
		int rc = sgpu_tsm_verify(record->value, record->size, checks, report, error);
		return rc ? rc : compare("tsm-report", report->report_data, report_data, 64, error);
	}
	memset(report, 0, sizeof(*report));
	int rc = sgpu_document_parse(record->value, record->size, record->label, &document, error);
	rc = rc ? rc
	     : !strcmp(record->label, "gramine")
		     ? check_gramine(document, report_data, &report->debug, error)
		     : check_gpu(document, report_data, error);
	json_decref(document);
	return rc;
}
