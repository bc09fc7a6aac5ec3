/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies: what a quote must say to be accepted, and a draft of one for the owner to change, which
 * accepts given claims. sgpu-policy(5) describes their text.
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

/* Whether a text, or none, is numbers with dots between them. "580,65" would be read as 580, which
 * demands less than intended. */
static bool is_version(const char *text)
{
	const size_t length = text ? strlen(text) : 0;

	return !text || (strspn(text, "0123456789.") == length && *text != '.' && *text &&
			 text[length - 1] != '.' && !strstr(text, ".."));
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

/* ---- a policy that accepts given claims. It omits the members that the claims lack, and so
 * refuses what these could permit ---- */
static json_t *hex_of(const json_t *text)
{
	char hex[SGPU_HEX_SIZE];

	return sgpu_judge_hex(text, SGPU_KT128_SIZE, hex) ? json_string(hex) : NULL;
}

/* Sets a member if it is `wanted`; consumes the value. False: out of memory. */
static bool put(json_t *object, const char *key, bool wanted, json_t *value)
{
	if (!wanted) {
		json_decref(value);
		return true;
	}
	return json_object_set_new(object, key, value) == 0;
}

/* Sets "580.159.04" from "driver 580.159.04, CUDA 13.0". */
static bool put_version(json_t *object, const char *key, const json_t *text)
{
	const char *all = json_is_string(text) ? json_string_value(text) : "",
		   *first = all + strcspn(all, "0123456789");
	size_t length = strspn(first, "0123456789.");

	length -= length && first[length - 1] == '.';
	return put(object, key, length, json_stringn(first, length));
}

/* Adds whose work a runner takes, and its confinement. No claim of owners means anybody. */
static bool add_limits(json_t *made, const json_t *own)
{
	char text[SGPU_REASON_SIZE];
	const json_t *files = json_object_get(own, "files"),
		     *owners = json_object_get(own, "owners"),
		     *sessions = json_object_get(own, "sessions");

	return !files ||
	       (put(made, "files", true, json_boolean(json_is_true(files))) &&
		put(made, "owners", true, owners ? json_deep_copy(owners) : json_string("any")) &&
		put(made, "sessions", sessions, json_deep_copy(sessions)) &&
		put(made, "confinement", true,
		    json_boolean(
			    !sgpu_confinement_lack(json_object_get(own, "confinement"), text))));
}

static bool add_runner(json_t *policy, const json_t *claims)
{
	const json_t *runner = sgpu_member_at(claims, "submods/runner"),
		     *own = sgpu_claims_own(runner);
	const json_t *digest = json_object_get(own, "digest"),
		     *version = json_array_get(json_object_get(runner, "swversion"), 0);
	const json_t *debug = json_object_get(claims, "dbgstat"),
		     *modules = json_object_get(own, "modules");
	const json_t *measured = json_object_get(own, "measured");
	const char *key = json_string_value(json_object_get(own, "key"));
	json_t *made = json_object();

	if (!runner) {
		json_decref(made);
		return true;
	}
	return put(policy, "runner", true, made) &&
	       put(made, "digests", digest, json_pack("[o]", hex_of(digest))) &&
	       put_version(made, "version", version) &&
	       put(made, "debug", debug,
		   json_boolean(!debug || strcmp(json_string_value(debug), "disabled") != 0)) &&
	       put(made, "modules", modules, json_boolean(json_is_true(modules))) &&
	       add_limits(made, own) &&
	       put(made, "key", key && strcmp(key, "none"), json_string(key)) &&
	       put(made, "process", measured,
		   json_boolean(measured && !strcmp(json_string_value(measured), "process")));
}

static json_t *code_digests(const json_t *list)
{
	/* An empty list stays empty: it accepts only a device without code of its own. */
	json_t *digests = json_is_array(list) ? json_array() : NULL;

	for (size_t i = 0; digests && i < json_array_size(list); i++) {
		if (json_array_append_new(
			    digests, hex_of(json_object_get(json_array_get(list, i), "digest")))) {
			json_decref(digests);
			return NULL;
		}
	}
	return digests;
}

static bool add_device(json_t *policy, const json_t *claims)
{
	const char *name = "";
	const json_t *own = sgpu_claims_own(sgpu_claims_device_of(claims, &name));
	const char *confidential = json_string_value(json_object_get(own, "confidential"));
	const json_t *agreed = json_object_get(own, "agreed"),
		     *preemption = json_object_get(own, "preemption"),
		     *code = json_object_get(own, "code");
	bool on = confidential && !strcmp(confidential, "on"),
	     whole_gpu = agreed && strcmp(name, "cpu") != 0;
	json_t *made = json_object();

	if (!own) {
		json_decref(made);
		return true;
	}
	/* If a GPU lacks a mode, the policy says false: a missing member would demand the mode. */
	return put(policy, "device", true, made) &&
	       put(made, "code", json_is_array(code), code_digests(code)) &&
	       put_version(made, "driver", json_object_get(own, "driver")) &&
	       put(made, "confidential", confidential || whole_gpu, json_boolean(on)) &&
	       put(made, "agreement", json_is_true(agreed) || (whole_gpu && !on),
		   json_boolean(json_is_true(agreed))) &&
	       put(made, "preemption", preemption, json_boolean(json_is_true(preemption)));
}

static bool add_rest(json_t *policy, const json_t *claims)
{
	const json_t *kind = sgpu_member_at(claims, SGPU_OWN "/platform/kind");
	char hex[SGPU_HEX_SIZE];
	const bool named = sgpu_judge_hex(json_object_get(claims, "ueid"), SGPU_UEID_SIZE, hex);

	return put(policy, "platform", kind,
		   json_pack("{s:s}", "at_least", json_string_value(kind))) &&
	       put(policy, "machines", named, named ? json_pack("[s]", hex) : NULL);
}

int sgpu_policy_from_claims(const json_t *claims, char **text, size_t *size,
			    struct sgpu_error *error)
{
	json_t *document = json_pack("{s:i}", "version", 1);
	struct sgpu_policy *check = NULL;

	*text = NULL;
	*size = 0;
	bool made = document && add_runner(document, claims) && add_device(document, claims) &&
		    add_rest(document, claims);
	char *lines = made ? json_dumps(document, JSON_INDENT(2)) : NULL;
	char *whole = NULL;
	json_decref(document);
	if (!lines || !(whole = realloc(lines, strlen(lines) + 2))) {
		free(lines);
		return sgpu_fail_nomem(error);
	}
	strcat(whole, "\n");
	/* Unverified claims may hold values that no policy can. */
	int rc = sgpu_policy_parse(whole, strlen(whole), "policy", &check, error);
	sgpu_policy_free(&check);
	if (rc) {
		free(whole);
		return rc;
	}
	*text = whole;
	*size = strlen(whole);
	return 0;
}
