/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether claims have the members, types and sizes that sgpu-quote(5) gives them, and no others. Both sides go through
 * here: what is signed, and what was signed by somebody else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

#include "attest/quote.h"

enum { WHERE_SIZE = 160, TEXT_MAX = 4096, LIST_MAX = 4096 };

enum kind { TEXT, INTEGER, TRUTH, BYTES, OBJECT, ARRAY };

/* One member. Limits: characters of a text, bytes in base64url, items of an array. */
struct member {
	const char *name;
	enum kind kind;
	bool optional;
	size_t min, max;
	const struct member *inside;     /* of an object, or of each object in an array; NULL: checked elsewhere */
};

static const struct member code_members[] = {
	{ "name", TEXT, .max = 64 }, { .name = "size", .kind = INTEGER }, { "digest", BYTES, .min = 32, .max = 32 }, { .name = NULL },
};
static const struct member device_own_members[] = {
	{ "selector", TEXT, .max = 64 },
	{ "name", TEXT, .max = 128 },
	{ "uuid", TEXT, .optional = true, .max = 64 },
	{ "driver", TEXT, .optional = true, .max = 64 },
	{ "vbios", TEXT, .optional = true, .max = 64 },
	{ "capability", TEXT, .optional = true, .max = 16 },
	{ "confidential", TEXT, .optional = true, .max = 32 },
	{ .name = "memory", .kind = INTEGER },
	{ .name = "compute_units", .kind = INTEGER },
	{ "code", ARRAY, .max = SGPU_DEVICE_CODE_MAX, .inside = code_members },
	{ .name = "agreed", .kind = TRUTH },
	{ "agreement", TEXT, .max = 160 },
	{ "agreement_key", BYTES, .optional = true, .min = 32, .max = 32 },
	{ .name = "preemption", .kind = TRUTH },
	{ .name = NULL },
};
static const struct member device_members[] = {
	{ "hwmodel", BYTES, .min = 1, .max = 32 },
	{ "dbgstat", TEXT, .max = 32 },
	{ SGPU_OWN, OBJECT, .inside = device_own_members },
	{ .name = NULL },
};
static const struct member runner_own_members[] = {
	{ "digest", BYTES, .min = 32, .max = 32 },
	{ .name = "size", .kind = INTEGER },
	{ "measured", TEXT, .max = 16 },
	{ "build_id", TEXT, .optional = true, .min = 2, .max = 128 },
	{ .name = "modules", .kind = TRUTH },
	{ "key", TEXT, .max = 16 },
	{ .name = NULL },
};
static const struct member runner_members[] = {
	{ "swname", TEXT, .min = 1, .max = 255 },
	{ "swversion", ARRAY, .min = 1, .max = 1 },
	{ "dbgstat", TEXT, .max = 32 },
	{ SGPU_OWN, OBJECT, .inside = runner_own_members },
	{ .name = NULL },
};
static const struct member submods_members[] = {
	{ "runner", OBJECT, .inside = runner_members },
	{ "gpu-0", OBJECT, .optional = true, .inside = device_members },
	{ "cpu", OBJECT, .optional = true, .inside = device_members },
	{ .name = NULL },
};
static const struct member platform_members[] = {
	{ "kind", TEXT, .max = 32 },
	{ "seen", TEXT, .max = 256 },
	{ .name = "virtual_machine", .kind = TRUTH },
	{ .name = "reports", .kind = TRUTH },
	{ "row", TEXT, .max = 256 },
	{ "enclave_memory", TEXT, .max = 256 },
	{ "device_memory", TEXT, .max = 256 },
	{ "bus", TEXT, .max = 256 },
	{ .name = "protects", .kind = TRUTH },
	{ .name = NULL },
};
static const struct member grant_members[] = {
	{ .name = "channel", .kind = INTEGER },
	{ .name = "serial", .kind = INTEGER },
	{ "owner_hash", BYTES, .min = 32, .max = 32 },
	{ "processor", BYTES, .min = 16, .max = 16 },
	{ "enc", BYTES, .min = 32, .max = 32 },
	{ "sealed_cek", BYTES, .min = 48, .max = 48 },
	{ .name = NULL },
};
static const struct member measurement_members[] = {
	{ "label", TEXT, .max = 256 }, { .name = "va", .kind = INTEGER }, { .name = "size", .kind = INTEGER },
	{ "digest", BYTES, .min = 32, .max = 32 }, { "keyed", TRUTH, .optional = true }, { .name = NULL },
};
static const struct member own_members[] = {
	{ "platform", OBJECT, .inside = platform_members },
	{ "owner_key_hash", BYTES, .optional = true, .min = 32, .max = 32 },
	{ "grant", OBJECT, .optional = true, .inside = grant_members },
	{ "measurements", ARRAY, .optional = true, .max = LIST_MAX, .inside = measurement_members },
	{ "records", OBJECT, .optional = true },
	{ "absent", OBJECT, .optional = true },
	{ .name = NULL },
};
static const struct member top_members[] = {
	{ "eat_profile", TEXT, .max = 128 },
	{ .name = "iat", .kind = INTEGER },
	{ "eat_nonce", BYTES, .min = SGPU_NONCE_MIN, .max = SGPU_NONCE_MAX },
	{ "ueid", BYTES, .optional = true, .min = SGPU_UEID_SIZE, .max = SGPU_UEID_SIZE },
	{ "swname", TEXT, .max = 64 },
	{ "swversion", ARRAY, .min = 1, .max = 1 },
	{ "dbgstat", TEXT, .max = 32 },
	{ "cnf", OBJECT, .optional = true },
	{ "submods", OBJECT, .inside = submods_members },
	{ SGPU_OWN, OBJECT, .inside = own_members },
	{ .name = NULL },
};
static const struct member record_members[] = {
	{ "type", TEXT, .max = 128 }, { "sha512", BYTES, .min = 64, .max = 64 }, { .name = NULL },
};

static int check_object(const json_t *object, const char *where, const struct member *members, struct sgpu_error *error);

static int wrong(const char *where, const char *name, const char *what, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' %s", where, name, what);
}

static int check_bytes(const json_t *value, const char *where, const struct member *member, struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	uint8_t *data = NULL;
	size_t size = 0;

	if (!json_is_string(value)) {
		return wrong(where, member->name, "is not a string", error);
	}
	int code = sgpu_decode_base64url(json_string_value(value), json_string_length(value), member->name, &data, &size,
					 &inner);
	free(data);
	if (code) {
		return sgpu_fail(error, code, "%s: %s", where, inner.text);
	}
	return size >= member->min && size <= member->max ? 0 :
	       sgpu_fail(error, SGPU_EINVALID, "%s: '%s' has %zu bytes, not %zu to %zu", where, member->name, size,
			 member->min, member->max);
}

static int check_array(const json_t *value, const char *where, const struct member *member, struct sgpu_error *error)
{
	char inner[WHERE_SIZE];
	size_t count = json_array_size(value);

	if (!json_is_array(value) || count < member->min || count > member->max) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is not an array of %zu to %zu", where, member->name,
				 member->min, member->max);
	}
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(value, i);
		snprintf(inner, sizeof(inner), "%s/%s/%zu", where, member->name, i);
		if (!member->inside && (!json_is_string(item) || json_string_length(item) > TEXT_MAX)) {
			return sgpu_fail(error, SGPU_EINVALID, "%s is not a string", inner);
		}
		int code = member->inside ? check_object(item, inner, member->inside, error) : 0;
		if (code) {
			return code;
		}
	}
	return 0;
}

static int check_member(const json_t *value, const char *where, const struct member *member, struct sgpu_error *error)
{
	char inner[WHERE_SIZE];

	switch (member->kind) {
	case TEXT:
		return !json_is_string(value) ? wrong(where, member->name, "is not a string", error) :
		       json_string_length(value) < member->min || json_string_length(value) > member->max ?
		       wrong(where, member->name, "is too short or too long", error) : 0;
	case INTEGER:
		return !json_is_integer(value) || json_integer_value(value) < 0 ||
		       (uint64_t)json_integer_value(value) >= SGPU_JSON_INTEGER_MAX ?
		       wrong(where, member->name, "is not a whole number between 0 and 2^53", error) : 0;
	case TRUTH:
		return json_is_boolean(value) ? 0 : wrong(where, member->name, "is neither true nor false", error);
	case BYTES:
		return check_bytes(value, where, member, error);
	case ARRAY:
		return check_array(value, where, member, error);
	case OBJECT:
	default:
		snprintf(inner, sizeof(inner), "%s/%s", where, member->name);
		return !json_is_object(value) ? wrong(where, member->name, "is not an object", error) :
		       member->inside ? check_object(value, inner, member->inside, error) : 0;
	}
}

static int check_object(const json_t *object, const char *where, const struct member *members, struct sgpu_error *error)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is not an object", where);
	}
	json_object_foreach((json_t *)object, key, value) {
		const struct member *member = members;
		while (member->name && strcmp(member->name, key)) {
			member++;
		}
		if (!member->name) {
			return sgpu_fail(error, SGPU_EINVALID, "%s: unknown member '%.64s'", where, key);
		}
		int code = check_member(value, where, member, error);
		if (code) {
			return code;
		}
	}
	for (const struct member *member = members; member->name; member++) {
		if (!member->optional && !json_object_get(object, member->name)) {
			return wrong(where, member->name, "is missing", error);
		}
	}
	return 0;
}

/* Whether a text is one of a few words. */
static int check_word(const json_t *object, const char *where, const char *key, const char *const *words,
		      struct sgpu_error *error)
{
	const char *text = json_string_value(json_object_get(object, key));

	for (; *words; words++) {
		if (text && !strcmp(text, *words)) {
			return 0;
		}
	}
	return sgpu_fail(error, SGPU_EINVALID, "%s: '%s' is '%.64s', which is none of its words", where, key,
			 text ? text : "");
}

static int check_words(const json_t *claims, struct sgpu_error *error)
{
	static const char *const debug[] = { "enabled", "disabled", NULL };
	static const char *const measured[] = { "process", "file", NULL };
	static const char *const keys[] = { "none", "stored", "ephemeral", NULL };
	static const char *const profile[] = { SGPU_EAT_PROFILE, NULL }, *const software[] = { "sgpu", NULL };
	static const char *const platforms[] = { "plain", "gramine-direct", "sgx", "tdx", "snp", NULL };
	const json_t *runner = sgpu_claims_submod(claims, "runner"), *device = sgpu_claims_device_of(claims, NULL);
	int code = check_word(claims, "claims", "eat_profile", profile, error);

	code = code ? code : check_word(claims, "claims", "swname", software, error);
	code = code ? code : check_word(claims, "claims", "dbgstat", debug, error);
	code = code ? code : check_word(runner, "claims/submods/runner", "dbgstat", debug, error);
	code = code ? code : check_word(sgpu_claims_own(runner), "claims/submods/runner", "measured", measured, error);
	code = code ? code : check_word(sgpu_claims_own(runner), "claims/submods/runner", "key", keys, error);
	code = code ? code : check_word(json_object_get(sgpu_claims_own(claims), "platform"), "claims: platform", "kind",
					platforms, error);
	return code || !device ? code : check_word(device, "claims: device", "dbgstat", debug, error);
}

/* "records" and "absent": an object by labels each. */
static int check_records(const json_t *claims, struct sgpu_error *error)
{
	const json_t *own = sgpu_claims_own(claims);
	const json_t *records = json_object_get(own, "records"), *absent = json_object_get(own, "absent");
	const char *label;
	json_t *value;

	if (json_object_size(records) > SGPU_RECORDS_MAX || json_object_size(absent) > SGPU_RECORDS_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: more than %d records", SGPU_RECORDS_MAX);
	}
	json_object_foreach((json_t *)records, label, value) {
		int code = check_object(value, "claims: records", record_members, error);
		if (code) {
			return code;
		}
	}
	json_object_foreach((json_t *)absent, label, value) {
		if (!json_is_string(value) || json_object_get(records, label)) {
			return sgpu_fail(error, SGPU_EINVALID, "claims: absent: '%.32s' is no reason, or it is there", label);
		}
	}
	return 0;
}

/* What only makes sense together. */
static int check_whole(const json_t *claims, struct sgpu_error *error)
{
	const json_t *device = sgpu_claims_own(sgpu_claims_device_of(claims, NULL));
	const json_t *runner = sgpu_claims_own(sgpu_claims_submod(claims, "runner"));
	const json_t *submods = json_object_get(claims, "submods"), *grant = json_object_get(sgpu_claims_own(claims), "grant");
	bool key = strcmp(json_string_value(json_object_get(runner, "key")), "none") != 0;

	if (json_object_get(submods, "gpu-0") && json_object_get(submods, "cpu")) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: there are two devices");
	}
	if (device && json_is_true(json_object_get(device, "agreed")) != !!json_object_get(device, "agreement_key")) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: 'agreed' and 'agreement_key' do not belong together");
	}
	if (key != !!json_object_get(claims, "cnf")) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: 'cnf' and the runner's 'key' do not belong together");
	}
	if (grant && ((uint64_t)json_integer_value(json_object_get(grant, "channel")) > UINT32_MAX ||
		      (uint64_t)json_integer_value(json_object_get(grant, "serial")) > UINT32_MAX)) {
		return sgpu_fail(error, SGPU_EINVALID, "claims: the channel's numbers are too large");
	}
	return 0;
}

int sgpu_claims_check(const json_t *claims, struct sgpu_error *error)
{
	struct sgpu_key key;
	int code = check_object(claims, "claims", top_members, error);

	code = code ? code : check_words(claims, error);
	code = code ? code : check_records(claims, error);
	code = code ? code : check_whole(claims, error);
	return code || !json_object_get(claims, "cnf") ? code : sgpu_quote_recipient(claims, &key, error);
}
