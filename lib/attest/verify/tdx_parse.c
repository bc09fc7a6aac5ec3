/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a TDX quote, versions 4 and 5 (Intel, "TDX DCAP Quoting Library API", appendix A).
 * Only take() takes bytes, and it checks how many are left.
 */
#include <string.h>

#include "attest/verify/tsm_report.h"

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

/* Takes the next `size` bytes, or fails if fewer are left. */
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

/* Takes certification data: their type, which must be `type`, their length, and the data. */
static int take_data(struct sgpu_bytes *rest, uint16_t type, const char *what,
		     struct sgpu_bytes *data, struct sgpu_error *error)
{
	struct sgpu_bytes head = { 0 };
	int rc = take(rest, 6, what, &head, error);

	if (!rc && sgpu_le16(head.data) != type) {
		return sgpu_fail(error, SGPU_EINVALID, "TDX quote: its %s is of type %u, not %u",
				 what, sgpu_le16(head.data), type);
	}
	return rc ? rc : take(rest, sgpu_le32(head.data + 2), what, data, error);
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

static int read_qe(struct sgpu_bytes rest, struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	struct sgpu_bytes part = { 0 };
	int rc = take(&rest, SGPU_QE_REPORT_SIZE, "quoting enclave's report", &quote->qe_report,
		      error);

	rc = rc ? rc : take(&rest, 2 * SGPU_TDX_HALF, "quoting enclave's signature", &part, error);
	if (!rc) {
		quote->qe_signature = part.data;
		rc = take(&rest, 2, "authentication data", &part, error);
	}
	rc = rc ? rc
		: take(&rest, sgpu_le16(part.data), "authentication data", &quote->qe_data, error);
	rc = rc ? rc : take_data(&rest, DATA_PCK_CHAIN, "certificates", &quote->chain, error);
	return !rc && rest.size ? sgpu_fail(error, SGPU_EINVALID,
					    "TDX quote: %zu bytes follow its "
					    "certificates",
					    rest.size)
				: rc;
}

static int read_signature(struct sgpu_bytes rest, struct sgpu_tdx_quote *quote,
			  struct sgpu_error *error)
{
	struct sgpu_bytes part = { 0 };
	int rc = take(&rest, 2 * SGPU_TDX_HALF, "signature", &part, error);

	if (!rc) {
		quote->signature = part.data;
		rc = take(&rest, 2 * SGPU_TDX_HALF, "attestation key", &quote->attestation_key,
			  error);
	}
	rc = rc ? rc : take_data(&rest, DATA_QE_REPORT, "certification data", &part, error);
	if (!rc && rest.size) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "TDX quote: %zu bytes follow its certification data", rest.size);
	}
	return rc ? rc : read_qe(part, quote, error);
}

int sgpu_tdx_parse(struct sgpu_bytes blob, struct sgpu_tdx_quote *quote, struct sgpu_error *error)
{
	struct sgpu_bytes rest = blob, part = { 0 };
	int rc = take(&rest, HEADER_SIZE, "header", &part, error);

	memset(quote, 0, sizeof(*quote));
	rc = rc ? rc : read_header(part, quote, error);
	rc = rc ? rc : take_body(&rest, quote, error);
	if (!rc) {
		quote->head = (struct sgpu_bytes){ blob.data, (size_t)(rest.data - blob.data) };
		rc = take(&rest, 4, "signature's length", &part, error);
	}
	rc = rc ? rc : take(&rest, sgpu_le32(part.data), "signature", &part, error);
	rc = rc ? rc : read_signature(part, quote, error);
	/* Some hosts return a whole buffer. The bytes after the quote are not signed, so they may
	 * only be zeros. */
	if (!rc && !sgpu_all_zero(rest.data, rest.size)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "TDX quote: %zu bytes follow it", rest.size);
	}
	return rc;
}
