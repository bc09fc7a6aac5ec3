/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes a policy together with the claims of a quote. A byte of what the hardware's report says,
 * the policy, a zero byte, the claims. What is accepted must be what the policy lets pass, read
 * here another way than by the library.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "attest/quote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW = 1800000000 };
enum { VERIFIED = 1, PRESENT = 2, TDX = 4, DEBUG = 8, MIGRATABLE = 16, SEPT_VE = 32, LEVEL = 64 };

static void need(bool holds)
{
	if (!holds) {
		abort();
	}
}

static const json_t *at(const json_t *object, const char *part, const char *member)
{
	return json_object_get(part ? json_object_get(object, part) : object, member);
}

static bool lets(const json_t *policy, const char *part, const char *member)
{
	return json_is_true(at(policy, part, member));
}

static bool is_any(const json_t *policy, const char *part, const char *member)
{
	const char *text = json_string_value(at(policy, part, member));

	return text && !strcmp(text, "any");
}

static bool is(const json_t *object, const char *key, const char *word)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && !strcmp(text, word);
}

/* The default of each member is refusal. */
static void check_runner(const json_t *policy, const json_t *claims)
{
	const json_t *runner = sgpu_member_at(claims, "submods/runner"),
		     *own = sgpu_claims_own(runner);
	const json_t *owners = json_object_get(own, "owners"),
		     *named = at(policy, "runner", "owners"), *item;
	size_t i;

	need(lets(policy, "runner", "debug") ||
	     (is(claims, "dbgstat", "disabled") && is(runner, "dbgstat", "disabled")));
	need(lets(policy, "runner", "modules") || json_is_false(json_object_get(own, "modules")));
	need(lets(policy, "runner", "files") || json_is_false(json_object_get(own, "files")));
	need(is(json_object_get(policy, "runner"), "sessions", "any") ||
	     is(own, "sessions", "none") ||
	     (is(own, "sessions", "owners") &&
	      (is(json_object_get(policy, "runner"), "sessions", "owners") ||
	       (!at(policy, "runner", "sessions") && json_array_size(named) > 0))));
	need(json_is_false(at(policy, "runner", "process")) || is(own, "measured", "process"));
	need(json_is_false(at(policy, "runner", "confinement")) ||
	     json_object_size(json_object_get(own, "confinement")));
	need(!is(own, "key", "stored") || is(json_object_get(policy, "runner"), "key", "stored"));
	need(json_array_size(at(policy, "runner", "digests")) ||
	     is_any(policy, "runner", "digests"));
	if (is_any(policy, "runner", "owners")) {
		return;
	}
	need(json_array_size(owners) > 0);
	json_array_foreach ((json_t *)owners, i, item) {
		const json_t *one;
		bool found = false;
		size_t j;
		json_array_foreach ((json_t *)named, j, one) {
			found |= json_equal((json_t *)one, (json_t *)item);
		}
		need(found);
	}
}

static void check_device(const json_t *policy, const json_t *claims)
{
	const json_t *gpu = sgpu_member_at(claims, "submods/gpu-0/" SGPU_OWN);

	if (!gpu) {
		return;
	}
	need(is_any(policy, "device", "code") || (json_array_size(at(policy, "device", "code")) &&
						  json_array_size(json_object_get(gpu, "code"))));
	need(lets(policy, "device", "preemption") ||
	     json_is_false(json_object_get(gpu, "preemption")));
	need(json_is_false(at(policy, "device", "confidential")) || is(gpu, "confidential", "on"));
	need(json_is_false(at(policy, "device", "agreement")) || is(gpu, "confidential", "on") ||
	     json_is_true(json_object_get(gpu, "agreed")));
}

static void check_platform(const json_t *policy, const json_t *claims,
			   const struct sgpu_quote_result *result)
{
	static const char *const of_report[] = { "measurements", "rtmr0",     "rtmr1",
						 "rtmr2",	 "rtmr3",     "tcb",
						 "vmpl",	 "migration", "sept_ve" };
	const char *least = json_string_value(at(policy, "platform", "at_least"));
	bool open = least && (!strcmp(least, "plain") || !strcmp(least, "gramine-direct")),
	     wanted = !open;

	need(open || !is(json_object_get(sgpu_claims_own(claims), "platform"), "kind", "plain"));
	wanted = at(policy, "platform", "report") ? lets(policy, "platform", "report") : wanted;
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(of_report); i++) {
		wanted |= at(policy, "platform", of_report[i]) != NULL;
	}
	if (!wanted) {
		return;
	}
	need(result->tee_verified);
	need(!result->tee.migratable || lets(policy, "platform", "migration"));
	need(!result->tee.sept_ve || result->tee.kind != SGPU_PLATFORM_TDX ||
	     lets(policy, "platform", "sept_ve"));
	need(json_array_size(at(policy, "platform", "measurements")) ||
	     is_any(policy, "platform", "measurements"));
}

static bool is_hash(const json_t *claim, const uint8_t *bytes, size_t size)
{
	char text[SGPU_BASE64URL_MAX(SGPU_UEID_SIZE)];

	sgpu_base64url_encode(bytes, size, text);
	return json_string_value(claim) && !strcmp(json_string_value(claim), text);
}

static void check_revoked(const json_t *policy, const struct sgpu_quote_result *result)
{
	const json_t *claims = result->claims, *item, *one;
	const json_t *runner = sgpu_member_at(claims, "submods/runner/" SGPU_OWN);
	const json_t *codes =
		json_object_get(sgpu_claims_own(sgpu_claims_device_of(claims, NULL)), "code");
	size_t i, j;

	json_array_foreach (json_object_get(policy, "revoked"), i, item) {
		uint8_t ueid[SGPU_UEID_SIZE] = { 1 };
		need(!sgpu_hex_decode(json_string_value(item), ueid + 1, SGPU_SHA256_SIZE, NULL));
		need(memcmp(ueid + 1, result->ak, SGPU_SHA256_SIZE) != 0);
		need(!is_hash(json_object_get(runner, "digest"), ueid + 1, SGPU_SHA256_SIZE));
		need(!is_hash(json_object_get(claims, "ueid"), ueid, sizeof(ueid)));
		json_array_foreach ((json_t *)codes, j, one) {
			need(!is_hash(json_object_get(one, "digest"), ueid + 1, SGPU_SHA256_SIZE));
		}
	}
}

static void judge(const json_t *document, const json_t *policy,
		  const struct sgpu_quote_result *result)
{
	struct sgpu_appraisal appraisal;

	need(!sgpu_appraise(policy, result, NOW, &appraisal, NULL) && appraisal.ear);
	need(appraisal.accepted == (json_array_size(appraisal.reasons) == 0));
	if (appraisal.accepted) {
		check_revoked(document, result);
		check_runner(document, result->claims);
		check_device(document, result->claims);
		check_platform(document, result->claims, result);
	}
	sgpu_appraisal_clear(&appraisal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t flags = size ? data[0] : 0;
	const char *text = (const char *)data + 1,
		   *end = size ? memchr(text, '\0', size - 1) : NULL;
	struct sgpu_quote_result result = { .verified = true,
					    .tee_present = flags & PRESENT,
					    .tee_verified = flags & VERIFIED };
	json_t *policy = NULL;
	json_t *document = NULL;

	if (!end) {
		return 0;
	}
	const size_t length = (size_t)(end - text), rest = size - 2 - length;
	result.tee.kind = flags & TDX ? SGPU_PLATFORM_TDX : SGPU_PLATFORM_SNP;
	result.tee.debug = flags & DEBUG;
	result.tee.migratable = flags & MIGRATABLE;
	result.tee.sept_ve = flags & SEPT_VE;
	result.tee.vmpl = flags & LEVEL ? 2 : 0;
	memset(result.tee.measurement, 0x3e, sizeof(result.tee.measurement));
	memset(result.ak, 0x3e, sizeof(result.ak));
	if (!sgpu_policy_parse(text, length, "policy", &policy, NULL) &&
	    !sgpu_json_parse(text, length, NULL, &document, NULL) &&
	    !sgpu_json_parse(end + 1, rest, NULL, &result.claims, NULL) &&
	    !sgpu_claims_check(result.claims, NULL)) {
		judge(document, policy, &result);
	}
	json_decref(document);
	json_decref(policy);
	sgpu_quote_result_clear(&result);
	return 0;
}
