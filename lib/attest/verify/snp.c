/* SPDX-License-Identifier: Apache-2.0
 *
 * The ATTESTATION_REPORT of SEV-SNP (AMD publication 56860, table of the same name).
 */
#include <string.h>

#include <openssl/err.h>

#include "attest/internal.h"
#include "attest/verify/tsm_report.h"
#include "crypto/internal.h"

enum {
	REPORT_SIZE = 0x4a0,
	SIGNED_SIZE = 0x2a0,
	AT_VERSION = 0x000,
	AT_POLICY = 0x008,
	AT_VMPL = 0x030,
	AT_ALGORITHM = 0x034,
	AT_KEY = 0x048,
	AT_REPORT_DATA = 0x050,
	AT_MEASUREMENT = 0x090,
	AT_REPORTED_TCB = 0x180,
	AT_CHIP_ID = 0x1a0,
	AT_SIGNATURE = 0x2a0,
	VERSION_MIN = 2,
	VERSION_MAX = 5,
	VMPL_MAX = 3,
	ECDSA_P384_SHA384 = 1,
	PART_SIZE = 72,
	HALF = 48, /* bytes of r and of s, little-endian, zeros above */
	KEY_VCEK = 0,
	KEY_VLEK = 1,
};
#define POLICY_MIGRATE (UINT64_C(1) << 18)
#define POLICY_DEBUG (UINT64_C(1) << 19)

static int read_report(struct sgpu_bytes blob, struct sgpu_tee_report *report,
		       struct sgpu_error *error)
{
	if (blob.size != REPORT_SIZE) {
		return sgpu_fail(error, SGPU_EINVALID, "SNP report: %zu bytes, not %d", blob.size,
				 REPORT_SIZE);
	}
	const uint64_t policy = sgpu_le64(blob.data + AT_POLICY);
	report->kind = SGPU_PLATFORM_SNP;
	report->version = sgpu_le32(blob.data + AT_VERSION);
	report->debug = policy & POLICY_DEBUG;
	report->migratable = policy & POLICY_MIGRATE;
	report->tcb = sgpu_le64(blob.data + AT_REPORTED_TCB);
	report->vmpl = sgpu_le32(blob.data + AT_VMPL);
	memcpy(report->report_data, blob.data + AT_REPORT_DATA, sizeof(report->report_data));
	memcpy(report->measurement, blob.data + AT_MEASUREMENT, sizeof(report->measurement));
	return SGPU_OK;
}

static int check_shape(struct sgpu_bytes blob, const struct sgpu_tee_report *report,
		       struct sgpu_error *error)
{
	const uint8_t *tail = blob.data + AT_SIGNATURE + 2 * PART_SIZE;
	const uint32_t algorithm = sgpu_le32(blob.data + AT_ALGORITHM);

	if (report->version < VERSION_MIN || report->version > VERSION_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "SNP report: version %u is unknown, %d to %d are known",
				 report->version, VERSION_MIN, VERSION_MAX);
	}
	if (algorithm != ECDSA_P384_SHA384) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "SNP report: signature algorithm %u is unknown", algorithm);
	}
	/* The host can ask for reports of a guest, too; their VMPL is out of range. */
	if (report->vmpl > VMPL_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "SNP report: its VMPL is %#x: the guest did not ask for it",
				 report->vmpl);
	}
	/* These bytes are not signed, so they must be zeros. */
	if (!sgpu_all_zero(tail, (size_t)(blob.data + REPORT_SIZE - tail))) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "SNP report: there are bytes behind the signature");
	}
	return SGPU_OK;
}

/* Converts the little-endian parts of a signature to big-endian r || s. */
static int read_signature(const uint8_t *field, uint8_t signature[2 * HALF],
			  struct sgpu_error *error)
{
	for (size_t part = 0; part < 2; part++) {
		const uint8_t *number = field + part * PART_SIZE;

		if (!sgpu_all_zero(number + HALF, PART_SIZE - HALF)) {
			return sgpu_fail(error, SGPU_ESIGNATURE,
					 "SNP report: its signature is no number of 384 "
					 "bits");
		}
		for (size_t i = 0; i < HALF; i++) {
			signature[part * HALF + i] = number[HALF - 1 - i];
		}
	}
	return SGPU_OK;
}

static bool signs(X509 *certificate, struct sgpu_bytes blob, const uint8_t signature[2 * HALF])
{
	EVP_PKEY *key = X509_get0_pubkey(certificate);

	ERR_clear_error();
	return sgpu_is_p384(key) &&
	       sgpu_ecdsa_verifies(key, "SHA384", blob.data, SIGNED_SIZE, signature, HALF);
}

/* Finds the certificate whose key signed the report: of_table, or one of the others. */
static int find_signer(struct sgpu_bytes blob, const struct sgpu_snp_certificates *certificates,
		       const char *name, X509 *of_table, X509 **signer, struct sgpu_error *error)
{
	uint8_t signature[2 * HALF];
	bool any = of_table != NULL;
	int rc = read_signature(blob.data + AT_SIGNATURE, signature, error);

	if (rc) {
		return rc;
	}
	*signer = of_table && signs(of_table, blob, signature) ? of_table : NULL;
	for (int i = 0; !*signer && i < certificates->other_count; i++) {
		X509 *certificate = certificates->others[i];

		any = any || sgpu_is_p384(X509_get0_pubkey(certificate));
		if (signs(certificate, blob, signature)) {
			*signer = certificate;
		}
	}
	ERR_clear_error();
	if (*signer) {
		return SGPU_OK;
	}
	if (any) {
		return sgpu_fail(error, SGPU_ESIGNATURE,
				 "SNP report: its signature does not verify with the %s", name);
	}
	(void)sgpu_fail(error, SGPU_ECHAIN,
			"SNP report: there is no %s certificate with it, and none was given", name);
	return sgpu_hint(error, "fetch it for this chip and TCB from AMD's key distribution "
				"service, and give it in "
				"PEM");
}

static int verify_with(struct sgpu_bytes blob, const struct sgpu_snp_certificates *certificates,
		       const struct sgpu_quote_checks *checks, struct sgpu_error *error)
{
	unsigned kind = sgpu_le32(blob.data + AT_KEY) >> 2 & 7;
	const char *name = kind == KEY_VCEK ? "VCEK" : "VLEK";
	X509 *signer = NULL;

	if (kind != KEY_VCEK && kind != KEY_VLEK) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "SNP report: signed with key %u, which is neither VCEK nor "
				 "VLEK",
				 kind);
	}
	int rc = find_signer(blob, certificates, name,
			     kind == KEY_VCEK ? certificates->vcek : certificates->vlek, &signer,
			     error);
	rc = rc ? rc
		: sgpu_chain_check(signer, certificates->others, certificates->other_count,
				   checks->tee_roots, checks->now, NULL, name, error);
	return rc ? rc
		  : sgpu_snp_match(signer, kind == KEY_VLEK, blob.data + AT_REPORTED_TCB,
				   blob.data + AT_CHIP_ID, error);
}

int sgpu_snp_verify(struct sgpu_bytes blob, struct sgpu_bytes table,
		    const struct sgpu_quote_checks *checks, struct sgpu_tee_report *report,
		    struct sgpu_error *error)
{
	struct sgpu_snp_certificates certificates = { 0 };
	int rc = read_report(blob, report, error);

	if (rc || !checks || !checks->tee_roots) {
		return rc;
	}
	rc = check_shape(blob, report, error);
	rc = rc ? rc : sgpu_snp_certificates(table, checks->tee_certificates, &certificates, error);
	rc = rc ? rc : verify_with(blob, &certificates, checks, error);
	sgpu_snp_certificates_clear(&certificates);
	return rc;
}
