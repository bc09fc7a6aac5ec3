/* SPDX-License-Identifier: Apache-2.0
 *
 * The claims of sgpu-quote(5), in one table. Claims to be signed, and claims that somebody else has
 * signed, are both checked by it.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "device/device.h"

#define DEVICE "submods/*"
#define DEVICE_OWN DEVICE "/" SGPU_OWN
#define RUNNER "submods/runner"
#define PLATFORM SGPU_OWN "/platform"
#define DEBUG .words = "enabled disabled"

enum { LIST_MAX = 4096, VERSION_MAX = 4096, CONFINEMENT_MAX = 32 };

static const struct sgpu_member table[] = {
	{ "eat_profile", SGPU_MEMBER_TEXT, .words = SGPU_EAT_PROFILE },
	{ "iat", SGPU_MEMBER_INTEGER, .optional = false },
	{ "eat_nonce", SGPU_MEMBER_BYTES, .min = SGPU_NONCE_MIN, .max = SGPU_NONCE_MAX },
	{ "ueid", SGPU_MEMBER_BYTES, .optional = true, SGPU_UEID_SIZE, SGPU_UEID_SIZE },
	{ "swname", SGPU_MEMBER_TEXT, .words = "sgpu" },
	{ "swversion", SGPU_MEMBER_ARRAY, .min = 1, .max = 1 },
	{ "swversion/*", SGPU_MEMBER_TEXT, .max = VERSION_MAX },
	{ "dbgstat", SGPU_MEMBER_TEXT, DEBUG },
	{ "cnf", SGPU_MEMBER_ANY, .optional = true }, /* sgpu_quote_recipient */
	{ "submods", SGPU_MEMBER_OBJECT, .optional = false },
	{ RUNNER, SGPU_MEMBER_OBJECT, .optional = false },
	{ RUNNER "/swname", SGPU_MEMBER_TEXT, .min = 1, .max = 255 },
	{ RUNNER "/swversion", SGPU_MEMBER_ARRAY, .min = 1, .max = 1 },
	{ RUNNER "/swversion/*", SGPU_MEMBER_TEXT, .max = VERSION_MAX },
	{ RUNNER "/dbgstat", SGPU_MEMBER_TEXT, DEBUG },
	{ SGPU_RUNNER_OWN, SGPU_MEMBER_OBJECT, .optional = false },
	{ SGPU_RUNNER_OWN "/digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ SGPU_RUNNER_OWN "/size", SGPU_MEMBER_INTEGER, .optional = false },
	{ SGPU_RUNNER_OWN "/measured", SGPU_MEMBER_TEXT, .words = "process file" },
	{ SGPU_RUNNER_OWN "/build_id", SGPU_MEMBER_TEXT, .optional = true, 2, 128 },
	{ SGPU_RUNNER_OWN "/modules", SGPU_MEMBER_TRUTH, .optional = false },
	{ SGPU_RUNNER_OWN "/files", SGPU_MEMBER_TRUTH, .optional = false },
	{ SGPU_RUNNER_OWN "/owners", SGPU_MEMBER_ARRAY, .optional = true, 1,
	  SGPU_QUOTE_OWNERS_MAX },
	{ SGPU_RUNNER_OWN "/owners/*", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	/* Runners did not say it at first. */
	{ SGPU_RUNNER_OWN "/sessions", SGPU_MEMBER_TEXT, .optional = true, .words = "none any" },
	{ SGPU_RUNNER_OWN "/confinement", SGPU_MEMBER_OBJECT, .optional = true,
	  .max = CONFINEMENT_MAX },
	{ SGPU_RUNNER_OWN "/confinement/*", SGPU_MEMBER_TRUTHS, .optional = false },
	{ SGPU_RUNNER_OWN "/confinement/*/*", SGPU_MEMBER_TRUTH, .optional = false },
	{ SGPU_RUNNER_OWN "/key", SGPU_MEMBER_TEXT, .words = "none stored ephemeral" },
	{ DEVICE, SGPU_MEMBER_OBJECT, .optional = false },
	{ DEVICE "/hwmodel", SGPU_MEMBER_BYTES, .min = 1, .max = 32 },
	{ DEVICE "/dbgstat", SGPU_MEMBER_TEXT, DEBUG },
	{ DEVICE_OWN, SGPU_MEMBER_OBJECT, .optional = false },
	{ DEVICE_OWN "/selector", SGPU_MEMBER_TEXT, .max = 64 },
	{ DEVICE_OWN "/name", SGPU_MEMBER_TEXT, .max = 128 },
	{ DEVICE_OWN "/uuid", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ DEVICE_OWN "/driver", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ DEVICE_OWN "/vbios", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ DEVICE_OWN "/capability", SGPU_MEMBER_TEXT, .optional = true, .max = 16 },
	{ DEVICE_OWN "/confidential", SGPU_MEMBER_TEXT, .optional = true, .max = 32 },
	{ DEVICE_OWN "/memory", SGPU_MEMBER_INTEGER, .optional = false },
	{ DEVICE_OWN "/compute_units", SGPU_MEMBER_INTEGER, .optional = false },
	{ DEVICE_OWN "/code", SGPU_MEMBER_ARRAY, .max = SGPU_DEVICE_CODE_MAX },
	{ DEVICE_OWN "/code/*", SGPU_MEMBER_OBJECT, .optional = false },
	{ DEVICE_OWN "/code/*/name", SGPU_MEMBER_TEXT, .max = 64 },
	{ DEVICE_OWN "/code/*/size", SGPU_MEMBER_INTEGER, .optional = false },
	{ DEVICE_OWN "/code/*/digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ DEVICE_OWN "/agreed", SGPU_MEMBER_TRUTH, .optional = false },
	{ DEVICE_OWN "/agreement", SGPU_MEMBER_TEXT, .max = 160 },
	{ DEVICE_OWN "/agreement_key", SGPU_MEMBER_BYTES, .optional = true, 32, 32 },
	{ DEVICE_OWN "/preemption", SGPU_MEMBER_TRUTH, .optional = false },
	{ SGPU_OWN, SGPU_MEMBER_OBJECT, .optional = false },
	{ PLATFORM, SGPU_MEMBER_OBJECT, .optional = false },
	{ PLATFORM "/kind", SGPU_MEMBER_TEXT, .words = SGPU_PLATFORM_WORDS },
	{ PLATFORM "/seen", SGPU_MEMBER_TEXT, .max = 256 },
	{ PLATFORM "/virtual_machine", SGPU_MEMBER_TRUTH, .optional = false },
	{ PLATFORM "/reports", SGPU_MEMBER_TRUTH, .optional = false },
	{ PLATFORM "/row", SGPU_MEMBER_TEXT, .max = 256 },
	{ PLATFORM "/enclave_memory", SGPU_MEMBER_TEXT, .max = 256 },
	{ PLATFORM "/device_memory", SGPU_MEMBER_TEXT, .max = 256 },
	{ PLATFORM "/bus", SGPU_MEMBER_TEXT, .max = 256 },
	{ PLATFORM "/protects", SGPU_MEMBER_TRUTH, .optional = false },
	{ SGPU_OWN "/owner_key_hash", SGPU_MEMBER_BYTES, .optional = true, 32, 32 },
	{ SGPU_OWN "/measurements", SGPU_MEMBER_ARRAY, .optional = true, .max = LIST_MAX },
	{ SGPU_OWN "/measurements/*", SGPU_MEMBER_OBJECT, .optional = false },
	{ SGPU_OWN "/measurements/*/label", SGPU_MEMBER_TEXT, .max = 256 },
	{ SGPU_OWN "/measurements/*/va", SGPU_MEMBER_INTEGER, .optional = false },
	{ SGPU_OWN "/measurements/*/size", SGPU_MEMBER_INTEGER, .optional = false },
	{ SGPU_OWN "/measurements/*/digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ SGPU_OWN "/measurements/*/keyed", SGPU_MEMBER_TRUTH, .optional = true },
	{ SGPU_OWN "/records", SGPU_MEMBER_OBJECT, .optional = true, .max = SGPU_RECORDS_MAX },
	{ SGPU_OWN "/records/*", SGPU_MEMBER_OBJECT, .optional = false },
	{ SGPU_OWN "/records/*/type", SGPU_MEMBER_TEXT, .max = 128 },
	{ SGPU_OWN "/records/*/sha512", SGPU_MEMBER_BYTES, .min = 64, .max = 64 },
	{ SGPU_OWN "/absent", SGPU_MEMBER_OBJECT, .optional = true, .max = SGPU_RECORDS_MAX },
	{ SGPU_OWN "/absent/*", SGPU_MEMBER_TEXT, .max = VERSION_MAX },
	{ .path = NULL },
};

const json_t *sgpu_claims_own(const json_t *object)
{
	return json_object_get(object, SGPU_OWN);
}

const json_t *sgpu_claims_submod(const json_t *claims, const char *name)
{
	return json_object_get(json_object_get(claims, "submods"), name);
}

const json_t *sgpu_claims_device_of(const json_t *claims, const char **name)
{
	const json_t *gpu = sgpu_claims_submod(claims, "gpu-0");

	if (name) {
		*name = gpu ? "gpu-0" : "cpu";
	}
	return gpu ? gpu : sgpu_claims_submod(claims, "cpu");
}

/* In order, each once: one set of owners has one text. */
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

/* What only makes sense together: what is wrong with it, or NULL. */
static const char *find_contradiction(const json_t *claims)
{
	const json_t *device = sgpu_claims_device_of(claims, NULL), *own = sgpu_claims_own(device);
	const char *key = json_string_value(sgpu_member_at(claims, SGPU_RUNNER_OWN "/key")), *label;
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
	if (!is_sorted(sgpu_member_at(claims, SGPU_RUNNER_OWN "/owners"))) {
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
	static const char *const members[] = { "jwk", NULL };
	const json_t *confirmation = json_object_get(claims, "cnf");

	memset(key, 0, sizeof(*key));
	if (!confirmation) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the quote names no key that batches can be sealed to");
	}
	int rc = sgpu_json_only(confirmation, "claims: 'cnf'", members, error);
	if (rc) {
		return rc;
	}
	char *text =
		json_dumps(json_object_get(confirmation, "jwk"), JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' has no 'jwk'");
	}
	rc = sgpu_key_parse(text, strlen(text), "claims: 'cnf'", key, error);
	sgpu_free_wiped(&text, strlen(text));
	if (!rc && key->kind != SGPU_KEY_X25519_PUBLIC) {
		rc = sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' is no public X25519 key");
	}
	if (rc) {
		sgpu_key_clear(key);
	}
	return rc;
}

/* ---- the report data of the hardware's records: a hash of the quote's claims, and not only of the
 * attestation key. A thief of that key can sign other claims, but gets no report of the hardware
 * over them ---- */
static const char label[] = "sgpu quote v1"; /* its NUL is hashed, too */

/* All claims but those on the records, which are made after this: a new object that shares the
 * others. */
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
