/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: what a quote must say to be accepted. sgpu-policy(5) describes their text.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/appraise/appraise.h"

enum { TEXT_SIZE_MAX = 1 << 18, DIGESTS_MAX = 1024 };

static const struct sgpu_member table[] = {
	NEEDED("version", INTEGER),
	OPTIONAL("name", TEXT, .min = 1, .max = 256),
	OPTIONAL("runner", OBJECT),
	OPTIONAL("runner/digests", LIST, .max = DIGESTS_MAX),
	NEEDED("runner/digests/*", HEX, .max = SGPU_KT128_SIZE),
	OPTIONAL("runner/version", TEXT, .min = 1, .max = 64),
	OPTIONAL("runner/debug", TRUTH),
	OPTIONAL("runner/modules", TRUTH),
	OPTIONAL("runner/files", TRUTH),
	OPTIONAL("runner/owners", LIST, .max = SGPU_QUOTE_OWNERS_MAX),
	NEEDED("runner/owners/*", BYTES, .min = 32, .max = 32),
	OPTIONAL("runner/sessions", TEXT, .words = "none owners any"),
	OPTIONAL("runner/confinement", TRUTH),
	OPTIONAL("runner/key", TEXT, .words = "stored ephemeral"),
	OPTIONAL("runner/process", TRUTH),
	OPTIONAL("device", OBJECT),
	OPTIONAL("device/code", LIST, .max = DIGESTS_MAX),
	NEEDED("device/code/*", HEX, .max = SGPU_KT128_SIZE),
	OPTIONAL("device/driver", TEXT, .min = 1, .max = 64),
	OPTIONAL("device/confidential", TRUTH),
	OPTIONAL("device/agreement", TRUTH),
	OPTIONAL("device/preemption", TRUTH),
	OPTIONAL("platform", OBJECT),
	OPTIONAL("platform/at_least", TEXT, .words = SGPU_PLATFORM_WORDS),
	OPTIONAL("platform/report", TRUTH),
	OPTIONAL("platform/measurements", LIST, .max = DIGESTS_MAX),
	NEEDED("platform/measurements/*", HEX, .max = 48),
	OPTIONAL("platform/rtmr0", LIST, .max = DIGESTS_MAX),
	NEEDED("platform/rtmr0/*", HEX, .max = 48),
	OPTIONAL("platform/rtmr1", LIST, .max = DIGESTS_MAX),
	NEEDED("platform/rtmr1/*", HEX, .max = 48),
	OPTIONAL("platform/rtmr2", LIST, .max = DIGESTS_MAX),
	NEEDED("platform/rtmr2/*", HEX, .max = 48),
	OPTIONAL("platform/rtmr3", LIST, .max = DIGESTS_MAX),
	NEEDED("platform/rtmr3/*", HEX, .max = 48),
	OPTIONAL("platform/tcb", HEX, .max = 8),
	OPTIONAL("platform/vmpl", INTEGER),
	OPTIONAL("platform/migration", TRUTH),
	OPTIONAL("platform/sept_ve", TRUTH),
	OPTIONAL("machines", ARRAY, .max = DIGESTS_MAX),
	NEEDED("machines/*", HEX, .max = SGPU_SHA256_SIZE),
	OPTIONAL("certificate_age", INTEGER),
	OPTIONAL("revoked", ARRAY, .max = DIGESTS_MAX),
	NEEDED("revoked/*", HEX, .max = SGPU_SHA256_SIZE),
	{ .path = NULL },
};

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

/* Whether a text, or none, is numbers with dots between them. "580,65" would be read as 580, which
 * demands less than intended. */
static bool is_version(const char *text)
{
	const size_t length = text ? strlen(text) : 0;

	return !text || (strspn(text, "0123456789.") == length && *text != '.' && *text &&
			 text[length - 1] != '.' && !strstr(text, ".."));
}

/* Refuses a value that is listed twice: it may be a slip for another value, which would then not be
 * revoked. */
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

/* Checks values that depend on each other, or that no table can check. Returns what is wrong, or
 * NULL. */
static const char *find_fault(const json_t *document)
{
	const json_t *platform = json_object_get(document, "platform");

	if (json_integer_value(json_object_get(document, "version")) != 1) {
		return "'version' is not 1";
	}
	if (!is_version(json_string_value(sgpu_member_at(document, "runner/version"))) ||
	    !is_version(json_string_value(sgpu_member_at(document, "device/driver")))) {
		return "'version' or 'driver' is not numbers with dots between them";
	}
	if (json_integer_value(json_object_get(platform, "vmpl")) > 3) {
		return "'vmpl' is not 0 to 3";
	}
	return json_is_false(json_object_get(platform, "report")) &&
			       sgpu_policy_needs_report(platform)
		       ? "'platform' asks for what only a report has, and 'report' is false"
		       : NULL;
}

int sgpu_policy_parse(const char *text, size_t size, const char *name, struct sgpu_policy **policy,
		      struct sgpu_error *error)
{
	uint8_t hash[SGPU_SHA256_SIZE] = { 0 };
	char hex[2 * SGPU_SHA256_SIZE + 1];
	json_t *document = NULL;

	*policy = NULL;
	if (size > TEXT_SIZE_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "%s: longer than %d bytes, so not a policy",
				 name, TEXT_SIZE_MAX);
	}
	int rc = sgpu_document_parse(text, size, name, &document, error);
	rc = rc ? rc : sgpu_members_check(document, name, table, error);
	const char *fault = rc ? NULL : find_fault(document);
	rc = fault ? sgpu_fail(error, SGPU_EINVALID, "%s: %s", name, fault) : rc;
	rc = rc ? rc : check_revoked(json_object_get(document, "revoked"), name, error);
	rc = rc ? rc : sgpu_sha256(text, size, hash, error);
	struct sgpu_policy *made = rc ? NULL : calloc(1, sizeof(*made));
	if (!made) {
		json_decref(document);
		return rc ? rc : sgpu_fail_nomem(error);
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
