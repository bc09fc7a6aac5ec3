/* SPDX-License-Identifier: Apache-2.0
 *
 * The ATTESTATION_REPORT of SEV-SNP (AMD publication 56860, table of that name), and the
 * certificates of the key that signs it.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/objects.h>

#include <sgpu/base.h>

#include "attest/internal.h"
#include "attest/verify/tsm_report.h"
#include "crypto/internal.h"

/* ---- a host's table for its guests (GHCB specification, SNP Extended Guest Request): GUIDs,
 * offsets and lengths, then certificates in DER or PEM, which their keys tell apart ---- */
enum { ENTRY_SIZE = 24, AT_OFFSET = 16, AT_LENGTH = 20 };

/* Adds an entry that is a certificate, and not a revocation list. */
static void add_certificate(struct sgpu_bytes data, struct sgpu_chain *certificates)
{
	X509 *certificate = sgpu_certificate_parse(data.data, data.size);
	struct sgpu_chain chain = { 0 };

	if (!certificate &&
	    sgpu_chain_parse((const char *)data.data, data.size, "", &chain, NULL) == SGPU_OK) {
		certificate = chain.list[0];
		X509_up_ref(certificate);
	}
	sgpu_chain_clear(&chain);
	if (certificate) {
		certificates->list[certificates->count++] = certificate;
	}
}

int sgpu_snp_certificates(struct sgpu_bytes table, const struct sgpu_chain *given,
			  struct sgpu_chain *certificates, struct sgpu_error *error)
{
	memset(certificates, 0, sizeof(*certificates));
	for (int i = 0; given && i < given->count; i++) {
		X509_up_ref(given->list[i]);
		certificates->list[certificates->count++] = given->list[i];
	}
	for (size_t at = 0; table.size; at += ENTRY_SIZE) {
		if (table.size - at < ENTRY_SIZE) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "SNP certificates: the table has no end");
		}
		if (sgpu_all_zero(table.data + at, ENTRY_SIZE)) {
			break;
		}
		if (at / ENTRY_SIZE == SGPU_CHAIN_MAX) {
			return sgpu_fail(error, SGPU_EINVALID, "SNP certificates: more than %d",
					 SGPU_CHAIN_MAX);
		}
		uint32_t offset = sgpu_le32(table.data + at + AT_OFFSET),
			 length = sgpu_le32(table.data + at + AT_LENGTH);
		if (offset > table.size || length > table.size - offset) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "SNP certificates: the %u bytes at %u are outside of the "
					 "table's %zu",
					 length, offset, table.size);
		}
		add_certificate((struct sgpu_bytes){ table.data + offset, length }, certificates);
	}
	return SGPU_OK;
}

/* ---- what a VCEK or VLEK says of its chip (AMD publication 57230) ---- */
/* Returns the content of an extension, or no bytes if there is none of that number. AMD's
 * extensions are 1.3.6.1.4.1.3704.1.*. */
static struct sgpu_bytes extension(const X509 *certificate, const char *number)
{
	ASN1_OBJECT *object = OBJ_txt2obj(number, 1);
	int at = object ? X509_get_ext_by_OBJ(certificate, object, -1) : -1;
	const ASN1_OCTET_STRING *value =
		at >= 0 ? X509_EXTENSION_get_data(X509_get_ext(certificate, at)) : NULL;
	struct sgpu_bytes found = { NULL, 0 };

	if (value) {
		found.data = ASN1_STRING_get0_data(value);
		found.size = (size_t)ASN1_STRING_length(value);
	}
	ASN1_OBJECT_free(object);
	ERR_clear_error();
	return found;
}

/* Reads a DER INTEGER from 0 to 255: 02 01 nn, or 02 02 00 nn. */
static bool small_number(struct sgpu_bytes der, uint8_t *number)
{
	if (der.size == 3 && der.data[0] == 2 && der.data[1] == 1 && der.data[2] < 0x80) {
		*number = der.data[2];
		return true;
	}
	if (der.size == 4 && der.data[0] == 2 && der.data[1] == 2 && !der.data[2] &&
	    der.data[3] >= 0x80) {
		*number = der.data[3];
		return true;
	}
	return false;
}

/* The byte of each part in a TCB: `at` up to Genoa, `at_turin` from Turin on, whose certificates
 * name an FMC. */
static const struct tcb_part {
	const char *number, *name;
	int at, at_turin;
} tcb_parts[] = {
	{ "1.3.6.1.4.1.3704.1.3.9", "FMC", -1, 0 },
	{ "1.3.6.1.4.1.3704.1.3.1", "boot loader", 0, 1 },
	{ "1.3.6.1.4.1.3704.1.3.2", "TEE", 1, 2 },
	{ "1.3.6.1.4.1.3704.1.3.3", "SNP firmware", 6, 3 },
	{ "1.3.6.1.4.1.3704.1.3.8", "microcode", 7, 7 },
};

static int match_part(const X509 *leaf, const struct tcb_part *part, uint8_t reported,
		      struct sgpu_error *error)
{
	uint8_t number = 0;

	if (!small_number(extension(leaf, part->number), &number)) {
		return sgpu_fail(error, SGPU_EBINDING,
				 "SNP report: its certificate names no version of the %s",
				 part->name);
	}
	return number == reported ? SGPU_OK
				  : sgpu_fail(error, SGPU_EBINDING,
					      "SNP report: made with %s %u, its "
					      "certificate is for %u",
					      part->name, reported, number);
}

static int match_tcb(const X509 *leaf, const uint8_t tcb[8], struct sgpu_error *error)
{
	bool turin = extension(leaf, tcb_parts[0].number).size;
	uint8_t seen[8] = { 0 };
	int rc = SGPU_OK;

	for (size_t i = turin ? 0 : 1; !rc && i < SGPU_ARRAY_LENGTH(tcb_parts); i++) {
		int at = turin ? tcb_parts[i].at_turin : tcb_parts[i].at;

		rc = match_part(leaf, &tcb_parts[i], tcb[at], error);
		seen[at] = tcb[at];
	}
	if (!rc && memcmp(seen, tcb, sizeof(seen))) {
		rc = sgpu_fail(error, SGPU_EBINDING,
			       "SNP report: its TCB has parts that its certificate does not "
			       "name");
	}
	return rc;
}

/* Turin's certificates hold the 8 bytes that its chips have; the rest of the report's field is
 * zeros. */
static int match_chip(const X509 *leaf, const uint8_t chip[64], struct sgpu_error *error)
{
	struct sgpu_bytes identity = extension(leaf, "1.3.6.1.4.1.3704.1.4");

	if (identity.size != 64 && identity.size != 8) {
		return sgpu_fail(error, SGPU_EBINDING, "SNP report: its certificate names no chip");
	}
	return !memcmp(identity.data, chip, identity.size) &&
			       sgpu_all_zero(chip + identity.size, 64 - identity.size)
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EBINDING,
				   "SNP report: its certificate is for another chip");
}

/* A VLEK belongs to a cloud provider and names no chip. */
int sgpu_snp_match(X509 *leaf, bool is_vlek, const uint8_t tcb[8], const uint8_t chip[64],
		   struct sgpu_error *error)
{
	int rc = match_tcb(leaf, tcb, error);

	return !rc && !is_vlek ? match_chip(leaf, chip, error) : rc;
}

/* ---- the report ---- */
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
	/* Reports that the host asked for have a VMPL out of range. */
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

/* To big-endian r || s. */
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

static int find_signer(struct sgpu_bytes blob, const struct sgpu_chain *certificates,
		       const char *name, X509 **signer, struct sgpu_error *error)
{
	uint8_t signature[2 * HALF];
	bool any = false;
	int rc = read_signature(blob.data + AT_SIGNATURE, signature, error);

	for (int i = 0; !rc && !*signer && i < certificates->count; i++) {
		EVP_PKEY *key = X509_get0_pubkey(certificates->list[i]);

		if (sgpu_is_p384(key)) {
			any = true;
			*signer = sgpu_ecdsa_verifies(key, "SHA384", blob.data, SIGNED_SIZE,
						      signature, HALF)
					  ? certificates->list[i]
					  : NULL;
		}
	}
	ERR_clear_error();
	if (rc || *signer) {
		return rc;
	}
	if (any) {
		return sgpu_fail(error, SGPU_ESIGNATURE,
				 "SNP report: its signature does not verify with the %s", name);
	}
	(void)sgpu_fail(error, SGPU_ECHAIN,
			"SNP report: there is no %s certificate with it, and none was given", name);
	return sgpu_hint(error, "fetch it for this chip and TCB from AMD's key distribution "
				"service, and give it in PEM");
}

static int verify_with(struct sgpu_bytes blob, const struct sgpu_chain *certificates,
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
	int rc = find_signer(blob, certificates, name, &signer, error);
	rc = rc ? rc
		: sgpu_chain_verify(signer, certificates, checks->tee_roots, checks->now, NULL,
				    name, error);
	return rc ? rc
		  : sgpu_snp_match(signer, kind == KEY_VLEK, blob.data + AT_REPORTED_TCB,
				   blob.data + AT_CHIP_ID, error);
}

int sgpu_snp_verify(struct sgpu_bytes blob, struct sgpu_bytes table,
		    const struct sgpu_quote_checks *checks, struct sgpu_tee_report *report,
		    struct sgpu_error *error)
{
	struct sgpu_chain certificates = { 0 };
	int rc = read_report(blob, report, error);

	if (rc || !checks || !checks->tee_roots) {
		return rc;
	}
	rc = check_shape(blob, report, error);
	rc = rc ? rc : sgpu_snp_certificates(table, checks->tee_certificates, &certificates, error);
	rc = rc ? rc : verify_with(blob, &certificates, checks, error);
	sgpu_chain_clear(&certificates);
	return rc;
}
