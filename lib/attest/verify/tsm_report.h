/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying reports of TDX and SEV-SNP guests.
 */
#ifndef SGPU_ATTEST_VERIFY_TSM_REPORT_H
#define SGPU_ATTEST_VERIFY_TSM_REPORT_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <sgpu/attest.h>

#include "base/base.h"

/* A borrowed part of a text or a blob. */
struct sgpu_bytes {
	const uint8_t *data;
	size_t size;
};

/* Read and verify a report; check only its layout if `checks` is NULL or without tee_roots. Errors:
 * those of sgpu_tsm_verify; *report is then undefined. */
SGPU_MUST_CHECK int sgpu_snp_verify(struct sgpu_bytes blob, struct sgpu_bytes table,
				    const struct sgpu_quote_checks *checks,
				    struct sgpu_tee_report *report, struct sgpu_error *error);
SGPU_MUST_CHECK int sgpu_tdx_verify(struct sgpu_bytes quote, const struct sgpu_quote_checks *checks,
				    struct sgpu_tee_report *report, struct sgpu_error *error);

/* Reads the certificates of an SNP report: those in `given`, then those of the host's table, which
 * may be empty. The caller always clears them. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_snp_certificates(struct sgpu_bytes table, const struct sgpu_chain *given,
					  struct sgpu_chain *certificates,
					  struct sgpu_error *error);
/* Checks that a VCEK or VLEK is for this security version (TCB) and a VCEK for this chip. Errors:
 * SGPU_EBINDING. */
SGPU_MUST_CHECK int sgpu_snp_match(X509 *leaf, bool is_vlek, const uint8_t tcb[8],
				   const uint8_t chip[64], struct sgpu_error *error);

static inline uint16_t sgpu_le16(const uint8_t *data)
{
	return (uint16_t)(data[0] | data[1] << 8);
}
static inline uint32_t sgpu_le32(const uint8_t *data)
{
	return (uint32_t)sgpu_le16(data) | (uint32_t)sgpu_le16(data + 2) << 16;
}
static inline uint64_t sgpu_le64(const uint8_t *data)
{
	return (uint64_t)sgpu_le32(data) | (uint64_t)sgpu_le32(data + 4) << 32;
}

/* Verifies a TSM record up to one of the tee_roots (self-signed: AMD's ARK or Intel's SGX Root CA).
 * Revocation lists, Intel's TCB info and the least revision of its enclave, which would have to be
 * fetched, are not checked. Errors: SGPU_EINVALID, SGPU_ESIGNATURE, SGPU_ECHAIN, SGPU_EEXPIRED,
 * SGPU_EBINDING (another chip, TCB or key), SGPU_EPOLICY (another enclave or module). */
SGPU_MUST_CHECK int sgpu_tsm_verify(const char *record, size_t size,
				    const struct sgpu_quote_checks *checks,
				    struct sgpu_tee_report *report, struct sgpu_error *error);

/* ---- a TDX quote taken apart; all parts are borrowed from it ---- */
enum { SGPU_TDX_HALF = 32 /* bytes of a coordinate on P-256 */, SGPU_QE_REPORT_SIZE = 384 };
struct sgpu_tdx_quote {
	uint16_t version;
	struct sgpu_bytes head; /* header and body: what the attestation key signs */
	struct sgpu_bytes body;
	struct sgpu_bytes signature;	   /* r || s */
	struct sgpu_bytes attestation_key; /* x || y */
	struct sgpu_bytes qe_report; /* the quoting enclave's report, and the platform key's (PCK)
					signature of it */
	struct sgpu_bytes qe_signature;
	struct sgpu_bytes qe_data; /* hashed into the enclave's report after the attestation key */
	struct sgpu_bytes chain;   /* the PCK's certificates in PEM */
};

/* Checks only the layout. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_tdx_parse(struct sgpu_bytes blob, struct sgpu_tdx_quote *quote,
				   struct sgpu_error *error);

#endif
