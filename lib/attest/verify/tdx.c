/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifies a TDX quote. An attestation key signs the TD's report. The quoting enclave that made
 * this key names it in its own report, which the platform's key (PCK), certified by Intel, signs.
 * The PCK signs reports of other enclaves, too, so this must be Intel's quoting enclave for TDX.
 */
#include <string.h>

#include <openssl/err.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "attest/internal.h"
#include "attest/verify/tsm_report.h"
#include "crypto/internal.h"

/* ---- the layout, versions 4 and 5 (Intel, "TDX DCAP Quoting Library API", appendix A). Only
 * take() takes bytes, and checks how many are left ---- */
enum {
	HEADER_SIZE = 48,
	AT_KEY_TYPE = 2,
	AT_TEE_TYPE = 4,
	AT_VENDOR = 12,
	VENDOR_SIZE = 16,
	KEY_TYPE_ECDSA_P256 = 2,
	TEE_TYPE_TDX = 0x81,
	TD_REPORT_10_SIZE = 584,
	TD_REPORT_15_SIZE = 648,
	BODY_TD_REPORT_10 = 2,
	BODY_TD_REPORT_15 = 3,
	DATA_QE_REPORT = 6,
	DATA_PCK_CHAIN = 5,
};
/* Intel's number as the vendor of the quoting enclave. */
static const uint8_t vendor[VENDOR_SIZE] = { 0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9,
					     0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07 };

static int take(struct sgpu_bytes *rest, size_t size, const char *what, struct sgpu_bytes *part,
		struct sgpu_error *error)
{
	if (size > rest->size) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "TDX quote: its %s needs %zu bytes, %zu are left", what, size,
				 rest->size);
	}
	*part = (struct sgpu_bytes){ rest->data, size };
	rest->data += size;
	rest->size -= size;
	return SGPU_OK;
}

static int read_header(struct sgpu_bytes header, struct sgpu_tdx_quote *quote,
		       struct sgpu_error *error)
{
	uint16_t key_type = sgpu_le16(header.data + AT_KEY_TYPE);
	uint32_t tee_type = sgpu_le32(header.data + AT_TEE_TYPE);

	quote->version = sgpu_le16(header.data);
	if (quote->version != 4 && quote->version != 5) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "TDX quote: version %u is unknown, 4 and 5 are known",
				 quote->version);
	}
	if (tee_type != TEE_TYPE_TDX) {
		return sgpu_fail(error, SGPU_EINVALID, "TDX quote: of TEE type %#x, not TDX (%#x)",
				 tee_type, TEE_TYPE_TDX);
	}
	if (key_type != KEY_TYPE_ECDSA_P256) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "TDX quote: its attestation key is of type %u, not ECDSA on "
				 "P-256 (%d)",
				 key_type, KEY_TYPE_ECDSA_P256);
	}
	return memcmp(header.data + AT_VENDOR, vendor, VENDOR_SIZE)
		       ? sgpu_fail(error, SGPU_EINVALID,
				   "TDX quote: its quoting enclave is of an unknown vendor")
		       : SGPU_OK;
}

/* Takes the body. Only version 5 states its type and size. */
static int take_body(struct sgpu_bytes *rest, struct sgpu_tdx_quote *quote,
		     struct sgpu_error *error)
{
	struct sgpu_bytes head = { 0 };
	size_t wanted = TD_REPORT_10_SIZE;

	if (quote->version == 5) {
		int rc = take(rest, 6, "body's head", &head, error);
		if (rc) {
			return rc;
		}
		uint16_t type = sgpu_le16(head.data);
		uint32_t size = sgpu_le32(head.data + 2);
		if (type != BODY_TD_REPORT_10 && type != BODY_TD_REPORT_15) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "TDX quote: a body of type %u is unknown", type);
		}
		wanted = type == BODY_TD_REPORT_10 ? TD_REPORT_10_SIZE : TD_REPORT_15_SIZE;
		if (size != wanted) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "TDX quote: a body of type %u has %u bytes, not %zu", type,
					 size, wanted);
		}
	}
	return take(rest, wanted, "body", &quote->body, error);
}

/* Takes what follows the body. Two of these parts reach to the end, so their stated lengths can
 * only be right or wrong. */
static int take_signature(struct sgpu_bytes *rest, struct sgpu_tdx_quote *quote,
			  struct sgpu_error *error)
{
	struct sgpu_bytes whole, data, length, pem = { 0 };
	const struct {
		size_t size;
		const char *name;
		struct sgpu_bytes *part;
	} parts[] = {
		{ 4, "signature's length", &whole },
		{ 2 * SGPU_TDX_HALF, "signature", &quote->signature },
		{ 2 * SGPU_TDX_HALF, "attestation key", &quote->attestation_key },
		{ 6, "certification data", &data },
		{ SGPU_QE_REPORT_SIZE, "quoting enclave's report", &quote->qe_report },
		{ 2 * SGPU_TDX_HALF, "quoting enclave's signature", &quote->qe_signature },
		{ 2, "authentication data", &length },
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < SGPU_ARRAY_LENGTH(parts); i++) {
		rc = take(rest, parts[i].size, parts[i].name, parts[i].part, error);
	}
	rc = rc ? rc
		: take(rest, sgpu_le16(length.data), "authentication data", &quote->qe_data, error);
	rc = rc ? rc : take(rest, 6, "certificates", &pem, error);
	rc = rc ? rc : take(rest, sgpu_le32(pem.data + 2), "certificates", &quote->chain, error);
	if (!rc &&
	    (sgpu_le16(data.data) != DATA_QE_REPORT || sgpu_le16(pem.data) != DATA_PCK_CHAIN ||
	     quote->signature.data + sgpu_le32(whole.data) != rest->data ||
	     quote->qe_report.data + sgpu_le32(data.data + 2) != rest->data)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "TDX quote: its certification data are not of type %d, with "
			       "certificates of type %d, or do not end where they say",
			       DATA_QE_REPORT, DATA_PCK_CHAIN);
	}
	return rc;
}

int sgpu_tdx_parse(struct sgpu_bytes blob, struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	struct sgpu_bytes rest = blob, header = { 0 };
	int rc = take(&rest, HEADER_SIZE, "header", &header, error);

	memset(quote, 0, sizeof(*quote));
	rc = rc ? rc : read_header(header, quote, error);
	rc = rc ? rc : take_body(&rest, quote, error);
	quote->head = (struct sgpu_bytes){ blob.data, (size_t)(rest.data - blob.data) };
	rc = rc ? rc : take_signature(&rest, quote, error);
	/* Some hosts return a whole buffer. Unsigned bytes after the quote may only be zeros. */
	if (!rc && !sgpu_all_zero(rest.data, rest.size)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "TDX quote: %zu bytes follow it", rest.size);
	}
	return rc;
}

/* ---- verification ---- */
/* Offsets in a TD's report. */
enum {
	AT_TCB = 0,
	AT_SIGNER_SEAM = 64,
	AT_SEAM_ATTRIBUTES = 112,
	AT_TD_ATTRIBUTES = 120,
	AT_MRTD = 136,
	AT_RTMR = 328,
	AT_REPORT_DATA = 520,
	REGISTER = 48,
};
/* Offsets in an enclave's report. */
enum {
	AT_MISC = 16,
	AT_ATTRIBUTES = 48,
	AT_MRSIGNER = 128,
	AT_PRODUCT = 256,
	AT_QE_REPORT_DATA = 320,
	MRSIGNER_SIZE = 32,
};

/* The host may look into the TD if any bit of TD_DEBUG is set. */
#define TD_DEBUG UINT64_C(0xff)
#define TD_SEPT_VE_DISABLE (UINT64_C(1) << 28)
#define TD_MIGRATABLE (UINT64_C(1) << 29)

/* Intel's QE identity for TDX ("TD_QE"): the enclave's signer, product and attributes: initialised,
 * with the provisioning key, not in debug mode, in 64-bit mode or not. */
static const uint8_t qe_signer[MRSIGNER_SIZE] = {
	0xdc, 0x9e, 0x2a, 0x7c, 0x6f, 0x94, 0x8f, 0x17, 0x47, 0x4e, 0x34,
	0xa7, 0xfc, 0x43, 0xed, 0x03, 0x0f, 0x7c, 0x15, 0x63, 0xf1, 0xba,
	0xbd, 0xdf, 0x63, 0x40, 0xc8, 0x2e, 0x0e, 0x54, 0xa8, 0xc5,
};
enum { QE_PRODUCT = 2 };
#define QE_ATTRIBUTES UINT64_C(0x11)
#define QE_ATTRIBUTES_MASK (~UINT64_C(4))

static int check_td_signature(const struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	EVP_PKEY *key = sgpu_p256_key(quote->attestation_key.data, NULL);
	bool good = key && sgpu_ecdsa_verifies(key, "SHA256", quote->head.data, quote->head.size,
					       quote->signature.data, SGPU_TDX_HALF);

	EVP_PKEY_free(key);
	ERR_clear_error();
	return good ? SGPU_OK
		    : sgpu_fail(error, SGPU_ESIGNATURE,
				key ? "TDX quote: its signature does not verify"
				    : "TDX quote: its attestation key is no point of P-256");
}

/* Checks that Intel's enclave made this attestation key. */
static int check_enclave(const struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	const uint8_t *report = quote->qe_report.data;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t digest[SGPU_SHA256_SIZE];
	bool done = context && EVP_DigestInit_ex2(context, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(context, quote->attestation_key.data,
				     quote->attestation_key.size) == 1 &&
		    EVP_DigestUpdate(context, quote->qe_data.data, quote->qe_data.size) == 1 &&
		    EVP_DigestFinal_ex(context, digest, NULL) == 1;

	EVP_MD_CTX_free(context);
	if (!done) {
		return sgpu_crypto_fail(error, "SHA-256");
	}
	if (!sgpu_equal(digest, report + AT_QE_REPORT_DATA, sizeof(digest)) ||
	    !sgpu_all_zero(report + AT_QE_REPORT_DATA + sizeof(digest), 64 - sizeof(digest))) {
		return sgpu_fail(error, SGPU_EBINDING,
				 "TDX quote: its attestation key is not the one that the "
				 "quoting enclave made");
	}
	if (memcmp(report + AT_MRSIGNER, qe_signer, sizeof(qe_signer)) ||
	    sgpu_le16(report + AT_PRODUCT) != QE_PRODUCT) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "TDX quote: made by another enclave than Intel's for TDX");
	}
	if ((sgpu_le64(report + AT_ATTRIBUTES) & QE_ATTRIBUTES_MASK) != QE_ATTRIBUTES ||
	    sgpu_le32(report + AT_MISC)) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "TDX quote: its quoting enclave has attributes %#llx, as one "
				 "under a debugger may have",
				 (unsigned long long)sgpu_le64(report + AT_ATTRIBUTES));
	}
	return SGPU_OK;
}

/* The chain is a text that may end with a NUL. */
static int check_platform(const struct sgpu_tdx_quote *quote,
			  const struct sgpu_quote_checks *checks, struct sgpu_error *error)
{
	struct sgpu_bytes pem = quote->chain;
	struct sgpu_chain chain = { 0 };
	struct sgpu_error inner = { 0 };
	int rc = SGPU_OK;

	while (pem.size && !pem.data[pem.size - 1]) {
		pem.size--;
	}
	if (sgpu_chain_parse((const char *)pem.data, pem.size, "PCK chain", &chain, &inner)) {
		return sgpu_fail(error, SGPU_EINVALID, "TDX quote: %s", inner.text);
	}
	X509 *leaf = chain.list[0];
	if (!sgpu_is_on_curve(X509_get0_pubkey(leaf), "prime256v1", "P-256")) {
		rc = sgpu_fail(error, SGPU_ECHAIN, "TDX quote: its platform's key is not on P-256");
	}
	rc = rc ? rc
		: sgpu_chain_verify(leaf, &chain, checks->tee_roots, checks->now, NULL, "PCK",
				    error);
	if (!rc &&
	    !sgpu_ecdsa_verifies(X509_get0_pubkey(leaf), "SHA256", quote->qe_report.data,
				 quote->qe_report.size, quote->qe_signature.data, SGPU_TDX_HALF)) {
		rc = sgpu_fail(error, SGPU_ESIGNATURE,
			       "TDX quote: the signature of its quoting enclave does not "
			       "verify");
	}
	ERR_clear_error();
	sgpu_chain_clear(&chain);
	return rc;
}

static int check_module(const struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	return sgpu_all_zero(quote->body.data + AT_SIGNER_SEAM, REGISTER) &&
			       !sgpu_le64(quote->body.data + AT_SEAM_ATTRIBUTES)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EPOLICY,
				   "TDX quote: the TDX module is not one of Intel's, or is under a "
				   "debugger");
}

static void read_body(const struct sgpu_tdx_quote *quote, struct sgpu_tee_report *report)
{
	const uint8_t *body = quote->body.data;
	const uint64_t attributes = sgpu_le64(body + AT_TD_ATTRIBUTES);

	report->kind = SGPU_PLATFORM_TDX;
	report->version = quote->version;
	report->debug = attributes & TD_DEBUG;
	report->migratable = attributes & TD_MIGRATABLE;
	report->sept_ve = !(attributes & TD_SEPT_VE_DISABLE);
	report->tcb = sgpu_le64(body + AT_TCB);
	memcpy(report->report_data, body + AT_REPORT_DATA, sizeof(report->report_data));
	memcpy(report->measurement, body + AT_MRTD, REGISTER);
	memcpy(report->rtmr, body + AT_RTMR, sizeof(report->rtmr));
}

int sgpu_tdx_verify(struct sgpu_bytes blob, const struct sgpu_quote_checks *checks,
		    struct sgpu_tee_report *report, struct sgpu_error *error)
{
	struct sgpu_tdx_quote quote;
	int rc = sgpu_tdx_parse(blob, &quote, error);

	if (!rc) {
		read_body(&quote, report);
	}
	if (rc || !checks || !checks->tee_roots) {
		return rc;
	}
	rc = check_platform(&quote, checks, error);
	rc = rc ? rc : check_enclave(&quote, error);
	rc = rc ? rc : check_td_signature(&quote, error);
	return rc ? rc : check_module(&quote, error);
}
