/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: what a quote must say to be good enough. The text is sgpu-policy(5).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/members.h"
#include "attest/appraise/policy.h"

enum { TEXT_SIZE_MAX = 1 << 18, DIGESTS_MAX = 1024, VERSION = 1, VMPL_MAX = 3 };

static const struct sgpu_member runner_members[] = {
	{ "digests", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX,
	  .digits = SGPU_DIGEST_SIZE },
	{ "version", SGPU_MEMBER_TEXT, .optional = true, .min = 1, .max = 64 },
	{ "debug", SGPU_MEMBER_TRUTH, .optional = true },
	{ "modules", SGPU_MEMBER_TRUTH, .optional = true },
	{ "files", SGPU_MEMBER_TRUTH, .optional = true },
	{ "owners", SGPU_MEMBER_LIST, .optional = true, .max = SGPU_QUOTE_OWNERS_MAX },
	{ "sessions", SGPU_MEMBER_TEXT, .optional = true, .max = 16 },
	{ "confinement", SGPU_MEMBER_TRUTH, .optional = true },
	{ "key", SGPU_MEMBER_TEXT, .optional = true, .max = 16 },
	{ "process", SGPU_MEMBER_TRUTH, .optional = true },
	{ .name = NULL },
};
static const struct sgpu_member device_members[] = {
	{ "code", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX,
	  .digits = SGPU_DIGEST_SIZE },
	{ "driver", SGPU_MEMBER_TEXT, .optional = true, .min = 1, .max = 64 },
	{ "confidential", SGPU_MEMBER_TRUTH, .optional = true },
	{ "agreement", SGPU_MEMBER_TRUTH, .optional = true },
	{ "preemption", SGPU_MEMBER_TRUTH, .optional = true },
	{ .name = NULL },
};
static const struct sgpu_member platform_members[] = {
	{ "at_least", SGPU_MEMBER_TEXT, .optional = true, .max = 32 },
	{ "report", SGPU_MEMBER_TRUTH, .optional = true },
	{ "measurements", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX, .digits = 48 },
	{ "rtmr0", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX, .digits = 48 },
	{ "rtmr1", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX, .digits = 48 },
	{ "rtmr2", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX, .digits = 48 },
	{ "rtmr3", SGPU_MEMBER_LIST, .optional = true, .max = DIGESTS_MAX, .digits = 48 },
	{ "tcb", SGPU_MEMBER_HEX, .optional = true, .max = 8 },
	{ "vmpl", SGPU_MEMBER_INTEGER, .optional = true },
	{ .name = "migration", .kind = SGPU_MEMBER_TRUTH, .optional = true },
	{ .name = "sept_ve", .kind = SGPU_MEMBER_TRUTH, .optional = true },
	{ .name = NULL },
};
static const struct sgpu_member policy_members[] = {
	{ .name = "version", .kind = SGPU_MEMBER_INTEGER },
	{ "name", SGPU_MEMBER_TEXT, .optional = true, .min = 1, .max = 256 },
	{ "runner", SGPU_MEMBER_OBJECT, .optional = true, .inside = runner_members },
	{ "device", SGPU_MEMBER_OBJECT, .optional = true, .inside = device_members },
	{ "platform", SGPU_MEMBER_OBJECT, .optional = true, .inside = platform_members },
	{ "machines", SGPU_MEMBER_ARRAY, .optional = true, .max = DIGESTS_MAX,
	  .digits = SGPU_SHA256_SIZE },
	{ "certificate_age", SGPU_MEMBER_INTEGER, .optional = true },
	{ "revoked", SGPU_MEMBER_ARRAY, .optional = true, .max = DIGESTS_MAX,
	  .digits = SGPU_SHA256_SIZE },
	{ .name = NULL },
};

/* Those of one rank are different, and none is better. */
static const struct {
	const char *word;
	int rank;
} platforms[] = { { "plain", 0 },
		  { "gramine-direct", 1 },
		  { "sgx", 2 },
		  { "tdx", 2 },
		  { "snp", 2 } };

int sgpu_platform_rank(const char *word)
{
	for (size_t i = 0; word && i < SGPU_ARRAY_LENGTH(platforms); i++) {
		if (!strcmp(word, platforms[i].word)) {
			return platforms[i].rank;
		}
	}
	return -1;
}

bool sgpu_platform_is_tee(const char *word)
{
	return sgpu_platform_rank(word) == 2;
}

bool sgpu_policy_needs_report(const json_t *platform)
{
	static const char *const of_report[] = { "measurements", "rtmr0",     "rtmr1",
						 "rtmr2",	 "rtmr3",     "tcb",
						 "vmpl",	 "migration", "sept_ve" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(of_report); i++) {
		if (json_object_get(platform, of_report[i])) {
			return true;
		}
	}
	return false;
}

int sgpu_version_compare(const char *a, const char *b)
{
	a += strcspn(a, "0123456789");
	b += strcspn(b, "0123456789");
	while (isdigit((unsigned char)*a) || isdigit((unsigned char)*b)) {
		/* A number that is missing is less than zero: 1.0 is newer than 1. */
		char *end_a = (char *)a, *end_b = (char *)b;
		long long left = isdigit((unsigned char)*a) ? strtoll(a, &end_a, 10) : -1;
		long long right = isdigit((unsigned char)*b) ? strtoll(b, &end_b, 10) : -1;
		if (left != right) {
			return left < right ? -1 : 1;
		}
		a = *end_a == '.' ? end_a + 1 : "";
		b = *end_b == '.' ? end_b + 1 : "";
	}
	return 0;
}

/* "580,65" would be read as 580, which demands less than intended. */
static bool is_version(const char *text)
{
	bool digit = false;

	for (; *text; text++) {
		if (*text == '.' ? !digit : !isdigit((unsigned char)*text)) {
			return false;
		}
		digit = *text != '.';
	}
	return digit;
}

static int check_owners(const json_t *owners, const char *name, struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE];
	const json_t *item;
	size_t i;

	json_array_foreach ((json_t *)owners, i, item) {
		if (sgpu_base64url_decode(json_string_value(item), hash, sizeof(hash), NULL)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "%s/runner/owners/%zu is no thumbprint of a key", name, i);
		}
	}
	return 0;
}

/* One that stands there twice may be a slip for another, which would then not be refused. */
static int check_revoked(const json_t *revoked, const char *name, struct sgpu_error *error)
{
	for (size_t i = 0; i < json_array_size(revoked); i++) {
		for (size_t j = 0; j < i; j++) {
			if (json_equal(json_array_get(revoked, i), json_array_get(revoked, j))) {
				return sgpu_fail(error, SGPU_EINVALID,
						 "%s/revoked/%zu stands there twice", name, i);
			}
		}
	}
	return 0;
}

/* Words and numbers that a table does not check. */
static int check_values(const json_t *document, const char *name, struct sgpu_error *error)
{
	static const char *const kinds[] = { "plain", "gramine-direct", "sgx", "tdx", "snp", NULL };
	static const char *const keys[] = { "stored", "ephemeral", NULL }, *const sessions[] = {
		"none", "any", NULL
	};
	const json_t *runner = json_object_get(document, "runner"),
		     *platform = json_object_get(document, "platform");
	const json_t *device = json_object_get(document, "device");
	const char *version = json_string_value(json_object_get(runner, "version"));
	const char *driver = json_string_value(json_object_get(device, "driver"));
	int code = 0;

	if (json_integer_value(json_object_get(document, "version")) != VERSION) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: 'version' is not %d", name, VERSION);
	}
	if (json_object_get(runner, "key")) {
		code = sgpu_members_word(runner, name, "key", keys, error);
	}
	if (!code && json_object_get(runner, "sessions")) {
		code = sgpu_members_word(runner, name, "sessions", sessions, error);
	}
	if (!code && json_object_get(platform, "at_least")) {
		code = sgpu_members_word(platform, name, "at_least", kinds, error);
	}
	if (!code && ((version && !is_version(version)) || (driver && !is_version(driver)))) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'version' or 'driver' is not numbers with dots between them",
				 name);
	}
	if (!code && json_integer_value(json_object_get(platform, "vmpl")) > VMPL_MAX) {
		code = sgpu_fail(error, SGPU_EINVALID, "%s: 'vmpl' is not 0 to %d", name, VMPL_MAX);
	}
	if (!code && json_is_false(json_object_get(platform, "report")) &&
	    sgpu_policy_needs_report(platform)) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "%s: 'platform' asks for what only a report has, and 'report' "
				 "is false",
				 name);
	}
	code = code ? code : check_revoked(json_object_get(document, "revoked"), name, error);
	return code ? code : check_owners(json_object_get(runner, "owners"), name, error);
}

int sgpu_policy_parse(const char *text, size_t size, const char *name, struct sgpu_policy **policy,
		      struct sgpu_error *error)
{
	struct sgpu_error inner = { 0 };
	uint8_t hash[SGPU_SHA256_SIZE] = { 0 };
	char hex[2 * SGPU_SHA256_SIZE + 1];
	json_t *document = NULL;
	int line = 0, column = 0;

	*policy = NULL;
	if (size > TEXT_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: longer than %d bytes, so not a policy",
				 name, TEXT_SIZE_MAX);
	}
	if (sgpu_json_parse(text, size, &document, &line, &column, &inner)) {
		return sgpu_fail(error, SGPU_EINVALID, "%s:%d:%d: %s", name, line, column,
				 inner.text);
	}
	int code = sgpu_members_check(document, name, policy_members, error);
	code = code ? code : check_values(document, name, error);
	code = code ? code : sgpu_sha256(text, size, hash, error);
	struct sgpu_policy *made = code ? NULL : calloc(1, sizeof(*made));
	if (!made) {
		json_decref(document);
		return code ? code : sgpu_fail_nomem(error);
	}
	sgpu_hex_encode(hash, sizeof(hash), hex);
	snprintf(made->id, sizeof(made->id), "tag:sgpu.dev,2026:policy#%s", hex);
	made->document = document;
	*policy = made;
	return 0;
}

void sgpu_policy_free(struct sgpu_policy **policy)
{
	if (policy && *policy) {
		json_decref((*policy)->document);
		free(*policy);
		*policy = NULL;
	}
}
