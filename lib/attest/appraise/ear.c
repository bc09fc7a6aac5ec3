/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of an appraisal as EAT Attestation Results (draft-ietf-rats-ear), with the
 * trustworthiness vector of AR4SI.
 */
#include <string.h>

#include <sgpu/version.h>

#include "attest/quote.h"

#define EAR_PROFILE "tag:ietf.org,2026:rats/ear#03"

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

/* Makes a part's result. refused: whatever the findings are. */
static json_t *result_of(const json_t *policy, const char *const *names,
			 const enum sgpu_finding *values, size_t count, bool refused)
{
	json_t *vector = json_object();

	for (size_t i = 0; i < count; i++) {
		if (json_object_set_new(vector, names[i], json_integer(values[i]))) {
			json_decref(vector);
			return NULL;
		}
	}
	return json_pack("{s:s, s:o, s:[O]}", "ear_status",
			 refused ? "contraindicated" : status_of(values, count),
			 "ear_trustworthiness_vector", vector, "ear_appraisal_policy_ids",
			 json_object_get(policy, "id"));
}

json_t *sgpu_ear_claims(const json_t *policy, const struct sgpu_quote_result *result,
			const struct sgpu_findings *f, bool accepted, int64_t now)
{
	static const char *const of_runner[] = { "instance-identity", "configuration",
						 "executables", "hardware", "runtime-opaque" },
				 *const of_device[] = { "configuration", "executables",
							"hardware" };
	/* Only a verified report proves encrypted memory; otherwise the runner claims it. */
	const enum sgpu_finding runtime =
		f->runtime == SGPU_AFFIRMED && !result->tee_verified ? SGPU_WARNED : f->runtime;
	const enum sgpu_finding runner[] = { f->identity, f->configuration, f->executables,
					     f->hardware, runtime },
				device[] = { f->device_configuration, f->device_executables,
					     f->device_hardware };
	const char *name = NULL;
	json_t *submods = json_object();

	/* The runner's status speaks for the whole quote, so a refused part refuses the runner. */
	if (json_object_set_new(submods, "runner",
				result_of(policy, of_runner, runner, 5, !accepted)) ||
	    (sgpu_claims_device_of(result->claims, &name) &&
	     json_object_set_new(submods, name, result_of(policy, of_device, device, 3, false)))) {
		json_decref(submods);
		return NULL;
	}
	/* A nonce that was not compared says nothing about freshness, and is left out. */
	return json_pack("{s:s, s:I, s:{s:s, s:s}, s:O*, s:o}", "eat_profile", EAR_PROFILE, "iat",
			 (json_int_t)now, "ear_verifier_id", "developer", "https://sgpu.dev",
			 "build", "sgpu " SGPU_VERSION, "eat_nonce",
			 result->nonce_checked ? json_object_get(result->claims, "eat_nonce")
					       : NULL,
			 "submods", submods);
}
