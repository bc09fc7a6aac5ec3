/* SPDX-License-Identifier: Apache-2.0
 *
 * Appraisal of the device: its code, its driver, and who sees what travels to it.
 */
#include <stdio.h>
#include <string.h>

#include "attest/appraise/appraise.h"

static void judge_code(struct sgpu_judging *s, const json_t *wanted, bool cpu, const json_t *own)
{
	const json_t *digests = json_object_get(wanted, "code"),
		     *list = json_object_get(own, "code"), *item;
	char hex[SGPU_HEX_SIZE], expected[SGPU_REASON_SIZE], claim[SGPU_REASON_SIZE];
	size_t i;

	if (!json_array_size(list)) {
		/* The CPU device's code is measured as a part of the runner. A GPU always states
		 * its code. */
		sgpu_judge(s, &s->findings.device_executables, cpu || json_is_string(digests),
			   "device.code",
			   json_array_size(digests) ? sgpu_judge_expected(digests, expected)
						    : "no device but the CPU's",
			   "none", "the device says of no code that it was loaded");
	}
	json_array_foreach ((json_t *)list, i, item) {
		sgpu_judge_hex(json_object_get(item, "digest"), SGPU_KT128_SIZE, hex);
		snprintf(claim, sizeof(claim), "device.code %s", sgpu_judge_text(item, "name", ""));
		sgpu_judge(s, &s->findings.device_executables, sgpu_judge_in(digests, hex), claim,
			   sgpu_judge_expected(digests, expected), hex,
			   "code on the device is not what the policy knows");
	}
}

/* Judges who can see the GPU's memory and its bus. Members that the policy leaves out demand
 * nothing of the CPU device, which has no bus and only the runner's memory. */
static void judge_secrecy(struct sgpu_judging *s, const json_t *wanted, bool cpu, const json_t *own)
{
	const json_t *confidential = json_object_get(wanted, "confidential"),
		     *agreement = json_object_get(wanted, "agreement");
	const char *mode = sgpu_judge_text(own, "confidential", "off");
	bool on = !strcmp(mode, "on"), agreed = json_is_true(json_object_get(own, "agreed"));

	if (confidential ? json_is_true(confidential) : !cpu) {
		sgpu_judge(s, &s->findings.device_hardware, on, "device.confidential", "on", mode,
			   "the GPU is not in confidential computing mode");
	}
	if (agreement ? json_is_true(agreement) : !cpu) {
		sgpu_judge(s, &s->findings.device_configuration, agreed || (!agreement && on),
			   "device.agreed", "a key of the device",
			   sgpu_judge_text(own, "agreement", "none"),
			   "keys cross the bus as they are");
	}
	if (!json_is_true(json_object_get(wanted, "preemption"))) {
		sgpu_judge(s, &s->findings.device_configuration,
			   json_is_false(json_object_get(own, "preemption")), "device.preemption",
			   "off", "on", "other work of the GPU may run in between");
	}
}

void sgpu_judge_device(struct sgpu_judging *s)
{
	const json_t *wanted = json_object_get(s->policy, "device");
	const char *name = "";
	const json_t *own = sgpu_claims_own(sgpu_claims_device_of(s->result->claims, &name));
	const char *driver = json_string_value(json_object_get(wanted, "driver")),
		   *got = sgpu_judge_text(own, "driver", "none");
	char expected[SGPU_REASON_SIZE];
	bool cpu = !strcmp(name, "cpu");

	if (!own) {
		if (wanted) {
			sgpu_judge(s, &s->findings.device_hardware, false, "device", "a device",
				   "none", "the quote is of no device");
		}
		return;
	}
	judge_code(s, wanted, cpu, own);
	if (driver) {
		snprintf(expected, sizeof(expected), "at least %s", driver);
		sgpu_judge(s, &s->findings.device_executables,
			   sgpu_version_compare(got, driver) >= 0, "device.driver", expected, got,
			   "the driver is older than the policy wants");
	}
	judge_secrecy(s, wanted, cpu, own);
}
