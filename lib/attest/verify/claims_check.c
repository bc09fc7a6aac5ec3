/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that claims have exactly the members, types and sizes of sgpu-quote(5). Claims to be
 * signed, and claims that somebody else has signed, are both checked here.
 */
#include <string.h>

#include <sgpu/base.h>

#include "attest/members.h"
#include "attest/quote.h"

enum { LIST_MAX = 4096, CONFINEMENT_MAX = 32, CONFINEMENT_NAME = 32 };

static const struct sgpu_member code_members[] = {
	{ "name", SGPU_MEMBER_TEXT, .max = 64 },
	{ .name = "size", .kind = SGPU_MEMBER_INTEGER },
	{ "digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ .name = NULL },
};
static const struct sgpu_member device_own_members[] = {
	{ "selector", SGPU_MEMBER_TEXT, .max = 64 },
	{ "name", SGPU_MEMBER_TEXT, .max = 128 },
	{ "uuid", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ "driver", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ "vbios", SGPU_MEMBER_TEXT, .optional = true, .max = 64 },
	{ "capability", SGPU_MEMBER_TEXT, .optional = true, .max = 16 },
	{ "confidential", SGPU_MEMBER_TEXT, .optional = true, .max = 32 },
	{ .name = "memory", .kind = SGPU_MEMBER_INTEGER },
	{ .name = "compute_units", .kind = SGPU_MEMBER_INTEGER },
	{ "code", SGPU_MEMBER_ARRAY, .max = SGPU_DEVICE_CODE_MAX, .inside = code_members },
	{ .name = "agreed", .kind = SGPU_MEMBER_TRUTH },
	{ "agreement", SGPU_MEMBER_TEXT, .max = 160 },
	{ "agreement_key", SGPU_MEMBER_BYTES, .optional = true, .min = 32, .max = 32 },
	{ .name = "preemption", .kind = SGPU_MEMBER_TRUTH },
	{ .name = NULL },
};
static const struct sgpu_member device_members[] = {
	{ "hwmodel", SGPU_MEMBER_BYTES, .min = 1, .max = 32 },
	{ "dbgstat", SGPU_MEMBER_TEXT, .max = 32 },
	{ SGPU_OWN, SGPU_MEMBER_OBJECT, .inside = device_own_members },
	{ .name = NULL },
};
static const struct sgpu_member runner_own_members[] = {
	{ "digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ .name = "size", .kind = SGPU_MEMBER_INTEGER },
	{ "measured", SGPU_MEMBER_TEXT, .max = 16 },
	{ "build_id", SGPU_MEMBER_TEXT, .optional = true, .min = 2, .max = 128 },
	{ .name = "modules", .kind = SGPU_MEMBER_TRUTH },
	{ .name = "files", .kind = SGPU_MEMBER_TRUTH },
	{ "owners", SGPU_MEMBER_ARRAY, .optional = true, .min = 1, .max = SGPU_QUOTE_OWNERS_MAX },
	{ "sessions", SGPU_MEMBER_TEXT, .optional = true,
	  .max = 16 }, /* runners did not say it at first */
	{ "confinement", SGPU_MEMBER_OBJECT, .optional = true },
	{ "key", SGPU_MEMBER_TEXT, .max = 16 },
	{ .name = NULL },
};
static const struct sgpu_member runner_members[] = {
	{ "swname", SGPU_MEMBER_TEXT, .min = 1, .max = 255 },
	{ "swversion", SGPU_MEMBER_ARRAY, .min = 1, .max = 1 },
	{ "dbgstat", SGPU_MEMBER_TEXT, .max = 32 },
	{ SGPU_OWN, SGPU_MEMBER_OBJECT, .inside = runner_own_members },
	{ .name = NULL },
};
static const struct sgpu_member submods_members[] = {
	{ "runner", SGPU_MEMBER_OBJECT, .inside = runner_members },
	{ "gpu-0", SGPU_MEMBER_OBJECT, .optional = true, .inside = device_members },
	{ "cpu", SGPU_MEMBER_OBJECT, .optional = true, .inside = device_members },
	{ .name = NULL },
};
static const struct sgpu_member platform_members[] = {
	{ "kind", SGPU_MEMBER_TEXT, .max = 32 },
	{ "seen", SGPU_MEMBER_TEXT, .max = 256 },
	{ .name = "virtual_machine", .kind = SGPU_MEMBER_TRUTH },
	{ .name = "reports", .kind = SGPU_MEMBER_TRUTH },
	{ "row", SGPU_MEMBER_TEXT, .max = 256 },
	{ "enclave_memory", SGPU_MEMBER_TEXT, .max = 256 },
	{ "device_memory", SGPU_MEMBER_TEXT, .max = 256 },
	{ "bus", SGPU_MEMBER_TEXT, .max = 256 },
	{ .name = "protects", .kind = SGPU_MEMBER_TRUTH },
	{ .name = NULL },
};
static const struct sgpu_member measurement_members[] = {
	{ "label", SGPU_MEMBER_TEXT, .max = 256 },
	{ .name = "va", .kind = SGPU_MEMBER_INTEGER },
	{ .name = "size", .kind = SGPU_MEMBER_INTEGER },
	{ "digest", SGPU_MEMBER_BYTES, .min = 32, .max = 32 },
	{ "keyed", SGPU_MEMBER_TRUTH, .optional = true },
	{ .name = NULL },
};
static const struct sgpu_member own_members[] = {
	{ "platform", SGPU_MEMBER_OBJECT, .inside = platform_members },
	{ "owner_key_hash", SGPU_MEMBER_BYTES, .optional = true, .min = 32, .max = 32 },
	{ "measurements", SGPU_MEMBER_ARRAY, .optional = true, .max = LIST_MAX,
	  .inside = measurement_members },
	{ "records", SGPU_MEMBER_OBJECT, .optional = true },
	{ "absent", SGPU_MEMBER_OBJECT, .optional = true },
	{ .name = NULL },
};
static const struct sgpu_member top_members[] = {
	{ "eat_profile", SGPU_MEMBER_TEXT, .max = 128 },
	{ .name = "iat", .kind = SGPU_MEMBER_INTEGER },
	{ "eat_nonce", SGPU_MEMBER_BYTES, .min = SGPU_NONCE_MIN, .max = SGPU_NONCE_MAX },
	{ "ueid", SGPU_MEMBER_BYTES, .optional = true, .min = SGPU_UEID_SIZE,
	  .max = SGPU_UEID_SIZE },
	{ "swname", SGPU_MEMBER_TEXT, .max = 64 },
	{ "swversion", SGPU_MEMBER_ARRAY, .min = 1, .max = 1 },
	{ "dbgstat", SGPU_MEMBER_TEXT, .max = 32 },
	{ "cnf", SGPU_MEMBER_OBJECT, .optional = true },
	{ "submods", SGPU_MEMBER_OBJECT, .inside = submods_members },
	{ SGPU_OWN, SGPU_MEMBER_OBJECT, .inside = own_members },
	{ .name = NULL },
};
static const struct sgpu_member record_members[] = {
	{ "type", SGPU_MEMBER_TEXT, .max = 128 },
	{ "sha512", SGPU_MEMBER_BYTES, .min = 64, .max = 64 },
	{ .name = NULL },
};

static int check_words(const json_t *claims, struct sgpu_error *error)
{
	static const char *const debug[] = { "enabled", "disabled", NULL };
	static const char *const measured[] = { "process", "file", NULL };
	static const char *const keys[] = { "none", "stored", "ephemeral", NULL };
	static const char *const sessions[] = { "none", "any", NULL };
	static const char *const profile[] = { SGPU_EAT_PROFILE, NULL }, *const software[] = {
		"sgpu", NULL
	};
	static const char *const platforms[] = { "plain", "gramine-direct", "sgx", "tdx", "snp",
						 NULL };
	const json_t *runner = sgpu_claims_submod(claims, "runner"),
		     *device = sgpu_claims_device_of(claims, NULL);
	int code = sgpu_members_word(claims, "claims", "eat_profile", profile, error);

	code = code ? code : sgpu_members_word(claims, "claims", "swname", software, error);
	code = code ? code : sgpu_members_word(claims, "claims", "dbgstat", debug, error);
	code = code ? code
		    : sgpu_members_word(runner, "claims/submods/runner", "dbgstat", debug, error);
	code = code ? code
		    : sgpu_members_word(sgpu_claims_own(runner), "claims/submods/runner",
					"measured", measured, error);
	code = code ? code
		    : sgpu_members_word(sgpu_claims_own(runner), "claims/submods/runner", "key",
					keys, error);
	if (!code && json_object_get(sgpu_claims_own(runner), "sessions")) {
		code = sgpu_members_word(sgpu_claims_own(runner), "claims/submods/runner",
					 "sessions", sessions, error);
	}
	code = code ? code
		    : sgpu_members_word(json_object_get(sgpu_claims_own(claims), "platform"),
					"claims: platform", "kind", platforms, error);
	return code || !device
		       ? code
		       : sgpu_members_word(device, "claims: device", "dbgstat", debug, error);
}

/* Thumbprints, in order, each once: one set of owners has one text. */
static int check_owners(const json_t *runner, struct sgpu_error *error)
{
	const json_t *owners = json_object_get(runner, "owners"), *item;
	const char *before = "";
	uint8_t hash[SGPU_SHA256_SIZE];
	size_t i;

	json_array_foreach ((json_t *)owners, i, item) {
		const char *text = json_string_value(item);
		if (sgpu_base64url_decode(text, hash, sizeof(hash), NULL) ||
		    strcmp(before, text) >= 0) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "claims: 'owners' is no sorted list of thumbprints");
		}
		before = text;
	}
	return 0;
}

/* Names with a truth each; `nested`: one may be such an object itself. */
static int check_truths(const json_t *object, bool nested, struct sgpu_error *error)
{
	const char *name;
	json_t *value;
	int code = 0;

	if (json_object_size(object) > CONFINEMENT_MAX) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "claims: 'confinement' has more than %d members", CONFINEMENT_MAX);
	}
	json_object_foreach ((json_t *)object, name, value) {
		if (nested && json_is_object(value)) {
			code = check_truths(value, false, error);
		} else if (!json_is_boolean(value) || strlen(name) > CONFINEMENT_NAME) {
			code = sgpu_fail(error, SGPU_EINVALID,
					 "claims: confinement: '%.32s' is neither true nor "
					 "false, or too long",
					 name);
		}
		if (code) {
			break;
		}
	}
	return code;
}

/* "records" and "absent": an object by labels each. */
static int check_records(const json_t *claims, struct sgpu_error *error)
{
	const json_t *own = sgpu_claims_own(claims);
	const json_t *records = json_object_get(own, "records"),
		     *absent = json_object_get(own, "absent");
	const char *label;
	json_t *value;

	if (json_object_size(records) > SGPU_RECORDS_MAX ||
	    json_object_size(absent) > SGPU_RECORDS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: more than %d records",
				 SGPU_RECORDS_MAX);
	}
	json_object_foreach ((json_t *)records, label, value) {
		int code = sgpu_members_check(value, "claims: records", record_members, error);
		if (code) {
			return code;
		}
	}
	json_object_foreach ((json_t *)absent, label, value) {
		if (!json_is_string(value) || json_object_get(records, label)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "claims: absent: '%.32s' is no reason, or it is there",
					 label);
		}
	}
	return 0;
}

/* What only makes sense together. */
static int check_whole(const json_t *claims, struct sgpu_error *error)
{
	const json_t *device = sgpu_claims_own(sgpu_claims_device_of(claims, NULL));
	const json_t *runner = sgpu_claims_own(sgpu_claims_submod(claims, "runner"));
	const json_t *submods = json_object_get(claims, "submods");
	bool key = strcmp(json_string_value(json_object_get(runner, "key")), "none") != 0;

	if (json_object_get(submods, "gpu-0") && json_object_get(submods, "cpu")) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: there are two devices");
	}
	if (device && json_is_true(json_object_get(device, "agreed")) !=
			      !!json_object_get(device, "agreement_key")) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "claims: 'agreed' and 'agreement_key' do not belong together");
	}
	if (key != !!json_object_get(claims, "cnf")) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "claims: 'cnf' and the runner's 'key' do not belong together");
	}
	return 0;
}

int sgpu_claims_check(const json_t *claims, struct sgpu_error *error)
{
	struct sgpu_key key;
	int code = sgpu_members_check(claims, "claims", top_members, error);

	code = code ? code : check_words(claims, error);
	code = code ? code : check_records(claims, error);
	code = code ? code : check_whole(claims, error);
	code = code ? code
		    : check_owners(sgpu_claims_own(sgpu_claims_submod(claims, "runner")), error);
	code = code ? code
		    : check_truths(
			      json_object_get(sgpu_claims_own(sgpu_claims_submod(claims, "runner")),
					      "confinement"),
			      true, error);
	return code || !json_object_get(claims, "cnf") ? code
						       : sgpu_quote_recipient(claims, &key, error);
}
