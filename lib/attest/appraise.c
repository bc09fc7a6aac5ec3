/* SPDX-License-Identifier: Apache-2.0
 *
 * Appraisal: verified claims against a policy. Everything that is not as the policy wants is listed, not the first
 * alone, so that whoever reads it sees all there is to change.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/policy.h"

enum { TEXT_SIZE = 256 };

struct state {
	const struct sgpu_quote_result *result;
	const json_t *policy;
	json_t *reasons;
	struct sgpu_findings findings;
	bool failed;                     /* memory is out */
};

/* Notes one thing that was asked: what becomes of a part is the worst of what was asked of it. */
static void note(struct state *s, enum sgpu_finding *part, bool good, const char *claim, const char *expected,
		 const char *got, const char *text)
{
	if (good) {
		*part = *part == SGPU_REFUSED ? SGPU_REFUSED : SGPU_AFFIRMED;
		return;
	}
	*part = SGPU_REFUSED;
	json_t *reason = json_pack("{s:s, s:s, s:s, s:s}", "claim", claim, "expected", expected, "got", got, "text",
				   text);
	s->failed |= !reason || json_array_append_new(s->reasons, reason) != 0;
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : otherwise;
}

static bool in_list(const json_t *list, const char *hex)
{
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)list, i, item) {
		if (!strcmp(json_string_value(item), hex)) {
			return true;
		}
	}
	return false;
}

/* Whether a digest in base64url is in a list in hexadecimal; *hex is what it is there. */
static bool listed(const json_t *list, const json_t *digest, char hex[2 * 48 + 1])
{
	uint8_t bytes[SGPU_CHANNEL_DIGEST_SIZE] = { 0 };

	if (!json_is_string(digest) || sgpu_base64url_decode(json_string_value(digest), bytes, sizeof(bytes), NULL)) {
		snprintf(hex, 2 * 48 + 1, "none");
		return false;
	}
	sgpu_hex_encode(bytes, sizeof(bytes), hex);
	return in_list(list, hex);
}

/* "one of 3 digests", or the one that there is, or "none". */
static const char *expected_digests(const json_t *list, char text[TEXT_SIZE])
{
	size_t count = json_array_size(list);

	if (count == 1) {
		return json_string_value(json_array_get(list, 0));
	}
	snprintf(text, TEXT_SIZE, "one of %zu digests", count);
	return count ? text : "none";
}

static void judge_program(struct state *s, const json_t *wanted, const json_t *runner)
{
	const json_t *digests = json_object_get(wanted, "digests"), *own = sgpu_claims_own(runner);
	const char *version = json_string_value(json_object_get(wanted, "version"));
	const char *measured = text_of(own, "measured", "nothing");
	char hex[2 * 48 + 1], expected[TEXT_SIZE];

	if (digests) {
		bool good = listed(digests, json_object_get(own, "digest"), hex);
		note(s, &s->findings.executables, good, "runner.digest", expected_digests(digests, expected), hex,
		     "the runner is not a program that the policy knows");
	}
	if (version) {
		const char *got = json_string_value(json_array_get(json_object_get(runner, "swversion"), 0));
		snprintf(expected, sizeof(expected), "at least %s", version);
		note(s, &s->findings.executables, got && sgpu_version_compare(got, version) >= 0, "runner.swversion",
		     expected, got ? got : "none", "the runner is older than the policy wants");
	}
	if (json_is_true(json_object_get(wanted, "process"))) {
		note(s, &s->findings.executables, !strcmp(measured, "process"), "runner.measured", "process",
		     measured, "the digest is of a file, not of the process that signed");
	}
}

static void judge_runner(struct state *s)
{
	const json_t *wanted = json_object_get(s->policy, "runner"),
		*runner = sgpu_claims_submod(s->result->claims, "runner");
	const json_t *own = sgpu_claims_own(runner);
	const char *key = json_string_value(json_object_get(wanted, "key")), *got_key = text_of(own, "key", "none");
	enum sgpu_finding *part = &s->findings.configuration;

	judge_program(s, wanted, runner);
	if (json_is_false(json_object_get(wanted, "debug"))) {
		const char *whole = text_of(s->result->claims, "dbgstat", "none"),
			*got = text_of(runner, "dbgstat", "none");
		note(s, part, !strcmp(whole, "disabled") && !strcmp(got, "disabled"), "dbgstat", "disabled",
		     strcmp(whole, "disabled") ? whole : got, "the runner may be looked into by a debugger");
		if (s->result->tee_verified) {
			note(s, part, !s->result->tee.debug, "tee.debug", "off", "on",
			     "the guest was started with debugging on");
		}
		const char *mode = text_of(sgpu_claims_own(sgpu_claims_device_of(s->result->claims, NULL)),
					   "confidential", "off");
		note(s, part, strcmp(mode, "devtools") != 0, "device.confidential", "off or on", mode,
		     "the GPU is in its development mode");
	}
	if (json_is_false(json_object_get(wanted, "modules"))) {
		note(s, part, json_is_false(json_object_get(own, "modules")), "runner.modules", "not allowed",
		     "allowed", "the runner loads modules that a batch brings");
	}
	if (key) {
		/* A key that nobody keeps is better than one in a file. */
		bool good = !strcmp(got_key, "ephemeral") || !strcmp(got_key, key);
		note(s, part, good, "runner.key", key, got_key,
		     "the recipient's key is not of the kind that the policy wants");
	}
}

static void judge_code(struct state *s, const json_t *wanted, const char *name, const json_t *own)
{
	const json_t *digests = json_object_get(wanted, "code"), *list = json_object_get(own, "code"), *item;
	char hex[2 * 48 + 1], expected[TEXT_SIZE], claim[TEXT_SIZE];
	size_t i;

	if (!digests) {
		return;
	}
	if (!json_array_size(list)) {
		/* The CPU device's code is the runner's own, which is measured with it. */
		note(s, &s->findings.device_executables, !json_array_size(digests) || !strcmp(name, "cpu"), "device.code",
		     expected_digests(digests, expected), "none", "the device says of no code that it was loaded");
	}
	json_array_foreach((json_t *)list, i, item) {
		bool good = listed(digests, json_object_get(item, "digest"), hex);
		snprintf(claim, sizeof(claim), "device.code %s", text_of(item, "name", ""));
		note(s, &s->findings.device_executables, good, claim, expected_digests(digests, expected), hex,
		     "code on the device is not what the policy knows");
	}
}

static void judge_device(struct state *s)
{
	const json_t *wanted = json_object_get(s->policy, "device");
	const char *name = "";
	const json_t *own = sgpu_claims_own(sgpu_claims_device_of(s->result->claims, &name));
	const char *driver = json_string_value(json_object_get(wanted, "driver")),
		*got = text_of(own, "driver", "none");
	const char *mode = text_of(own, "confidential", "off");
	char expected[TEXT_SIZE];

	if (wanted && !own) {
		note(s, &s->findings.device_hardware, false, "device", "a device", "none",
		     "the quote is of no device");
		return;
	}
	judge_code(s, wanted, name, own);
	if (driver) {
		snprintf(expected, sizeof(expected), "at least %s", driver);
		note(s, &s->findings.device_executables, sgpu_version_compare(got, driver) >= 0, "device.driver",
		     expected, got, "the driver is older than the policy wants");
	}
	if (json_is_true(json_object_get(wanted, "confidential"))) {
		note(s, &s->findings.device_hardware, !strcmp(mode, "on"), "device.confidential", "on", mode,
		     "the GPU is not in confidential computing mode");
	}
	if (json_is_true(json_object_get(wanted, "agreement"))) {
		note(s, &s->findings.device_configuration, json_is_true(json_object_get(own, "agreed")),
		     "device.agreed", "a key of the device", text_of(own, "agreement", "none"),
		     "keys cross the bus as they are");
	}
	if (json_is_false(json_object_get(wanted, "preemption"))) {
		note(s, &s->findings.device_configuration, json_is_false(json_object_get(own, "preemption")),
		     "device.preemption", "off", "on", "other work of the GPU may run in between");
	}
}

/* SNP: each byte is a version of its own; TDX: likewise. */
static bool tcb_at_least(uint64_t got, const char *wanted_hex)
{
	uint8_t wanted[8] = { 0 };

	if (sgpu_hex_decode(wanted_hex, wanted, sizeof(wanted), NULL)) {
		return false;
	}
	for (unsigned i = 0; i < sizeof(wanted); i++) {
		if ((uint8_t)(got >> (56 - 8 * i)) < wanted[i]) {
			return false;
		}
	}
	return true;
}

/* A measurement or a register against its list, if there is one. */
static void judge_register(struct state *s, const json_t *list, const uint8_t value[48], const char *claim,
			   const char *text)
{
	char hex[2 * 48 + 1], expected[TEXT_SIZE];

	if (!list) {
		return;
	}
	sgpu_hex_encode(value, 48, hex);
	note(s, &s->findings.executables, in_list(list, hex), claim, expected_digests(list, expected), hex, text);
}

/* What the guest was started with, and what it measured since. */
static void judge_guest(struct state *s, const json_t *wanted)
{
	const struct sgpu_tee_report *tee = &s->result->tee;
	const int64_t most = json_integer_value(json_object_get(wanted, "vmpl")); /* 0 when it is missing */
	char got[32], expected[32];

	judge_register(s, json_object_get(wanted, "measurements"), tee->measurement, "tee.measurement",
		       "the guest is not one that the policy knows");
	for (unsigned i = 0; i < SGPU_POLICY_RTMRS; i++) {
		char key[8], claim[16];
		snprintf(key, sizeof(key), "rtmr%u", i);
		snprintf(claim, sizeof(claim), "tee.%s", key);
		const json_t *list = json_object_get(wanted, key);
		if (list && tee->kind != SGPU_PLATFORM_TDX) {
			note(s, &s->findings.executables, false, claim, "a register of TDX",
			     sgpu_platform_word(tee->kind), "the platform has no such register");
		} else {
			judge_register(s, list, tee->rtmr[i], claim,
				       "the guest has measured what the policy does not know");
		}
	}
	/* Whoever moves a guest has its memory, and the host says who that is. */
	if (!json_is_true(json_object_get(wanted, "migration"))) {
		note(s, &s->findings.hardware, !tee->migratable, "tee.migratable", "no", "yes",
		     "the host may have the guest moved by one of its own");
	}
	if (tee->kind == SGPU_PLATFORM_SNP) {
		snprintf(got, sizeof(got), "%" PRIu32, tee->vmpl);
		snprintf(expected, sizeof(expected), "at most %" PRId64, most);
		note(s, &s->findings.executables, tee->vmpl <= most, "tee.vmpl", expected, got,
		     "the report was asked for by software that another in the guest can change");
	}
}

static void judge_report(struct state *s, const json_t *wanted)
{
	const char *tcb = json_string_value(json_object_get(wanted, "tcb"));
	char hex[2 * 48 + 1], expected[TEXT_SIZE];

	note(s, &s->findings.hardware, s->result->tee_verified, "tee", "a report that was verified",
	     s->result->tee_present ? "a report that was not verified" : "none",
	     "no report of the TEE proves the platform");
	if (!s->result->tee_verified) {
		return;
	}
	judge_guest(s, wanted);
	if (tcb) {
		snprintf(hex, sizeof(hex), "%016" PRIx64, s->result->tee.tcb);
		snprintf(expected, sizeof(expected), "at least %s, byte by byte", tcb);
		note(s, &s->findings.hardware, tcb_at_least(s->result->tee.tcb, tcb), "tee.tcb", expected, hex,
		     "the platform's firmware is older than the policy wants");
	}
}

static void judge_platform(struct state *s)
{
	const json_t *wanted = json_object_get(s->policy, "platform"), *report = json_object_get(wanted, "report");
	const char *least = json_string_value(json_object_get(wanted, "at_least"));
	const char *got = text_of(json_object_get(sgpu_claims_own(s->result->claims), "platform"), "kind", "none");
	char expected[TEXT_SIZE];

	if (least) {
		snprintf(expected, sizeof(expected), "at least %s", least);
		note(s, &s->findings.runtime, sgpu_platform_rank(got) >= sgpu_platform_rank(least), "platform.kind",
		     expected, got, "the platform protects the runner less than the policy wants");
	}
	/* Only the hardware's own report proves what the claims say of it. */
	if (json_is_true(report) || sgpu_policy_needs_report(wanted) ||
	    (!report && least && sgpu_platform_is_tee(least))) {
		judge_report(s, wanted);
	}
}

static void judge_machine(struct state *s)
{
	const json_t *machines = json_object_get(s->policy, "machines"),
		*age = json_object_get(s->policy, "certificate_age");
	const char *ueid = text_of(s->result->claims, "ueid", "");
	uint8_t bytes[SGPU_UEID_SIZE] = { 0 };
	char hex[2 * 48 + 1] = "none", expected[TEXT_SIZE], got[TEXT_SIZE];

	if (machines) {
		if (!sgpu_base64url_decode(ueid, bytes, sizeof(bytes), NULL)) {
			sgpu_hex_encode(bytes + 1, SGPU_SHA256_SIZE, hex);
		}
		note(s, &s->findings.identity, in_list(machines, hex), "ueid", expected_digests(machines, expected), hex,
		     "the machine is not one that the policy knows");
	} else {
		/* The chain led to a root that is trusted. */
		note(s, &s->findings.identity, true, "ueid", "", "", "");
	}
	if (age) {
		snprintf(expected, sizeof(expected), "at most %" PRId64 " s", (int64_t)json_integer_value(age));
		snprintf(got, sizeof(got), "%" PRId64 " s", s->result->certificate_age);
		note(s, &s->findings.identity, s->result->certificate_age <= json_integer_value(age),
		     "certificate age", expected, got, "the attestation key was certified too long ago");
	}
	if (json_is_true(json_object_get(s->policy, "channel"))) {
		bool has = json_object_get(sgpu_claims_own(s->result->claims), "grant") != NULL;
		note(s, &s->findings.configuration, has, "grant", "a channel", "none", "the quote is for no channel");
	}
}

int sgpu_appraise(const struct sgpu_policy *policy, const struct sgpu_quote_result *result, int64_t now,
		  struct sgpu_appraisal *appraisal, struct sgpu_error *error)
{
	struct state state = { .result = result, .policy = policy->document, .reasons = json_array() };

	memset(appraisal, 0, sizeof(*appraisal));
	if (!result->claims || !result->verified) {
		json_decref(state.reasons);
		return sgpu_fail(error, SGPU_EUSAGE, "only a quote that verified can be appraised");
	}
	judge_runner(&state);
	judge_device(&state);
	judge_platform(&state);
	judge_machine(&state);
	/* What cannot be listed is not accepted. */
	bool accepted = state.reasons && !state.failed && json_array_size(state.reasons) == 0;
	json_t *ear = state.failed ? NULL : sgpu_ear_claims(policy, result, &state.findings, accepted, now);
	if (!state.reasons || !ear) {
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
