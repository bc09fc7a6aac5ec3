/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a native record was made for this quote: its report data, where each format has it. Its
 * signature is another question, which needs the maker's roots (sgpu_tsm_verify); a record of
 * another quote is refused without them, too.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/collect/evidence.h"
#include "attest/internal.h"
#include "attest/verify/tsm_report.h"

/* Offsets: SEV-SNP ABI (AMD 56860), table of ATTESTATION_REPORT; TD quote and SGX quote: Intel TDX
 * DCAP quoting library. */
enum {
	SNP_SIZE = 1184,
	SNP_POLICY = 8,
	SNP_POLICY_DEBUG = 19 /* bit */,
	SNP_REPORT_DATA = 80,
	TDX_ATTRIBUTES = 120,
	TDX_REPORT_DATA = 520,
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

static int check_snp(const uint8_t *report, size_t size, const uint8_t report_data[64], bool *debug,
		     struct sgpu_error *error)
{
	if (size != SNP_SIZE) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "TSM report: an SNP report has %d bytes, not %zu", SNP_SIZE, size);
	}
	*debug = sgpu_le64(report + SNP_POLICY) >> SNP_POLICY_DEBUG & 1;
	return compare("tsm-report", report + SNP_REPORT_DATA, report_data, 64, error);
}

static int check_tdx(const uint8_t *data, size_t size, const uint8_t report_data[64], bool *debug,
		     struct sgpu_error *error)
{
	struct sgpu_tdx_quote quote;
	int code = sgpu_tdx_parse((struct sgpu_bytes){ data, size }, &quote, error);

	if (code) {
		return code;
	}
	*debug = quote.body.data[TDX_ATTRIBUTES] & SGPU_TDX_DEBUG;
	return compare("tsm-report", quote.body.data + TDX_REPORT_DATA, report_data, 64, error);
}

/* A member in base64url of any length. */
static int get_blob(const json_t *object, const char *where, const char *key, uint8_t **data,
		    size_t *size, struct sgpu_error *error)
{
	const char *text = NULL;
	int code = sgpu_json_string(object, where, key, &text, error);

	return code ? code : sgpu_base64url_read(text, strlen(text), key, data, size, error);
}

static int check_tsm(const json_t *document, const uint8_t report_data[64], bool *debug,
		     struct sgpu_error *error)
{
	const char *provider = NULL;
	uint8_t *data = NULL;
	size_t size = 0;
	int code = sgpu_json_string(document, "TSM report", "provider", &provider, error);

	code = code ? code : get_blob(document, "TSM report", "outblob", &data, &size, error);
	if (!code && !strncmp(provider, "sev_guest", 9)) {
		code = check_snp(data, size, report_data, debug, error);
	} else if (!code && !strncmp(provider, "tdx_guest", 9)) {
		code = check_tdx(data, size, report_data, debug, error);
	} else if (!code) {
		code = sgpu_fail(error, SGPU_EINVALID, "TSM report: unknown provider '%.32s'",
				 provider);
	}
	free(data);
	return code;
}

static int check_gramine(const json_t *document, const uint8_t report_data[64], bool *debug,
			 struct sgpu_error *error)
{
	uint8_t *data = NULL;
	size_t size = 0;
	int code = get_blob(document, "Gramine quote", "quote", &data, &size, error);

	if (!code && size < SGX_SIZE) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "Gramine quote: %zu bytes are too few for an SGX quote", size);
	}
	if (!code) {
		*debug = data[SGX_ATTRIBUTES] & SGX_DEBUG;
		code = compare("gramine", data + SGX_REPORT_DATA, report_data, 64, error);
	}
	free(data);
	return code;
}

/* A GPU's report has room for a nonce of 32 bytes, drawn from ours by SHAKE256. The record states
 * it; only a verifier of the report can tell whether the GPU signed it. */
static int check_gpu(const json_t *document, const uint8_t report_data[64],
		     struct sgpu_error *error)
{
	uint8_t expected[SGPU_GPU_NONCE_SIZE], got[SGPU_GPU_NONCE_SIZE] = { 0 };
	const char *hex = NULL;
	int drawn = sgpu_gpu_nonce(report_data, expected, error);

	if (drawn) {
		return drawn;
	}
	if (!json_is_array(document) || !json_array_size(document)) {
		return sgpu_fail(error, SGPU_EINVALID, "GPU evidence: not an array of GPUs");
	}
	for (size_t i = 0; i < json_array_size(document); i++) {
		struct sgpu_error inner = { 0 };
		int code = sgpu_json_string(json_array_get(document, i), "GPU evidence", "nonce",
					    &hex, error);
		if (!code && sgpu_hex_decode(hex, got, sizeof(got), &inner)) {
			code = sgpu_fail(error, SGPU_EINVALID, "GPU evidence: 'nonce' %s",
					 inner.text);
		}
		code = code ? code : compare("nv-gpu-evidence", got, expected, sizeof(got), error);
		if (code) {
			return code;
		}
	}
	return 0;
}

int sgpu_record_check(const struct sgpu_record *record, const uint8_t report_data[64], bool *debug,
		      struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	json_t *document = NULL;
	int code;

	*debug = false;
	if (sgpu_json_parse(record->value, record->size, &document, NULL, NULL, &inner)) {
		return sgpu_fail(error, SGPU_EINVALID, "record '%s': %s", record->label,
				 inner.text);
	}
	if (!strcmp(record->label, "tsm-report")) {
		code = check_tsm(document, report_data, debug, error);
	} else if (!strcmp(record->label, "gramine")) {
		code = check_gramine(document, report_data, debug, error);
	} else {
		code = check_gpu(document, report_data, error);
	}
	json_decref(document);
	return code;
}
