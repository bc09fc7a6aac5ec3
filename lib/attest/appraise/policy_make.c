/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a policy that accepts given claims, as a draft for the owner to change. It omits the
 * members that the claims lack, and so refuses what these could permit.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/appraise/appraise.h"

/* Converts base64url of 32 bytes to hexadecimal; NULL for any other text. */
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

static bool all_true(const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)object, name, value) {
		if (!json_is_true(value) && !(json_is_object(value) && all_true(value))) {
			return false;
		}
	}
	return json_object_size(object) > 0;
}

/* Adds whose work a runner takes, and its confinement. No claim of owners means anybody. */
static bool add_limits(json_t *made, const json_t *own)
{
	const json_t *files = json_object_get(own, "files"),
		     *owners = json_object_get(own, "owners"),
		     *sessions = json_object_get(own, "sessions");

	return !files ||
	       (put(made, "files", true, json_boolean(json_is_true(files))) &&
		put(made, "owners", true, owners ? json_deep_copy(owners) : json_string("any")) &&
		put(made, "sessions", sessions, json_deep_copy(sessions)) &&
		put(made, "confinement", true,
		    json_boolean(all_true(json_object_get(own, "confinement")))));
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
