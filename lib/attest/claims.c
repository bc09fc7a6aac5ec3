/* SPDX-License-Identifier: Apache-2.0
 *
 * The claims of sgpu-quote(5), in one table that checks claims before they are signed and claims
 * that others have signed.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "device/device.h"

#define DEVICE "submods/*"
#define DEVICE_OWN DEVICE "/" SGPU_OWN
#define RUNNER "submods/runner"
#define RUNNER_OWN RUNNER "/" SGPU_OWN
#define PLATFORM SGPU_OWN "/platform"
#define DEBUG .words = "enabled disabled"

enum { VERSION_MAX = 4096, CONFINEMENT_MAX = 32 };

static const struct sgpu_member table[] = {
	NEEDED("eat_profile", TEXT, .words = SGPU_EAT_PROFILE),
	NEEDED("iat", INTEGER),
	NEEDED("eat_nonce", BYTES, .min = SGPU_NONCE_MIN, .max = SGPU_NONCE_MAX),
	OPTIONAL("ueid", BYTES, .min = SGPU_UEID_SIZE, .max = SGPU_UEID_SIZE),
	NEEDED("swname", TEXT, .words = "sgpu"),
	NEEDED("swversion", ARRAY, .min = 1, .max = 1),
	NEEDED("swversion/*", TEXT, .max = VERSION_MAX),
	NEEDED("dbgstat", TEXT, DEBUG),
	OPTIONAL("cnf", ANY), /* checked by sgpu_quote_recipient */
	NEEDED("submods", OBJECT),
	NEEDED(RUNNER, OBJECT),
	NEEDED(RUNNER "/swname", TEXT, .min = 1, .max = 255),
	NEEDED(RUNNER "/swversion", ARRAY, .min = 1, .max = 1),
	NEEDED(RUNNER "/swversion/*", TEXT, .max = VERSION_MAX),
	NEEDED(RUNNER "/dbgstat", TEXT, DEBUG),
	NEEDED(RUNNER_OWN, OBJECT),
	NEEDED(RUNNER_OWN "/digest", BYTES, .min = 32, .max = 32),
	NEEDED(RUNNER_OWN "/size", INTEGER),
	NEEDED(RUNNER_OWN "/measured", TEXT, .words = "process file"),
	OPTIONAL(RUNNER_OWN "/build_id", TEXT, .min = 2, .max = 128), /* of older runners */
	NEEDED(RUNNER_OWN "/modules", TRUTH),
	NEEDED(RUNNER_OWN "/files", TRUTH),
	OPTIONAL(RUNNER_OWN "/owners", ARRAY, .min = 1, .max = SGPU_QUOTE_OWNERS_MAX),
	NEEDED(RUNNER_OWN "/owners/*", BYTES, .min = 32, .max = 32),
	/* missing in quotes of older runners */
	OPTIONAL(RUNNER_OWN "/sessions", TEXT, .words = "none owners any"),
	OPTIONAL(RUNNER_OWN "/confinement", OBJECT, .max = CONFINEMENT_MAX),
	NEEDED(RUNNER_OWN "/confinement/*", TRUTHS),
	NEEDED(RUNNER_OWN "/confinement/*/*", TRUTH),
	NEEDED(RUNNER_OWN "/key", TEXT, .words = "none stored ephemeral"),
	NEEDED(DEVICE, OBJECT),
	NEEDED(DEVICE "/hwmodel", BYTES, .min = 1, .max = 32),
	NEEDED(DEVICE "/dbgstat", TEXT, DEBUG),
	NEEDED(DEVICE_OWN, OBJECT),
	NEEDED(DEVICE_OWN "/selector", TEXT, .max = 64),
	NEEDED(DEVICE_OWN "/name", TEXT, .max = 128),
	OPTIONAL(DEVICE_OWN "/uuid", TEXT, .max = 64),
	OPTIONAL(DEVICE_OWN "/driver", TEXT, .max = 64),
	OPTIONAL(DEVICE_OWN "/vbios", TEXT, .max = 64),
	OPTIONAL(DEVICE_OWN "/capability", TEXT, .max = 16),
	OPTIONAL(DEVICE_OWN "/confidential", TEXT, .max = 32),
	NEEDED(DEVICE_OWN "/memory", INTEGER),
	NEEDED(DEVICE_OWN "/compute_units", INTEGER),
	NEEDED(DEVICE_OWN "/code", ARRAY, .max = SGPU_DEVICE_CODE_MAX),
	NEEDED(DEVICE_OWN "/code/*", OBJECT),
	NEEDED(DEVICE_OWN "/code/*/name", TEXT, .max = 64),
	NEEDED(DEVICE_OWN "/code/*/size", INTEGER),
	NEEDED(DEVICE_OWN "/code/*/digest", BYTES, .min = 32, .max = 32),
	NEEDED(DEVICE_OWN "/agreed", TRUTH),
	NEEDED(DEVICE_OWN "/agreement", TEXT, .max = 160),
	OPTIONAL(DEVICE_OWN "/agreement_key", BYTES, .min = 32, .max = 32),
	NEEDED(DEVICE_OWN "/preemption", TRUTH),
	NEEDED(SGPU_OWN, OBJECT),
	NEEDED(PLATFORM, OBJECT),
	NEEDED(PLATFORM "/kind", TEXT, .words = SGPU_PLATFORM_WORDS),
	NEEDED(PLATFORM "/seen", TEXT, .max = 256),
	NEEDED(PLATFORM "/virtual_machine", TRUTH),
	NEEDED(PLATFORM "/reports", TRUTH),
	NEEDED(PLATFORM "/row", TEXT, .max = 256),
	NEEDED(PLATFORM "/enclave_memory", TEXT, .max = 256),
	NEEDED(PLATFORM "/device_memory", TEXT, .max = 256),
	NEEDED(PLATFORM "/bus", TEXT, .max = 256),
	NEEDED(PLATFORM "/protects", TRUTH),
	OPTIONAL(SGPU_OWN "/owner_key_hash", BYTES, .min = 32, .max = 32),
	OPTIONAL(SGPU_OWN "/records", OBJECT, .max = SGPU_RECORDS_MAX),
	NEEDED(SGPU_OWN "/records/*", OBJECT),
	NEEDED(SGPU_OWN "/records/*/type", TEXT, .max = 128),
	NEEDED(SGPU_OWN "/records/*/sha512", BYTES, .min = 64, .max = 64),
	OPTIONAL(SGPU_OWN "/absent", OBJECT, .max = SGPU_RECORDS_MAX),
	NEEDED(SGPU_OWN "/absent/*", TEXT, .max = VERSION_MAX),
	{ .path = NULL },
};

const json_t *sgpu_claims_own(const json_t *object)
{
	return json_object_get(object, SGPU_OWN);
}

const json_t *sgpu_claims_device_of(const json_t *claims, const char **name)
{
	const json_t *gpu = sgpu_member_at(claims, "submods/gpu-0");

	if (name) {
		*name = gpu ? "gpu-0" : "cpu";
	}
	return gpu ? gpu : sgpu_member_at(claims, "submods/cpu");
}

/* Whether the owners are in order, each once, so that a set of owners has one text. */
static bool is_sorted(const json_t *owners)
{
	for (size_t i = 1; i < json_array_size(owners); i++) {
		if (strcmp(json_string_value(json_array_get(owners, i - 1)),
			   json_string_value(json_array_get(owners, i))) >= 0) {
			return false;
		}
	}
	return true;
}

/* Checks members that depend on each other. Returns the fault, or NULL. */
static const char *find_contradiction(const json_t *claims)
{
	const json_t *device = sgpu_claims_device_of(claims, NULL), *own = sgpu_claims_own(device);
	const char *key = json_string_value(sgpu_member_at(claims, RUNNER_OWN "/key")), *label;
	json_t *reason;

	if (json_object_size(json_object_get(claims, "submods")) != (device ? 2 : 1)) {
		return "there are two devices, or an unknown one";
	}
	if (own && json_is_true(json_object_get(own, "agreed")) !=
			   !!json_object_get(own, "agreement_key")) {
		return "'agreed' and 'agreement_key' do not belong together";
	}
	if (strcmp(key, "none") ? !json_object_get(claims, "cnf")
				: !!json_object_get(claims, "cnf")) {
		return "'cnf' and the runner's 'key' do not belong together";
	}
	if (!is_sorted(sgpu_member_at(claims, RUNNER_OWN "/owners"))) {
		return "'owners' is no sorted list";
	}
	json_object_foreach ((json_t *)sgpu_member_at(claims, SGPU_OWN "/absent"), label, reason) {
		if (json_object_get(sgpu_member_at(claims, SGPU_OWN "/records"), label)) {
			return "a record is named as present and as absent";
		}
	}
	return NULL;
}

int sgpu_claims_check(const json_t *claims, struct sgpu_error *error)
{
	struct sgpu_key key;
	int rc = sgpu_members_check(claims, "claims", table, error);
	const char *wrong = rc ? NULL : find_contradiction(claims);

	rc = wrong ? sgpu_fail(error, SGPU_EINVALID, "claims: %s", wrong) : rc;
	return rc || !json_object_get(claims, "cnf") ? rc
						     : sgpu_quote_recipient(claims, &key, error);
}

int sgpu_quote_recipient(const json_t *claims, struct sgpu_key *key, struct sgpu_error *error)
{
	const json_t *confirmation = json_object_get(claims, "cnf");
	json_t *jwk;
	const struct sgpu_field fields[] = { { "jwk", SGPU_FIELD_JSON, .to = &jwk } };

	memset(key, 0, sizeof(*key));
	if (!confirmation) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the quote names no key that batches can be sealed to");
	}
	int rc = sgpu_fields_read(confirmation, "claims: 'cnf'", fields, 1, error);
	if (rc) {
		return rc;
	}
	char *text = json_dumps(jwk, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' has no 'jwk'");
	}
	rc = sgpu_key_parse(text, strlen(text), "claims: 'cnf'", key, error);
	sgpu_free_wiped(&text, strlen(text));
	if (!rc && (key->kind != SGPU_KEY_X25519 || key->secret_known)) {
		rc = sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' is no public X25519 key");
	}
	if (rc) {
		sgpu_key_clear(key);
	}
	return rc;
}

/* ---- the report data: a thief of the attestation key can sign other claims, but gets no hardware
 * report over them ---- */
static const char label[] = "sgpu quote v1"; /* its NUL is hashed, too */

/* Returns a new object that shares all claims but those on the records, which are made later. */
static json_t *covered_claims(const json_t *claims)
{
	json_t *covered = json_copy((json_t *)claims),
	       *own = json_copy(json_object_get(claims, SGPU_OWN));

	if (own) {
		json_object_del(own, "records");
		json_object_del(own, "absent");
	}
	if (!covered || json_object_set_new(covered, SGPU_OWN, own)) {
		json_decref(covered);
		return NULL;
	}
	return covered;
}

int sgpu_quote_report_data(const json_t *claims, const uint8_t ak[SGPU_SHA256_SIZE],
			   uint8_t report_data[64], struct sgpu_error *error)
{
	uint8_t joined[sizeof(label) + SGPU_SHA256_SIZE + SGPU_SHA512_SIZE];
	json_t *covered = covered_claims(claims);
	char *text = NULL;
	size_t size = 0;
	int rc = covered ? sgpu_json_canonical(covered, &text, &size, error)
			 : sgpu_fail_nomem(error);

	json_decref(covered);
	memcpy(joined, label, sizeof(label));
	memcpy(joined + sizeof(label), ak, SGPU_SHA256_SIZE);
	rc = rc ? rc : sgpu_sha512(text, size, joined + sizeof(label) + SGPU_SHA256_SIZE, error);
	free(text);
	return rc ? rc : sgpu_sha512(joined, sizeof(joined), report_data, error);
}
