/* SPDX-License-Identifier: Apache-2.0
 *
 * Appraisal of the platform, by the claims of the process and by a verified report of the hardware.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/appraise/appraise.h"

/* Compares byte by byte: in SNP and in TDX, each byte is the version of one component. */
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

static void judge_register(struct sgpu_judging *s, const json_t *list, const uint8_t value[48],
			   const char *claim, const char *text)
{
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	sgpu_hex_encode(value, 48, hex);
	sgpu_judge(s, &s->findings.executables, sgpu_judge_in(list, hex), claim,
		   sgpu_judge_expected(list, expected), hex, text);
}

/* Judges the guest's measurement at launch, and the registers that it extended since then. */
static void judge_measured(struct sgpu_judging *s, const json_t *wanted)
{
	const struct sgpu_tee_report *tee = &s->result->tee;

	judge_register(s, json_object_get(wanted, "measurements"), tee->measurement,
		       "tee.measurement", "the guest is not one that the policy knows");
	for (unsigned i = 0; i < SGPU_POLICY_RTMRS; i++) {
		char key[8], claim[16];
		snprintf(key, sizeof(key), "rtmr%u", i);
		snprintf(claim, sizeof(claim), "tee.%s", key);
		const json_t *list = json_object_get(wanted, key);
		if (tee->kind == SGPU_PLATFORM_TDX) {
			judge_register(s, list, tee->rtmr[i], claim,
				       "the guest has measured what the policy does not know");
		} else if (list && !json_is_string(list)) {
			sgpu_judge(s, &s->findings.executables, false, claim, "a register of TDX",
				   sgpu_platform_word(tee->kind),
				   "the platform has no such register");
		}
	}
}

/* Judges whether the host, or other software in the guest, can reach the software that the report
 * is about. */
static void judge_guest(struct sgpu_judging *s, const json_t *wanted)
{
	const struct sgpu_tee_report *tee = &s->result->tee;
	const int64_t most =
		json_integer_value(json_object_get(wanted, "vmpl")); /* 0 when it is missing */
	char got[32], expected[32];

	judge_measured(s, wanted);
	/* A migration agent reads the guest's memory, and the host chooses the agent, so the policy
	 * must allow migration. */
	if (!json_is_true(json_object_get(wanted, "migration"))) {
		sgpu_judge(s, &s->findings.hardware, !tee->migratable, "tee.migratable", "no",
			   "yes", "the host may have the guest moved by one of its own");
	}
	if (tee->kind == SGPU_PLATFORM_TDX && !json_is_true(json_object_get(wanted, "sept_ve"))) {
		sgpu_judge(s, &s->findings.hardware, !tee->sept_ve, "tee.sept_ve", "off", "on",
			   "the host may interrupt the guest by taking pages away from it "
			   "(SEPT_VE_DISABLE is off)");
	}
	if (tee->kind == SGPU_PLATFORM_SNP) {
		snprintf(got, sizeof(got), "%" PRIu32, tee->vmpl);
		snprintf(expected, sizeof(expected), "at most %" PRId64, most);
		sgpu_judge(s, &s->findings.executables, tee->vmpl <= most, "tee.vmpl", expected,
			   got,
			   "the report was asked for by software that another in the guest "
			   "can change");
	}
}

static void judge_report(struct sgpu_judging *s, const json_t *wanted)
{
	const char *tcb = json_string_value(json_object_get(wanted, "tcb"));
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE];

	sgpu_judge(s, &s->findings.hardware, s->result->tee_verified, "tee",
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
		sgpu_judge(s, &s->findings.hardware, tcb_at_least(s->result->tee.tcb, tcb),
			   "tee.tcb", expected, hex,
			   "the platform's firmware is older than the policy wants");
	}
}

void sgpu_judge_platform(struct sgpu_judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "platform"),
		     *report = json_object_get(wanted, "report");
	const char *named = json_string_value(json_object_get(wanted, "at_least"));
	/* All platforms that protect the runner from its host have one rank; TDX stands for them
	 * here. */
	const char *least = named ? named : sgpu_platform_word(SGPU_PLATFORM_TDX);
	const char *got = sgpu_judge_text(sgpu_member_at(s->result->claims, SGPU_OWN "/platform"),
					  "kind", "none");
	char expected[SGPU_REASON_SIZE];

	snprintf(expected, sizeof(expected), "at least %s", named ? named : "sgx, tdx or snp");
	sgpu_judge(s, &s->findings.runtime, sgpu_platform_rank(got) >= sgpu_platform_rank(least),
		   "platform.kind", expected, got,
		   "the platform protects the runner less than the policy wants");
	/* Only a report of the hardware proves the claims about it, so a TEE needs one unless the
	 * policy says otherwise. */
	if (json_is_true(report) || sgpu_policy_needs_report(wanted) ||
	    (!report && sgpu_platform_rank(least) == SGPU_RANK_TEE)) {
		judge_report(s, wanted);
	}
}
