/* SPDX-License-Identifier: Apache-2.0
 *
 * The one reader of quotes, and their verification: signature, chain, time, nonce, binding, in this
 * order, each failure with its own code. appraise.c judges the content.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"

struct parts {
	char *token;
	size_t token_size;
	struct sgpu_jws jws;
	struct sgpu_chain chain;      /* x5c */
	EVP_PKEY *key;		      /* the AK, borrowed from the first certificate */
	uint8_t ak[SGPU_SHA256_SIZE]; /* the AK's fingerprint */
	json_t *claims;		      /* checked */
	struct sgpu_record records[SGPU_RECORDS_MAX];
	int count;
};

static void parts_clear(struct parts *parts)
{
	free(parts->token);
	sgpu_jws_clear(&parts->jws);
	sgpu_chain_clear(&parts->chain);
	json_decref(parts->claims);
	sgpu_records_clear(parts->records);
	memset(parts, 0, sizeof(*parts));
}

/* Reads a record, [type, value, 4], of this type. */
static int read_cmw(const json_t *record, const char *label, const char *type, char **value,
		    size_t *size, struct sgpu_error *error)
{
	const char *name = NULL, *text = NULL;
	size_t length = 0;
	int what = 0;
	char where[64];

	if (json_unpack((json_t *)record, "[s, s%, i!]", &name, &text, &length, &what)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "quote: '%s' is not a record of type, value and indicator", label);
	}
	if (strcmp(name, type)) {
		return sgpu_fail(error, SGPU_EINVALID, "quote: '%s' has the type '%.80s', not '%s'",
				 label, name, type);
	}
	if (what != SGPU_CMW_EVIDENCE) {
		return sgpu_fail(error, SGPU_EINVALID, "quote: '%s' is not marked as evidence",
				 label);
	}
	snprintf(where, sizeof(where), "quote: '%s'", label);
	return sgpu_base64url_read(text, length, where, (uint8_t **)value, size, error);
}

static int read_record(const char *label, const json_t *value, struct parts *parts,
		       struct sgpu_error *error)
{
	for (size_t i = 0; i < SGPU_EVIDENCE_SOURCES; i++) {
		const struct sgpu_evidence_source *source = &sgpu_evidence_sources[i];
		if (!strcmp(label, source->label)) {
			struct sgpu_record *record = &parts->records[parts->count];
			*record = (struct sgpu_record){ .label = source->label,
							.type = source->type };
			int rc = read_cmw(value, label, source->type, &record->value, &record->size,
					  error);
			parts->count += !rc;
			return rc;
		}
	}
	return sgpu_fail(error, SGPU_EINVALID, "quote: unknown record '%.64s'", label);
}

static int read_collection(const json_t *collection, struct parts *parts, struct sgpu_error *error)
{
	const char *profile = json_string_value(json_object_get(collection, "__cmwc_t")), *label;
	json_t *value;

	if (!json_is_object(collection) || !profile || strcmp(profile, SGPU_CMW_PROFILE)) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "quote: not a collection of the profile '%s'", SGPU_CMW_PROFILE);
	}
	const json_t *eat = json_object_get(collection, "eat");
	int rc = read_cmw(eat, "eat", SGPU_TYPE_EAT, &parts->token, &parts->token_size, error);
	json_object_foreach ((json_t *)collection, label, value) {
		if (!rc && strcmp(label, "__cmwc_t") && strcmp(label, "eat")) {
			rc = read_record(label, value, parts, error);
		}
	}
	return rc;
}

static int read_token(struct parts *parts, struct sgpu_error *error)
{
	int rc = sgpu_jws_open(parts->token, parts->token_size, &parts->jws, &parts->chain, error);

	if (rc) {
		return rc;
	}
	const char *typ = json_string_value(json_object_get(parts->jws.header, "typ"));
	if (!typ || strcmp(typ, SGPU_EAT_TYP)) {
		return sgpu_fail(error, SGPU_EINVALID, "token: 'typ' is not '%s'", SGPU_EAT_TYP);
	}
	if (!parts->chain.count) {
		return sgpu_fail(error, SGPU_EINVALID, "token: it has no 'x5c'");
	}
	rc = sgpu_document_parse(parts->jws.payload, parts->jws.payload_size, "claims",
				 &parts->claims, error);
	rc = rc ? rc : sgpu_claims_check(parts->claims, error);
	rc = rc ? rc
		: sgpu_certificate_key(parts->chain.list[0], "certificate 1 of 'x5c'", &parts->key,
				       error);
	return rc ? rc : sgpu_key_fingerprint(parts->key, parts->ak, error);
}

static int split(const char *quote, size_t size, struct parts *parts, struct sgpu_error *error)
{
	json_t *collection = NULL;

	memset(parts, 0, sizeof(*parts));
	if (size > SGPU_QUOTE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "quote: longer than %d bytes",
				 SGPU_QUOTE_MAX);
	}
	int rc = sgpu_document_parse(quote, size, "quote", &collection, error);
	rc = rc ? rc : read_collection(collection, parts, error);
	json_decref(collection);
	rc = rc ? rc : read_token(parts, error);
	if (rc) {
		parts_clear(parts);
	}
	return rc;
}

static void add_absent(const json_t *claims, struct sgpu_record *record)
{
	const json_t *absent = sgpu_member_at(claims, SGPU_OWN "/absent");

	for (size_t i = 0; i < SGPU_EVIDENCE_SOURCES; i++) {
		const struct sgpu_evidence_source *source = &sgpu_evidence_sources[i];
		const char *reason = json_string_value(json_object_get(absent, source->label));
		if (reason) {
			*record = (struct sgpu_record){ .label = source->label,
							.type = source->type };
			snprintf(record->absent, sizeof(record->absent), "%s", reason);
			record++;
		}
	}
}

int sgpu_quote_parse(const char *quote, size_t size, json_t **claims, struct sgpu_record *records,
		     uint8_t *ak, struct sgpu_error *error)
{
	struct parts parts;
	int rc = split(quote, size, &parts, error);

	*claims = json_incref(parts.claims);
	if (ak) {
		memcpy(ak, parts.ak, sizeof(parts.ak));
	}
	if (records) {
		memcpy(records, parts.records, sizeof(parts.records));
		add_absent(*claims, records + parts.count);
		memset(parts.records, 0, sizeof(parts.records));
	}
	parts_clear(&parts);
	return rc;
}

int sgpu_quote_authority(const char *quote, size_t size, char **pem,
			 uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	struct parts parts;
	X509 *last;
	int rc = split(quote, size, &parts, error);

	*pem = NULL;
	if (rc) {
		return rc;
	}
	last = parts.chain.list[parts.chain.count - 1];
	rc = X509_digest(last, EVP_sha256(), digest, NULL) == 1
		     ? sgpu_certificate_pem(last, NULL, pem, &size, error)
		     : sgpu_crypto_fail(error, "hashing a certificate");
	parts_clear(&parts);
	return rc;
}

/* ---- verification ---- */
enum { SKEW = 60 /* seconds that the attester's clock may be ahead */, MAX_AGE = 3600 };

void sgpu_quote_result_clear(struct sgpu_quote_result *result)
{
	json_decref(result->claims);
	memset(result, 0, sizeof(*result));
}

static int check_time(const json_t *claims, const struct sgpu_quote_checks *checks,
		      struct sgpu_error *error)
{
	int64_t made = json_integer_value(json_object_get(claims, "iat"));
	int64_t max_age = checks->max_age > 0 ? checks->max_age : MAX_AGE;

	if (made > checks->now + SKEW) {
		return sgpu_fail(error, SGPU_EEXPIRED,
				 "the quote was made %lld s in the future: is a clock wrong?",
				 (long long)(made - checks->now));
	}
	if (checks->now - made > max_age) {
		return sgpu_fail(error, SGPU_EEXPIRED,
				 "the quote is %lld s old, and %lld are allowed",
				 (long long)(checks->now - made), (long long)max_age);
	}
	return 0;
}

static bool is_bytes(const json_t *object, const char *key, const uint8_t *expected, size_t size)
{
	uint8_t got[SGPU_SHA512_SIZE];

	return size <= sizeof(got) && !sgpu_json_bytes(object, "claims", key, got, size, NULL) &&
	       sgpu_equal(got, expected, size);
}

static int check_owner(const json_t *claims, const uint8_t *owner_key, struct sgpu_error *error)
{
	uint8_t expected[SGPU_SHA256_SIZE] = { 0 };
	int rc = owner_key ? sgpu_sha256(owner_key, 32, expected, error) : 0;

	if (!rc && owner_key &&
	    !is_bytes(sgpu_claims_own(claims), "owner_key_hash", expected, sizeof(expected))) {
		rc = sgpu_fail(error, SGPU_EBINDING, "the quote is not bound to this owner's key");
	}
	return rc;
}

/* Checks that the claims name the record by its hash and that the record carries the hash of the
 * other claims and the AK, and verifies the record if there are roots. */
static int check_record(const json_t *claims, const struct sgpu_record *record,
			const struct sgpu_quote_checks *checks, const uint8_t report_data[64],
			struct sgpu_tee_report *tee, struct sgpu_error *error)
{
	const json_t *own = sgpu_claims_own(claims),
		     *named = json_object_get(json_object_get(own, "records"), record->label);
	uint8_t hash[SGPU_SHA512_SIZE] = { 0 };
	const char *debug = json_string_value(json_object_get(claims, "dbgstat")),
		   *kind = json_string_value(sgpu_member_at(own, "platform/kind"));

	if (!named || strcmp(json_string_value(json_object_get(named, "type")), record->type)) {
		return sgpu_fail(error, SGPU_EBINDING,
				 "the record '%s' is not among those that the claims name",
				 record->label);
	}
	int rc = sgpu_sha512(record->value, record->size, hash, error);
	if (!rc && !is_bytes(named, "sha512", hash, sizeof(hash))) {
		rc = sgpu_fail(error, SGPU_EBINDING,
			       "the record '%s' is not the one that the claims name",
			       record->label);
	}
	rc = rc ? rc : sgpu_record_check(record, report_data, checks, tee, error);
	if (!rc && tee->debug && strcmp(debug, "enabled")) {
		rc = sgpu_fail(
			error, SGPU_EBINDING,
			"the record '%s' says that debugging is on, and the claims that it is not",
			record->label);
	}
	if (!rc && tee->kind && checks->tee_roots && strcmp(sgpu_platform_word(tee->kind), kind)) {
		rc = sgpu_fail(error, SGPU_EBINDING,
			       "the TEE's report is of '%s', and the claims say '%s'",
			       sgpu_platform_word(tee->kind), kind);
	}
	return rc;
}

static int check_records(const struct parts *parts, const struct sgpu_quote_checks *checks,
			 const uint8_t report_data[64], struct sgpu_quote_result *result,
			 struct sgpu_error *error)
{
	const json_t *named = sgpu_member_at(parts->claims, SGPU_OWN "/records");
	int rc = 0;

	if (json_object_size(named) != (size_t)parts->count) {
		return sgpu_fail(error, SGPU_EBINDING,
				 "the claims name %zu records, and the quote has %d",
				 json_object_size(named), parts->count);
	}
	for (int i = 0; i < parts->count && !rc; i++) {
		const struct sgpu_record *record = &parts->records[i];
		struct sgpu_tee_report tee;
		rc = check_record(parts->claims, record, checks, report_data, &tee, error);
		if (!rc && tee.kind) {
			result->tee_present = true;
			result->tee_verified = checks->tee_roots != NULL;
			result->tee = checks->tee_roots ? tee : result->tee;
		}
		result->gpu_evidence_present |= !strcmp(record->label, "nv-gpu-evidence") && !rc;
	}
	return rc;
}

static int verify_parts(const struct parts *parts, const struct sgpu_quote_checks *checks,
			struct sgpu_quote_result *result, struct sgpu_error *error)
{
	uint8_t report_data[64] = { 0 }, machine[SGPU_SHA256_SIZE] = { 0 }, ueid[SGPU_UEID_SIZE];
	const char *named;
	int rc = sgpu_jws_check(&parts->jws, parts->key, error);

	if (rc) {
		return rc;
	}
	result->claims = json_incref(parts->claims);
	memcpy(result->ak, parts->ak, sizeof(result->ak));
	rc = sgpu_chain_verify(parts->chain.list[0], &parts->chain, checks->roots, checks->now,
			       machine, "", error);
	result->certificate_age =
		checks->now - sgpu_certificate_time(X509_get0_notBefore(parts->chain.list[0]));
	rc = rc ? rc : check_time(parts->claims, checks, error);
	if (!rc && checks->nonce) {
		result->nonce_checked =
			is_bytes(parts->claims, "eat_nonce", checks->nonce, checks->nonce_size);
		rc = result->nonce_checked ? 0
					   : sgpu_fail(error, SGPU_ENONCE,
						       "the quote was made for another nonce");
	}
	rc = rc ? rc : sgpu_quote_report_data(parts->claims, parts->ak, report_data, error);
	sgpu_quote_ueid(machine, ueid);
	rc = rc ? rc : sgpu_json_string(parts->claims, "claims", "ueid", &named, error);
	if (!rc && !is_bytes(parts->claims, "ueid", ueid, sizeof(ueid))) {
		rc = sgpu_fail(error, SGPU_EBINDING,
			       "'ueid' names another machine than the certificate");
	}
	rc = rc ? rc : check_owner(parts->claims, checks->owner_key, error);
	rc = rc ? rc : check_records(parts, checks, report_data, result, error);
	result->verified = !rc;
	return rc;
}

int sgpu_quote_verify(const char *quote, size_t size, const struct sgpu_quote_checks *checks,
		      struct sgpu_quote_result *result, struct sgpu_error *error)
{
	struct parts parts;

	memset(result, 0, sizeof(*result));
	if (!checks->roots) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "a quote cannot be verified without a root that is trusted");
	}
	int rc = split(quote, size, &parts, error);
	if (rc) {
		return rc;
	}
	rc = verify_parts(&parts, checks, result, error);
	parts_clear(&parts);
	return rc;
}
