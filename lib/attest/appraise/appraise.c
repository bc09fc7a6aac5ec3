/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares verified claims with a policy and lists all differences, so that a reader sees
 * everything to change. What a missing member of the policy could permit is refused.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/quote.h"
#include "host/host.h"

struct judging {
	const struct sgpu_quote_result *result;
	const json_t *policy;
	json_t *reasons;
	struct sgpu_findings findings;
	bool failed; /* out of memory */
};

/* Notes a demand's result; a part's status is its worst result. */
static void judge(struct judging *s, enum sgpu_finding *part, bool good, const char *claim,
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

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : otherwise;
}

static bool is_listed(const json_t *list, const char *text)
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

/* Describes a list: its only digest, "one of 3 digests" or "none". */
static const char *expected_of(const json_t *list, char text[SGPU_REASON_SIZE])
{
	size_t count = json_array_size(list);

	if (count == 1) {
		return json_string_value(json_array_get(list, 0));
	}
	snprintf(text, SGPU_REASON_SIZE, "one of %zu digests", count);
	return count ? text : "none";
}

/* By their numbers, from the first digit on; a text without one is the least. */
static int compare_versions(const char *a, const char *b)
{
	a += strcspn(a, "0123456789");
	b += strcspn(b, "0123456789");
	while (isdigit((unsigned char)*a) || isdigit((unsigned char)*b)) {
		/* A missing number is less than zero: 1.0 is newer than 1. */
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

/* ---- the runner: its program, who can look into it, what it takes, and from whom ---- */
static void judge_program(struct judging *s, const json_t *wanted, const json_t *runner)
{
	const json_t *digests = json_object_get(wanted, "digests"), *own = sgpu_claims_own(runner);
	const char *version = json_string_value(json_object_get(wanted, "version"));
	const char *measured = text_of(own, "measured", "nothing");
	enum sgpu_finding *part = &s->findings.executables;
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	sgpu_judge_hex(json_object_get(own, "digest"), SGPU_KT128_SIZE, hex);
	judge(s, part, is_listed(digests, hex), "runner.digest", expected_of(digests, expected),
	      hex, "the runner is not a program that the policy knows");
	if (version) {
		const char *got =
			json_string_value(json_array_get(json_object_get(runner, "swversion"), 0));
		snprintf(expected, sizeof(expected), "at least %s", version);
		judge(s, part, got && compare_versions(got, version) >= 0, "runner.swversion",
		      expected, got ? got : "none", "the runner is older than the policy wants");
	}
	if (!json_is_false(json_object_get(wanted, "process"))) {
		judge(s, part, !strcmp(measured, "process"), "runner.measured", "process", measured,
		      "the digest is of a file, not of the process that signed");
	}
}

static void judge_debug(struct judging *s, const json_t *runner)
{
	const char *whole = text_of(s->result->claims, "dbgstat", "none");
	const char *got = text_of(runner, "dbgstat", "none");
	const char *mode = text_of(sgpu_claims_own(sgpu_claims_device_of(s->result->claims, NULL)),
				   "confidential", "off");
	enum sgpu_finding *part = &s->findings.configuration;

	judge(s, part, !strcmp(whole, "disabled") && !strcmp(got, "disabled"), "dbgstat",
	      "disabled", strcmp(whole, "disabled") ? whole : got,
	      "the runner may be looked into by a debugger");
	if (s->result->tee_verified) {
		judge(s, part, !s->result->tee.debug, "tee.debug", "off", "on",
		      "the guest was started with debugging on");
	}
	judge(s, part, strcmp(mode, "devtools") != 0, "device.confidential", "off or on", mode,
	      "the GPU is in its development mode");
}

static void judge_owners(struct judging *s, const json_t *wanted, const json_t *own)
{
	const json_t *named = json_object_get(wanted, "owners"),
		     *owners = json_object_get(own, "owners"), *item;
	enum sgpu_finding *part = &s->findings.configuration;
	const char *expected = json_is_string(named)	? "anybody"
			       : json_array_size(named) ? "owners of the policy"
							: "owners that the policy names";
	size_t i;

	if (!json_array_size(owners)) {
		judge(s, part, json_is_string(named), "runner.owners", expected, "anybody",
		      "the runner takes work of anybody");
		return;
	}
	json_array_foreach ((json_t *)owners, i, item) {
		judge(s, part, is_listed(named, json_string_value(item)), "runner.owners", expected,
		      json_string_value(item),
		      "the runner takes work of an owner that the policy does not know");
	}
}

/* How much a word for `sessions` allows: all but these two allow anybody. */
static int freedom(const char *word)
{
	return !strcmp(word, "none") ? 0 : !strcmp(word, "owners") ? 1 : 2;
}

/* A policy without `sessions` accepts those of the owners that it names. The quote of an older
 * runner lacks it, too, and is judged as "any", as is one that says "owners" and names none. */
static void judge_sessions(struct judging *s, const json_t *wanted, const json_t *own)
{
	const bool named = json_array_size(json_object_get(wanted, "owners")) > 0;
	const char *said = text_of(own, "sessions", "not said"),
		   *got = !strcmp(said, "owners") && !json_object_get(own, "owners") ? "any" : said,
		   *most = text_of(wanted, "sessions", named ? "owners" : "none");

	judge(s, &s->findings.configuration, freedom(got) <= freedom(most), "runner.sessions", most,
	      got, "the runner takes more sessions than the policy accepts");
}

const char *sgpu_confinement_lack(const json_t *confinement, char text[SGPU_REASON_SIZE])
{
	const char *name, *lack;
	char inner[SGPU_REASON_SIZE];
	json_t *value;

	json_object_foreach ((json_t *)confinement, name, value) {
		lack = json_is_object(value) ? sgpu_confinement_lack(value, inner) : "no";
		if (lack && !json_is_true(value)) {
			snprintf(text, SGPU_REASON_SIZE, "%.64s: %.64s", name, lack);
			return text;
		}
	}
	return json_object_size(confinement) ? NULL : "nothing";
}

static void judge_confinement(struct judging *s, const json_t *own)
{
	char text[SGPU_REASON_SIZE];
	const char *lack = sgpu_confinement_lack(json_object_get(own, "confinement"), text);

	judge(s, &s->findings.configuration, !lack, "runner.confinement", "all that there is",
	      lack ? lack : "", "the kernel does not confine the runner in full");
}

static void judge_runner(struct judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "runner"),
		     *runner = sgpu_member_at(s->result->claims, "submods/runner");
	const json_t *own = sgpu_claims_own(runner);
	const char *key = text_of(wanted, "key", ""), *got = text_of(own, "key", "none");
	enum sgpu_finding *part = &s->findings.configuration;
	/* Every policy accepts an ephemeral key, which is better than one in a file. A policy that
	 * names no key also accepts a runner without one, to which nothing can be sealed. */
	bool good =
		!strcmp(got, "ephemeral") || !strcmp(got, key) || (!*key && !strcmp(got, "none"));

	judge_program(s, wanted, runner);
	if (!json_is_true(json_object_get(wanted, "debug"))) {
		judge_debug(s, runner);
	}
	if (!json_is_true(json_object_get(wanted, "modules"))) {
		judge(s, part, json_is_false(json_object_get(own, "modules")), "runner.modules",
		      "not allowed", "allowed", "the runner loads modules that a batch brings");
	}
	if (!json_is_true(json_object_get(wanted, "files"))) {
		judge(s, part, json_is_false(json_object_get(own, "files")), "runner.files",
		      "closed", "open", "the runner opens files that a batch names");
	}
	judge_owners(s, wanted, own);
	judge_sessions(s, wanted, own);
	if (!json_is_false(json_object_get(wanted, "confinement"))) {
		judge_confinement(s, own);
	}
	judge(s, part, good, "runner.key", *key ? key : "ephemeral", got,
	      "the recipient's key is not of the kind that the policy wants");
}

/* ---- the device: its code, its driver, and who sees what travels to it ---- */
static void judge_code(struct judging *s, const json_t *wanted, bool cpu, const json_t *own)
{
	const json_t *digests = json_object_get(wanted, "code"),
		     *list = json_object_get(own, "code"), *item;
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE], claim[SGPU_REASON_SIZE];
	size_t i;

	if (!json_array_size(list)) {
		/* The CPU device's code is in the runner's measure. A GPU always states its own. */
		judge(s, &s->findings.device_executables, cpu || json_is_string(digests),
		      "device.code",
		      json_array_size(digests) ? expected_of(digests, expected)
					       : "no device but the CPU's",
		      "none", "the device says of no code that it was loaded");
	}
	json_array_foreach ((json_t *)list, i, item) {
		sgpu_judge_hex(json_object_get(item, "digest"), SGPU_KT128_SIZE, hex);
		snprintf(claim, sizeof(claim), "device.code %s", text_of(item, "name", ""));
		judge(s, &s->findings.device_executables, is_listed(digests, hex), claim,
		      expected_of(digests, expected), hex,
		      "code on the device is not what the policy knows");
	}
}

/* Judges who can see the GPU's memory and its bus. Members that the policy lacks demand nothing of
 * the CPU device, which has no bus and only the runner's memory. */
static void judge_secrecy(struct judging *s, const json_t *wanted, bool cpu, const json_t *own)
{
	const json_t *confidential = json_object_get(wanted, "confidential"),
		     *agreement = json_object_get(wanted, "agreement");
	const char *mode = text_of(own, "confidential", "off");
	bool on = !strcmp(mode, "on"), agreed = json_is_true(json_object_get(own, "agreed"));

	if (confidential ? json_is_true(confidential) : !cpu) {
		judge(s, &s->findings.device_hardware, on, "device.confidential", "on", mode,
		      "the GPU is not in confidential computing mode");
	}
	if (agreement ? json_is_true(agreement) : !cpu) {
		judge(s, &s->findings.device_configuration, agreed || (!agreement && on),
		      "device.agreed", "a key of the device", text_of(own, "agreement", "none"),
		      "keys cross the bus as they are");
	}
	if (!json_is_true(json_object_get(wanted, "preemption"))) {
		judge(s, &s->findings.device_configuration,
		      json_is_false(json_object_get(own, "preemption")), "device.preemption", "off",
		      "on", "other work of the GPU may run in between");
	}
}

static void judge_device(struct judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "device");
	const char *name = "";
	const json_t *own = sgpu_claims_own(sgpu_claims_device_of(s->result->claims, &name));
	const char *driver = json_string_value(json_object_get(wanted, "driver")),
		   *got = text_of(own, "driver", "none");
	char expected[SGPU_REASON_SIZE];
	bool cpu = !strcmp(name, "cpu");

	if (!own) {
		if (wanted) {
			judge(s, &s->findings.device_hardware, false, "device", "a device", "none",
			      "the quote is of no device");
		}
		return;
	}
	judge_code(s, wanted, cpu, own);
	if (driver) {
		snprintf(expected, sizeof(expected), "at least %s", driver);
		judge(s, &s->findings.device_executables, compare_versions(got, driver) >= 0,
		      "device.driver", expected, got, "the driver is older than the policy wants");
	}
	judge_secrecy(s, wanted, cpu, own);
}

/* ---- the platform, by the process's claims and by a verified report of the hardware ---- */
/* In SNP and in TDX, each byte is the version of one component. */
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

static void judge_register(struct judging *s, const json_t *list, const uint8_t value[48],
			   const char *claim, const char *text)
{
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	sgpu_hex_encode(value, 48, hex);
	judge(s, &s->findings.executables, is_listed(list, hex), claim, expected_of(list, expected),
	      hex, text);
}

static void judge_measured(struct judging *s, const json_t *wanted)
{
	const struct sgpu_tee_report *tee = &s->result->tee;

	judge_register(s, json_object_get(wanted, "measurements"), tee->measurement,
		       "tee.measurement", "the guest is not one that the policy knows");
	for (unsigned i = 0; i < SGPU_ARRAY_LENGTH(tee->rtmr); i++) {
		char key[8], claim[16];
		snprintf(key, sizeof(key), "rtmr%u", i);
		snprintf(claim, sizeof(claim), "tee.%s", key);
		const json_t *list = json_object_get(wanted, key);
		/* Only TDX has registers, so no other platform meets a demand on them. */
		if (tee->kind == SGPU_PLATFORM_TDX || list) {
			judge_register(s, list, tee->rtmr[i], claim,
				       "the guest has measured what the policy does not know");
		}
	}
}

static void judge_guest(struct judging *s, const json_t *wanted)
{
	const struct sgpu_tee_report *tee = &s->result->tee;
	const int64_t most =
		json_integer_value(json_object_get(wanted, "vmpl")); /* 0 when it is missing */
	char got[32], expected[32];

	judge_measured(s, wanted);
	/* A migration agent, which the host chooses, reads the guest's memory, so the policy must
	 * allow migration. */
	if (!json_is_true(json_object_get(wanted, "migration"))) {
		judge(s, &s->findings.hardware, !tee->migratable, "tee.migratable", "no", "yes",
		      "the host may have the guest moved by one of its own");
	}
	if (tee->kind == SGPU_PLATFORM_TDX && !json_is_true(json_object_get(wanted, "sept_ve"))) {
		judge(s, &s->findings.hardware, !tee->sept_ve, "tee.sept_ve", "off", "on",
		      "the host may interrupt the guest by taking pages away from it "
		      "(SEPT_VE_DISABLE is off)");
	}
	if (tee->kind == SGPU_PLATFORM_SNP) {
		snprintf(got, sizeof(got), "%" PRIu32, tee->vmpl);
		snprintf(expected, sizeof(expected), "at most %" PRId64, most);
		judge(s, &s->findings.executables, tee->vmpl <= most, "tee.vmpl", expected, got,
		      "the report was asked for by software that another in the guest "
		      "can change");
	}
}

static void judge_report(struct judging *s, const json_t *wanted)
{
	const char *tcb = json_string_value(json_object_get(wanted, "tcb"));
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	judge(s, &s->findings.hardware, s->result->tee_verified, "tee",
	      "a report that was verified",
	      s->result->tee_present ? "a report that was not verified" : "none",
	      "no report of the TEE proves the platform");
	if (!s->result->tee_verified) {
		return;
	}
	judge_guest(s, wanted);
	if (tcb) {
		snprintf(hex, sizeof(hex), "%016" PRIx64, s->result->tee.tcb);
		snprintf(expected, sizeof(expected), "at least %s, byte by byte", tcb);
		judge(s, &s->findings.hardware, tcb_at_least(s->result->tee.tcb, tcb), "tee.tcb",
		      expected, hex, "the platform's firmware is older than the policy wants");
	}
}

static void judge_platform(struct judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "platform"),
		     *report = json_object_get(wanted, "report");
	const char *named = json_string_value(json_object_get(wanted, "at_least"));
	/* TDX stands for all platforms that protect the runner from its host, and rank alike. */
	const char *least = named ? named : sgpu_platform_word(SGPU_PLATFORM_TDX);
	const char *got =
		text_of(sgpu_member_at(s->result->claims, SGPU_OWN "/platform"), "kind", "none");
	char expected[SGPU_REASON_SIZE];

	snprintf(expected, sizeof(expected), "at least %s", named ? named : "sgx, tdx or snp");
	judge(s, &s->findings.runtime, sgpu_platform_rank(got) >= sgpu_platform_rank(least),
	      "platform.kind", expected, got,
	      "the platform protects the runner less than the policy wants");
	/* Only a report of the hardware proves claims about it, so a TEE needs one unless the
	 * policy says otherwise. */
	if (json_is_true(report) || sgpu_policy_needs_report(wanted) ||
	    (!report && sgpu_platform_rank(least) == SGPU_RANK_TEE)) {
		judge_report(s, wanted);
	}
}

/* ---- the machine, and the whole ---- */
static void judge_revoked(struct judging *s, enum sgpu_finding *part, const char *claim,
			  const char *hex, const char *text)
{
	if (is_listed(json_object_get(s->policy, "revoked"), hex)) {
		judge(s, part, false, claim, "one that is not revoked", hex, text);
	}
}

/* Notes what the policy lists as revoked. Returns whether there is any; true if out of memory. */
static bool is_revoked(struct judging *s)
{
	const json_t *claims = s->result->claims,
		     *runner = sgpu_member_at(claims, "submods/runner/" SGPU_OWN);
	const json_t *code = json_object_get(sgpu_claims_own(sgpu_claims_device_of(claims, NULL)),
					     "code"),
		     *item;
	char hex[SGPU_HEX_SIZE];
	size_t i;

	sgpu_judge_hex(json_object_get(claims, "ueid"), SGPU_UEID_SIZE, hex);
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

static void judge_machine(struct judging *s)
{
	const json_t *machines = json_object_get(s->policy, "machines"),
		     *age = json_object_get(s->policy, "certificate_age");
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE], got[SGPU_REASON_SIZE];

	sgpu_judge_hex(json_object_get(s->result->claims, "ueid"), SGPU_UEID_SIZE, hex);
	/* Without a list, the chain to a trusted root is enough. */
	judge(s, &s->findings.identity, !machines || is_listed(machines, hex), "ueid",
	      expected_of(machines, expected), hex, "the machine is not one that the policy knows");
	if (age) {
		snprintf(expected, sizeof(expected), "at most %" PRId64 " s",
			 (int64_t)json_integer_value(age));
		snprintf(got, sizeof(got), "%" PRId64 " s", s->result->certificate_age);
		judge(s, &s->findings.identity,
		      s->result->certificate_age <= json_integer_value(age), "certificate age",
		      expected, got, "the attestation key was certified too long ago");
	}
}

/* Refuses a key of low order, for which sgpu_quote_recipient fails. */
static void judge_recipient(struct judging *s)
{
	struct sgpu_key key;

	if (!json_object_get(s->result->claims, "cnf")) {
		return;
	}
	bool good = !sgpu_quote_recipient(s->result->claims, &key, NULL);

	judge(s, &s->findings.configuration, good, "cnf", "a key of full order", "one of low order",
	      "anybody could open what is sealed to the recipient's key");
}

int sgpu_appraise(const json_t *policy, const struct sgpu_quote_result *result, int64_t now,
		  struct sgpu_appraisal *appraisal, struct sgpu_error *error)
{
	struct judging state = { .result = result, .policy = policy, .reasons = json_array() };

	memset(appraisal, 0, sizeof(*appraisal));
	if (!result->claims || !result->verified) {
		json_decref(state.reasons);
		return sgpu_fail(error, SGPU_EUSAGE, "only a quote that verified can be appraised");
	}
	const bool revoked = is_revoked(&state);
	if (!revoked) {
		judge_runner(&state);
		judge_recipient(&state);
		judge_device(&state);
		judge_platform(&state);
		judge_machine(&state);
	}
	/* If memory ran out, a difference may not have been noted. */
	bool accepted = state.reasons && !state.failed && json_array_size(state.reasons) == 0;
	json_t *ear = state.failed
			      ? NULL
			      : sgpu_ear_claims(policy, result, &state.findings, accepted, now);
	/* The result says which value is revoked. */
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
