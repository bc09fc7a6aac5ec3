/* SPDX-License-Identifier: Apache-2.0
 *
 * A quote binds claims and the platform's records both ways: the records carry a hash of the claims
 * and the AK; the token, which the AK signs, names each record by its hash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/x509.h>

#include <sgpu/base.h>

#include "attest/quote.h"

static int check_ak(const struct sgpu_signer *ak, const struct sgpu_chain *chain,
		    uint8_t fingerprint[SGPU_SHA256_SIZE], uint8_t machine[SGPU_SHA256_SIZE],
		    struct sgpu_error *error)
{
	uint8_t certified[SGPU_SHA256_SIZE] = { 0 };
	X509 *ek = chain->count > 1 ? chain->list[1] : NULL;
	EVP_PKEY *key = NULL;
	int rc = 0;

	if (!sgpu_is_ek_certificate(ek)) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "certificate 2 of the chain is not that of an endorsement key");
	}
	rc = rc ? rc
		: sgpu_certificate_key(chain->list[0], "certificate 1 of the chain", &key, error);
	rc = rc ? rc : sgpu_key_fingerprint(key, certified, error);
	rc = rc ? rc : sgpu_signer_fingerprint(ak, fingerprint, error);
	rc = rc ? rc : sgpu_key_fingerprint(X509_get0_pubkey(ek), machine, error);
	if (!rc && !sgpu_equal(certified, fingerprint, sizeof(certified))) {
		rc = sgpu_fail(error, SGPU_EKEY,
			       "the certificate is not that of the attestation key");
	}
	return rc;
}

int sgpu_quote_check_key(const struct sgpu_signer *ak, const struct sgpu_chain *ak_chain,
			 struct sgpu_error *error)
{
	uint8_t fingerprint[SGPU_SHA256_SIZE], machine[SGPU_SHA256_SIZE];

	return check_ak(ak, ak_chain, fingerprint, machine, error);
}

static int claim_records(json_t *claims, const struct sgpu_record *record, struct sgpu_error *error)
{
	json_t *own = json_object_get(claims, SGPU_OWN), *present = json_object(),
	       *absent = json_object();
	uint8_t hash[SGPU_SHA512_SIZE];
	int rc = 0, bad = json_object_set_new(own, "records", present) |
			  json_object_set_new(own, "absent", absent);

	for (; record->label && !bad && !rc; record++) {
		if (!record->value) {
			bad = json_object_set_new(absent, record->label,
						  json_string(record->absent));
			continue;
		}
		rc = sgpu_sha512(record->value, record->size, hash, error);
		bad = json_object_set_new(present, record->label,
					  json_pack("{s:s, s:o}", "type", record->type, "sha512",
						    sgpu_json_from_bytes(hash, sizeof(hash))));
	}
	return rc ? rc : bad ? sgpu_fail_nomem(error) : 0;
}

/* Checks that records belong to this quote. *debug: one says that the platform can be debugged. */
static int check_records(const struct sgpu_record *record, const uint8_t report_data[64],
			 bool *debug, struct sgpu_error *error)
{
	struct sgpu_tee_report report = { .debug = false };
	int rc = 0;

	*debug = false;
	for (; record->label && !rc; record++) {
		if (record->value) {
			rc = sgpu_record_check(record, report_data, NULL, &report, error);
			*debug |= report.debug;
		}
	}
	return rc;
}

/* Sets "dbgstat" to "enabled", since a process can be debugged if its platform can. *news: this
 * changed a claim. */
static int say_debug(json_t *claims, bool *news, struct sgpu_error *error)
{
	json_t *submods = json_object_get(claims, "submods");
	json_t *const parts[] = { claims, json_object_get(submods, "runner"),
				  json_object_get(submods, "cpu") };
	int bad = 0;

	*news = false;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(parts); i++) {
		const char *status = json_string_value(json_object_get(parts[i], "dbgstat"));
		if (parts[i] && (!status || strcmp(status, "enabled"))) {
			bad |= json_object_set_new(parts[i], "dbgstat", json_string("enabled"));
			*news = true;
		}
	}
	return bad ? sgpu_fail_nomem(error) : 0;
}

/* Collects the records, and again if their content changes a claim. */
static int collect(json_t *claims, const uint8_t ak[SGPU_SHA256_SIZE], struct sgpu_device *device,
		   struct sgpu_record records[SGPU_RECORDS_MAX], struct sgpu_error *error)
{
	uint8_t report_data[64] = { 0 };
	bool debug, again = true;
	int rc = 0;

	while (!rc && again) {
		again = false;
		rc = sgpu_quote_report_data(claims, ak, report_data, error);
		if (!rc) {
			sgpu_records_clear(records);
			sgpu_evidence_collect(report_data, device, records);
			rc = check_records(records, report_data, &debug, error);
		}
		rc = rc || !debug ? rc : say_debug(claims, &again, error);
	}
	return rc ? rc : claim_records(claims, records, error);
}

static json_t *cmw_record(const char *type, const void *value, size_t size)
{
	return json_pack("[s, o, i]", type, sgpu_json_from_bytes(value, size), SGPU_CMW_EVIDENCE);
}

/* Writes the collection (RFC 9999) as one line. */
static int write_quote(const char *token, const struct sgpu_record *record, char **quote,
		       size_t *size, struct sgpu_error *error)
{
	json_t *collection = json_pack("{s:s, s:o}", "__cmwc_t", SGPU_CMW_PROFILE, "eat",
				       cmw_record(SGPU_TYPE_EAT, token, strlen(token)));
	char *text = NULL;
	size_t length = 0;
	int bad = !collection;

	for (; record->label && !bad; record++) {
		bad = record->value &&
		      json_object_set_new(collection, record->label,
					  cmw_record(record->type, record->value, record->size));
	}
	int rc = bad ? sgpu_fail_nomem(error)
		     : sgpu_json_canonical(collection, &text, &length, error);
	json_decref(collection);
	if (!rc && length >= SGPU_QUOTE_MAX) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "the quote would have %zu bytes, and %d are read", length,
			       SGPU_QUOTE_MAX);
	}
	if (!rc && asprintf(quote, "%s\n", text) < 0) {
		*quote = NULL;
		rc = sgpu_fail_nomem(error);
	}
	*size = rc ? 0 : length + 1;
	free(text);
	return rc;
}

void sgpu_quote_ueid(const uint8_t machine[SGPU_SHA256_SIZE], uint8_t ueid[SGPU_UEID_SIZE])
{
	ueid[0] = SGPU_UEID_RAND;
	memcpy(ueid + 1, machine, SGPU_SHA256_SIZE);
}

static int sign_claims(json_t *claims, const struct sgpu_signer *ak, const struct sgpu_chain *chain,
		       char **token, struct sgpu_error *error)
{
	char *payload = NULL;
	size_t size = 0;
	int rc = sgpu_claims_check(claims, error);

	rc = rc ? rc : sgpu_json_canonical(claims, &payload, &size, error);
	rc = rc ? rc : sgpu_jws_sign(ak, chain, SGPU_EAT_TYP, payload, size, token, error);
	free(payload);
	return rc;
}

static int finish(json_t *claims, struct sgpu_device *device, const struct sgpu_signer *ak,
		  const struct sgpu_chain *ak_chain, char **quote, size_t *size,
		  struct sgpu_error *error)
{
	struct sgpu_record records[SGPU_RECORDS_MAX] = { { .label = NULL } };
	uint8_t fingerprint[SGPU_SHA256_SIZE] = { 0 }, machine[SGPU_SHA256_SIZE] = { 0 };
	uint8_t ueid[SGPU_UEID_SIZE];
	char *token = NULL;
	int rc = check_ak(ak, ak_chain, fingerprint, machine, error);

	if (!rc) {
		sgpu_quote_ueid(machine, ueid);
		rc = json_object_set_new(claims, "ueid", sgpu_json_from_bytes(ueid, sizeof(ueid)))
			     ? sgpu_fail_nomem(error)
			     : SGPU_OK;
	}
	rc = rc ? rc : collect(claims, fingerprint, device, records, error);
	rc = rc ? rc : sign_claims(claims, ak, ak_chain, &token, error);
	rc = rc ? rc : write_quote(token, records, quote, size, error);
	sgpu_records_clear(records);
	free(token);
	return rc;
}

int sgpu_quote_create(const struct sgpu_quote_subject *subject, const struct sgpu_signer *ak,
		      const struct sgpu_chain *ak_chain, int64_t now, char **quote, size_t *size,
		      struct sgpu_error *error)
{
	json_t *claims = NULL;

	*quote = NULL;
	*size = 0;
	int rc = sgpu_quote_claims(subject, now, &claims, error);
	rc = rc ? rc : finish(claims, subject->device, ak, ak_chain, quote, size, error);
	json_decref(claims);
	return rc;
}

int sgpu_quote_renew(const json_t *claims, const struct sgpu_quote_renewal *renewal,
		     const struct sgpu_signer *ak, const struct sgpu_chain *ak_chain, int64_t now,
		     char **quote, size_t *size, struct sgpu_error *error)
{
	json_t *renewed;

	*quote = NULL;
	*size = 0;
	int rc = sgpu_quote_check_nonce(renewal->nonce, renewal->nonce_size, error);
	rc = rc ? rc : sgpu_claims_check(claims, error);
	if (rc < 0) {
		return rc;
	}
	renewed = json_deep_copy(claims);
	if (!renewed || json_object_set_new(renewed, "iat", json_integer((json_int_t)now)) ||
	    json_object_set_new(renewed, "eat_nonce",
				sgpu_json_from_bytes(renewal->nonce, renewal->nonce_size))) {
		rc = sgpu_fail_nomem(error);
	}
	if (!rc && renewal->debugged) {
		bool news;
		rc = say_debug(renewed, &news, error);
	}
	rc = rc ? rc : finish(renewed, NULL, ak, ak_chain, quote, size, error);
	json_decref(renewed);
	return rc;
}
