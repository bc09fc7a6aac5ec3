/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies, sgpu-policy(5): what a quote must say to be accepted, and a draft for the owner to
 * change, which accepts given claims.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"

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

/* Whether a text, or none, is numbers with dots between them. "580,65" would be read as 580, and
 * demand less than intended. */
static bool is_version(const char *text)
{
	const size_t length = text ? strlen(text) : 0;

	return !text || (strspn(text, "0123456789.") == length && *text != '.' && *text &&
			 text[length - 1] != '.' && !strstr(text, ".."));
}

/* Checks values that no table can check. Returns what is wrong, or NULL. */
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

static int check_document(const json_t *document, const char *name, struct sgpu_error *error)
{
	const int rc = sgpu_members_check(document, name, table, error);
	const char *fault = rc ? NULL : find_fault(document);

	return fault ? sgpu_fail(error, SGPU_EINVALID, "%s: %s", name, fault) : rc;
}

int sgpu_policy_parse(const char *text, size_t size, const char *name, json_t **policy,
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
	rc = rc ? rc : check_document(document, name, error);
	rc = rc ? rc : sgpu_sha256(text, size, hash, error);
	sgpu_hex_encode(hash, sizeof(hash), hex);
	if (!rc &&
	    json_object_set_new(document, "id", json_sprintf("tag:sgpu.dev,2026:policy#%s", hex))) {
		rc = sgpu_fail_nomem(error);
	}
	*policy = rc ? NULL : document;
	json_decref(rc ? document : NULL);
	return rc;
}

/* ---- a policy that accepts given claims ---- */
static json_t *hex_of(const json_t *digest)
{
	char hex[SGPU_HEX_SIZE];

	sgpu_judge_hex(digest, SGPU_KT128_SIZE, hex);
	return json_string(hex);
}

/* Finds "580.159.04" in "driver 580.159.04, CUDA 13.0"; NULL: no number. */
static const char *version_of(const json_t *text, char version[SGPU_REASON_SIZE])
{
	const char *first = json_is_string(text) ? json_string_value(text) : "";

	first += strcspn(first, "0123456789");
	size_t length = strspn(first, "0123456789.");
	length -= length && first[length - 1] == '.';
	snprintf(version, SGPU_REASON_SIZE, "%.*s", (int)length, first);
	return *version ? version : NULL;
}

static json_t *runner_of(const json_t *claims)
{
	const json_t *runner = sgpu_member_at(claims, "submods/runner"),
		     *own = sgpu_claims_own(runner);
	const char *debug = json_string_value(json_object_get(claims, "dbgstat")),
		   *measured = json_string_value(json_object_get(own, "measured")),
		   *key = json_string_value(json_object_get(own, "key"));
	json_t *owners = json_object_get(own, "owners");
	char version[SGPU_REASON_SIZE], lack[SGPU_REASON_SIZE];

	return json_pack("{s:[o], s:s*, s:b, s:b, s:b, s:o, s:O*, s:b, s:s*, s:b}", "digests",
			 hex_of(json_object_get(own, "digest")), "version",
			 version_of(sgpu_member_at(runner, "swversion/0"), version), "debug",
			 strcmp(debug, "disabled") != 0, "modules",
			 json_is_true(json_object_get(own, "modules")), "files",
			 json_is_true(json_object_get(own, "files")), "owners",
			 owners ? json_incref(owners) : json_string("any"), "sessions",
			 json_object_get(own, "sessions"), "confinement",
			 !sgpu_confinement_lack(json_object_get(own, "confinement"), lack), "key",
			 strcmp(key, "none") ? key : NULL, "process", !strcmp(measured, "process"));
}

static json_t *device_of(const json_t *claims)
{
	const char *name;
	const json_t *own = sgpu_claims_own(sgpu_claims_device_of(claims, &name)), *item;
	const char *confidential = json_string_value(json_object_get(own, "confidential"));
	const bool gpu = strcmp(name, "cpu") != 0, on = confidential && !strcmp(confidential, "on"),
		   agreed = json_is_true(json_object_get(own, "agreed"));
	json_t *code = json_array(); /* empty: a device without its own code */
	char version[SGPU_REASON_SIZE];
	size_t i;
	int bad = 0;

	json_array_foreach (json_object_get(own, "code"), i, item) {
		bad |= json_array_append_new(code, hex_of(json_object_get(item, "digest")));
	}
	if (bad) {
		json_decref(code);
		return NULL;
	}
	/* For a GPU without a mode, the policy says false: a missing member would demand it. */
	return json_pack("{s:o, s:s*, s:o*, s:o*, s:b}", "code", code, "driver",
			 version_of(json_object_get(own, "driver"), version), "confidential",
			 gpu || confidential ? json_boolean(on) : NULL, "agreement",
			 agreed || (gpu && !on) ? json_boolean(agreed) : NULL, "preemption",
			 json_is_true(json_object_get(own, "preemption")));
}

int sgpu_policy_from_claims(const json_t *claims, json_t **policy, struct sgpu_error *error)
{
	char hex[SGPU_HEX_SIZE];
	int bad = 0, rc = sgpu_claims_check(claims, error);

	*policy = NULL;
	if (rc) {
		return rc;
	}
	json_t *made = json_pack("{s:i, s:o}", "version", 1, "runner", runner_of(claims));
	if (sgpu_claims_device_of(claims, NULL)) {
		bad |= json_object_set_new(made, "device", device_of(claims));
	}
	bad |= json_object_set_new(
		made, "platform",
		json_pack("{s:O}", "at_least", sgpu_member_at(claims, SGPU_OWN "/platform/kind")));
	if (sgpu_judge_hex(json_object_get(claims, "ueid"), SGPU_UEID_SIZE, hex)) {
		bad |= json_object_set_new(made, "machines", json_pack("[s]", hex));
	}
	/* Unverified claims may have versions that no policy can name. */
	rc = bad ? sgpu_fail_nomem(error) : check_document(made, "policy", error);
	*policy = rc ? NULL : made;
	json_decref(rc ? made : NULL);
	return rc;
}
