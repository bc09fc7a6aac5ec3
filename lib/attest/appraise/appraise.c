/* SPDX-License-Identifier: Apache-2.0
 *
 * Appraisal compares verified claims with a policy. It lists all differences, not only the first,
 * so that a reader sees everything to change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/appraise/appraise.h"

void sgpu_judge(struct sgpu_judging *s, enum sgpu_finding *part, bool good, const char *claim,
		const char *expected, const char *got, const char *text)
{
	if (good) {
		*part = *part == SGPU_REFUSED ? SGPU_REFUSED : SGPU_AFFIRMED;
		return;
	}
	*part = SGPU_REFUSED;
	json_t *reason = json_pack("{s:s, s:s, s:s, s:s}", "claim", claim, "expected", expected,
				   "got", got, "text", text);
	s->failed |= !reason || json_array_append_new(s->reasons, reason) != 0;
}

const char *sgpu_judge_text(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : otherwise;
}

bool sgpu_judge_in(const json_t *list, const char *text)
{
	bool found = json_is_string(list);

	for (size_t i = 0; i < json_array_size(list) && !found; i++) {
		found = !strcmp(json_string_value(json_array_get(list, i)), text);
	}
	return found;
}

bool sgpu_judge_hex(const json_t *text, size_t size, char hex[SGPU_HEX_SIZE])
{
	uint8_t bytes[SGPU_UEID_SIZE];

	if (!json_is_string(text) ||
	    sgpu_base64url_decode(json_string_value(text), bytes, size, NULL)) {
		snprintf(hex, SGPU_HEX_SIZE, "none");
		return false;
	}
	sgpu_hex_encode(bytes + size - SGPU_SHA256_SIZE, SGPU_SHA256_SIZE, hex);
	return true;
}

const char *sgpu_judge_expected(const json_t *list, char text[SGPU_REASON_SIZE])
{
	size_t count = json_array_size(list);

	if (count == 1) {
		return json_string_value(json_array_get(list, 0));
	}
	snprintf(text, SGPU_REASON_SIZE, "one of %zu digests", count);
	return count ? text : "none";
}

/* Writes the fingerprint of the machine's EK, from the ueid, in hexadecimal. */
static void machine_of(const struct sgpu_judging *s, char hex[SGPU_HEX_SIZE])
{
	sgpu_judge_hex(json_object_get(s->result->claims, "ueid"), SGPU_UEID_SIZE, hex);
}

static void judge_revoked(struct sgpu_judging *s, enum sgpu_finding *part, const char *claim,
			  const char *hex, const char *text)
{
	if (sgpu_judge_in(json_object_get(s->policy, "revoked"), hex)) {
		sgpu_judge(s, part, false, claim, "one that is not revoked", hex, text);
	}
}

/* Notes each value of the quote that the policy lists as revoked. Returns true if there is one, or
 * if out of memory. */
static bool is_revoked(struct sgpu_judging *s)
{
	const json_t *claims = s->result->claims,
		     *runner = sgpu_member_at(claims, "submods/runner/" SGPU_OWN);
	const json_t *code = json_object_get(sgpu_claims_own(sgpu_claims_device_of(claims, NULL)),
					     "code"),
		     *item;
	char hex[SGPU_HEX_SIZE];
	size_t i;

	machine_of(s, hex);
	judge_revoked(s, &s->findings.identity, "ueid", hex,
		      "the machine's endorsement key is revoked");
	sgpu_hex_encode(s->result->ak, sizeof(s->result->ak), hex);
	judge_revoked(s, &s->findings.identity, "attestation key", hex,
		      "the attestation key is revoked");
	sgpu_judge_hex(json_object_get(runner, "digest"), SGPU_KT128_SIZE, hex);
	judge_revoked(s, &s->findings.executables, "runner.digest", hex,
		      "the runner's program is revoked");
	json_array_foreach ((json_t *)code, i, item) {
		sgpu_judge_hex(json_object_get(item, "digest"), SGPU_KT128_SIZE, hex);
		judge_revoked(s, &s->findings.device_executables, "device.code", hex,
			      "code on the device is revoked");
	}
	return s->failed || json_array_size(s->reasons) > 0;
}

static void judge_machine(struct sgpu_judging *s)
{
	const json_t *machines = json_object_get(s->policy, "machines"),
		     *age = json_object_get(s->policy, "certificate_age");
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE], got[SGPU_REASON_SIZE];

	if (machines) {
		machine_of(s, hex);
		sgpu_judge(s, &s->findings.identity, sgpu_judge_in(machines, hex), "ueid",
			   sgpu_judge_expected(machines, expected), hex,
			   "the machine is not one that the policy knows");
	} else {
		/* Without a list of machines, a chain to a trusted root is enough, and that was
		 * verified. */
		sgpu_judge(s, &s->findings.identity, true, "ueid", "", "", "");
	}
	if (age) {
		snprintf(expected, sizeof(expected), "at most %" PRId64 " s",
			 (int64_t)json_integer_value(age));
		snprintf(got, sizeof(got), "%" PRId64 " s", s->result->certificate_age);
		sgpu_judge(s, &s->findings.identity,
			   s->result->certificate_age <= json_integer_value(age), "certificate age",
			   expected, got, "the attestation key was certified too long ago");
	}
}

/* Refuses a recipient's key of low order, for which sgpu_quote_recipient fails. */
static void judge_recipient(struct sgpu_judging *s)
{
	struct sgpu_key key;

	if (!json_object_get(s->result->claims, "cnf")) {
		return;
	}
	bool good = !sgpu_quote_recipient(s->result->claims, &key, NULL);

	sgpu_judge(s, &s->findings.configuration, good, "cnf", "a key of full order",
		   "one of low order", "anybody could open what is sealed to the recipient's key");
}

int sgpu_appraise(const struct sgpu_policy *policy, const struct sgpu_quote_result *result,
		  int64_t now, struct sgpu_appraisal *appraisal, struct sgpu_error *error)
{
	struct sgpu_judging state = { .result = result,
				      .policy = policy->document,
				      .reasons = json_array() };

	memset(appraisal, 0, sizeof(*appraisal));
	if (!result->claims || !result->verified) {
		json_decref(state.reasons);
		return sgpu_fail(error, SGPU_EUSAGE, "only a quote that verified can be appraised");
	}
	const bool revoked = is_revoked(&state);
	if (!revoked) {
		sgpu_judge_runner(&state);
		judge_recipient(&state);
		sgpu_judge_device(&state);
		sgpu_judge_platform(&state);
		judge_machine(&state);
	}
	/* A quote is accepted only if no difference was noted and memory never ran out. */
	bool accepted = state.reasons && !state.failed && json_array_size(state.reasons) == 0;
	json_t *ear = state.failed
			      ? NULL
			      : sgpu_ear_claims(policy, result, &state.findings, accepted, now);
	/* If a value is revoked, the result says which. */
	if (!state.reasons || !ear ||
	    (revoked &&
	     json_object_set_new(ear, SGPU_OWN, json_pack("{s:O}", "revoked", state.reasons)))) {
		json_decref(state.reasons);
		json_decref(ear);
		return sgpu_fail_nomem(error);
	}
	appraisal->accepted = accepted;
	appraisal->reasons = state.reasons;
	appraisal->ear = ear;
	return 0;
}

void sgpu_appraisal_clear(struct sgpu_appraisal *appraisal)
{
	json_decref(appraisal->reasons);
	json_decref(appraisal->ear);
	memset(appraisal, 0, sizeof(*appraisal));
}
