/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of an appraisal as EAT Attestation Results (draft-ietf-rats-ear), with the
 * trustworthiness vector of AR4SI.
 */
#include <string.h>

#include <sgpu/version.h>

#include "attest/appraise/appraise.h"

#define EAR_PROFILE "tag:ietf.org,2026:rats/ear#03"

/* Returns the worst tier among the findings on a part; "none" if the policy demanded nothing. */
static const char *status_of(const enum sgpu_finding *values, size_t count)
{
	enum sgpu_finding worst = SGPU_NOT_ASKED;

	for (size_t i = 0; i < count; i++) {
		worst = values[i] > worst ? values[i] : worst;
	}
	return worst == SGPU_REFUSED	? "contraindicated"
	       : worst == SGPU_WARNED	? "warning"
	       : worst == SGPU_AFFIRMED ? "affirming"
					: "none";
}

static json_t *runner_result(const struct sgpu_policy *policy, const struct sgpu_findings *f,
			     bool accepted, bool tee_verified)
{
	/* Only a verified report proves that memory is encrypted; without one it is the runner's
	 * claim. */
	const enum sgpu_finding runtime =
		f->runtime == SGPU_AFFIRMED && !tee_verified ? SGPU_WARNED : f->runtime;
	const enum sgpu_finding v[] = { f->identity, f->configuration, f->executables, f->hardware,
					runtime };
	const char *status = status_of(v, SGPU_ARRAY_LENGTH(v));

	/* The runner's status speaks for the whole quote: if any part is refused, so is the
	 * runner. */
	return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:i}, s:[s]}", "ear_status",
			 accepted ? status : "contraindicated", "ear_trustworthiness_vector",
			 "instance-identity", v[0], "configuration", v[1], "executables", v[2],
			 "hardware", v[3], "runtime-opaque", v[4], "ear_appraisal_policy_ids",
			 policy->id);
}

static json_t *device_result(const struct sgpu_policy *policy, const struct sgpu_findings *f)
{
	const enum sgpu_finding v[] = { f->device_configuration, f->device_executables,
					f->device_hardware };

	return json_pack("{s:s, s:{s:i, s:i, s:i}, s:[s]}", "ear_status",
			 status_of(v, SGPU_ARRAY_LENGTH(v)), "ear_trustworthiness_vector",
			 "configuration", v[0], "executables", v[1], "hardware", v[2],
			 "ear_appraisal_policy_ids", policy->id);
}

json_t *sgpu_ear_claims(const struct sgpu_policy *policy, const struct sgpu_quote_result *result,
			const struct sgpu_findings *findings, bool accepted, int64_t now)
{
	const char *device = NULL;
	json_t *submods = json_object();
	bool has_device = sgpu_claims_device_of(result->claims, &device) != NULL;
	bool made = submods &&
		    json_object_set_new(
			    submods, "runner",
			    runner_result(policy, findings, accepted, result->tee_verified)) == 0 &&
		    (!has_device ||
		     json_object_set_new(submods, device, device_result(policy, findings)) == 0);

	if (!made) {
		json_decref(submods);
		return NULL;
	}
	/* The nonce is given only if it was compared: otherwise it says nothing about freshness. */
	return json_pack("{s:s, s:I, s:{s:s, s:s}, s:O*, s:o}", "eat_profile", EAR_PROFILE, "iat",
			 (json_int_t)now, "ear_verifier_id", "developer", "https://sgpu.dev",
			 "build", "sgpu " SGPU_VERSION, "eat_nonce",
			 result->nonce_checked ? json_object_get(result->claims, "eat_nonce")
					       : NULL,
			 "submods", submods);
}
