/* SPDX-License-Identifier: Apache-2.0
 *
 * The one reader of the format of quotes. Its result is well formed, but unverified.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/collect/evidence.h"
#include "attest/quote.h"

void sgpu_quote_parts_clear(struct sgpu_quote_parts *parts)
{
	free(parts->token);
	sgpu_jws_clear(&parts->jws);
	sgpu_chain_clear(&parts->chain);
	json_decref(parts->claims);
	sgpu_records_clear(parts->records);
	memset(parts, 0, sizeof(*parts));
}

/* Reads a record, [type, value, 4], whose type must be `type`. */
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

static int read_record(const char *label, const json_t *value, struct sgpu_quote_parts *parts,
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

static int read_collection(const json_t *collection, struct sgpu_quote_parts *parts,
			   struct sgpu_error *error)
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

static int read_token(struct sgpu_quote_parts *parts, struct sgpu_error *error)
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

int sgpu_quote_split(const char *quote, size_t size, struct sgpu_quote_parts *parts,
		     struct sgpu_error *error)
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
		sgpu_quote_parts_clear(parts);
	}
	return rc;
}

/* Appends the absent records that the claims name, with the reasons. */
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
	struct sgpu_quote_parts parts;
	int rc = sgpu_quote_split(quote, size, &parts, error);

	*claims = json_incref(parts.claims);
	if (ak) {
		memcpy(ak, parts.ak, sizeof(parts.ak));
	}
	if (records) {
		memcpy(records, parts.records, sizeof(parts.records));
		add_absent(*claims, records + parts.count);
		memset(parts.records, 0, sizeof(parts.records));
	}
	sgpu_quote_parts_clear(&parts);
	return rc;
}

int sgpu_quote_authority(const char *quote, size_t size, char **pem,
			 uint8_t digest[SGPU_SHA256_SIZE], struct sgpu_error *error)
{
	struct sgpu_quote_parts parts;
	X509 *last;
	int rc = sgpu_quote_split(quote, size, &parts, error);

	*pem = NULL;
	if (rc) {
		return rc;
	}
	last = parts.chain.list[parts.chain.count - 1];
	rc = X509_digest(last, EVP_sha256(), digest, NULL) == 1
		     ? sgpu_certificate_pem(last, NULL, pem, &size, error)
		     : sgpu_crypto_fail(error, "hashing a certificate");
	sgpu_quote_parts_clear(&parts);
	return rc;
}
