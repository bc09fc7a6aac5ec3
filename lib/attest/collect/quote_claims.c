/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims about this process, its device and its platform. Nothing proves them here; a verifier sees
 * who signed them.
 */
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

#include "attest/quote.h"

/* Sets a member; false when memory is out. Takes over `value`, which may be NULL for that. */
static bool put(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

static json_t *platform_claims(const struct sgpu_device_info *info,
			       const struct sgpu_device_agreement *agreement)
{
	struct sgpu_platform platform;
	bool on_gpu = info->selector[0] && strncmp(info->selector, "cpu", 3) != 0;

	sgpu_platform_detect(&platform);
	const struct sgpu_protection *row =
		sgpu_platform_protection(&platform, on_gpu, info->confidential, agreement->agreed);
	return json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:s, s:s, s:b}", "kind",
			 sgpu_platform_word(platform.kind), "seen", platform.seen,
			 "virtual_machine", platform.virtual_machine, "reports", platform.reports,
			 "row", row->row, "enclave_memory", row->enclave_memory, "device_memory",
			 row->device_memory, "bus", row->bus, "protects", row->protects);
}

static int own_claims(const struct sgpu_quote_subject *subject, const struct sgpu_device_info *info,
		      const struct sgpu_device_agreement *agreement, json_t **claims,
		      struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE] = { 0 };
	json_t *own = json_object();
	int code = subject->owner_key ? sgpu_sha256(subject->owner_key, 32, hash, error) : 0;

	if (!code && !(own && put(own, "platform", platform_claims(info, agreement)) &&
		       (!subject->owner_key ||
			put(own, "owner_key_hash", sgpu_json_from_bytes(hash, sizeof(hash)))) &&
		       (!subject->measurements ||
			put(own, "measurements", json_deep_copy(subject->measurements))))) {
		code = sgpu_fail_nomem(error);
	}
	if (code) {
		json_decref(own);
		return code;
	}
	*claims = own;
	return 0;
}

/* "cnf": the recipient's public key (RFC 7800). */
static json_t *recipient_claims(const struct sgpu_key *key)
{
	return json_pack("{s:{s:s, s:s, s:o, s:s}}", "jwk", "kty", "OKP", "crv", "X25519", "x",
			 sgpu_json_from_bytes(key->public_half, sizeof(key->public_half)), "kid",
			 key->kid);
}

int sgpu_quote_check_nonce(const uint8_t *nonce, size_t size, struct sgpu_error *error)
{
	if (!nonce || size < SGPU_NONCE_MIN || size > SGPU_NONCE_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a nonce has %d to %d bytes, not %zu",
				 SGPU_NONCE_MIN, SGPU_NONCE_MAX, nonce ? size : 0);
	}
	return SGPU_OK;
}

int sgpu_quote_claims(const struct sgpu_quote_subject *subject, int64_t now, json_t **claims,
		      struct sgpu_error *error)
{
	struct sgpu_device_agreement agreement = { .agreed = false };
	struct sgpu_device_info info = { .selector = "" };
	json_t *runner = NULL, *device = NULL, *own = NULL, *submods = json_object(), *made = NULL;
	const char *device_name = NULL;

	*claims = NULL;
	int code = submods ? sgpu_quote_check_nonce(subject->nonce, subject->nonce_size, error)
			   : sgpu_fail_nomem(error);
	if (!code && subject->recipient && subject->recipient->kind == SGPU_KEY_OCT) {
		code = sgpu_fail(error, SGPU_EUSAGE,
				 "batches are sealed to an X25519 key, not to a symmetric one");
	}
	code = code ? code : sgpu_claims_runner(subject, &runner, error);
	if (!code && subject->device) {
		code = sgpu_claims_device(subject, &device_name, &info, &agreement, &device, error);
	}
	code = code ? code : own_claims(subject, &info, &agreement, &own, error);
	if (!code) {
		bool whole = json_object_set(submods, "runner", runner) == 0 &&
			     (!device || json_object_set(submods, device_name, device) == 0);
		made = whole ? json_pack("{s:s, s:I, s:o, s:s, s:[s], s:s, s:o*, s:O, s:O}",
					 "eat_profile", SGPU_EAT_PROFILE, "iat", (json_int_t)now,
					 "eat_nonce",
					 sgpu_json_from_bytes(subject->nonce, subject->nonce_size),
					 "swname", "sgpu", "swversion", SGPU_VERSION, "dbgstat",
					 json_string_value(json_object_get(runner, "dbgstat")),
					 "cnf",
					 subject->recipient ? recipient_claims(subject->recipient)
							    : NULL,
					 "submods", submods, SGPU_OWN, own)
			     : NULL;
		code = made ? sgpu_claims_check(made, error) : sgpu_fail_nomem(error);
	}
	json_decref(runner);
	json_decref(device);
	json_decref(submods);
	json_decref(own);
	if (code) {
		json_decref(made);
		return code;
	}
	*claims = made;
	return 0;
}
