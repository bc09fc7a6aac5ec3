/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the policy and the appraisal.
 */
#ifndef SGPU_ATTEST_APPRAISE_POLICY_H
#define SGPU_ATTEST_APPRAISE_POLICY_H

#include "attest/quote.h"

enum { SGPU_POLICY_ID_SIZE = 160, SGPU_POLICY_RTMRS = 4 };

struct sgpu_policy {
	json_t *document;	      /* well formed */
	char id[SGPU_POLICY_ID_SIZE]; /* a URI with the hash of the policy's text */
};

/* Whether a policy names a platform that only its hardware can prove. */
bool sgpu_platform_is_tee(const char *word);
/* The rank of a platform: more is better. -1: no such word. */
int sgpu_platform_rank(const char *word);
/* Whether the policy's platform has a member about what only a report of the hardware tells. */
bool sgpu_policy_needs_report(const json_t *platform);
/* Compares versions by their numbers, from the first digit on: "driver 580.65.06" and "580.65". A
 * text without a number is less than any. */
int sgpu_version_compare(const char *a, const char *b);

/* The result of an appraisal for each part: whether the policy demanded something, and whether the
 * demand was met. */
enum sgpu_finding { SGPU_NOT_ASKED, SGPU_AFFIRMED, SGPU_REFUSED };
struct sgpu_findings {
	enum sgpu_finding identity, configuration, executables, hardware, runtime;
	enum sgpu_finding device_configuration, device_executables, device_hardware;
};

/* The appraisal as claims (draft-ietf-rats-ear): a new object, NULL when memory is out. */
json_t *sgpu_ear_claims(const struct sgpu_policy *policy, const struct sgpu_quote_result *result,
			const struct sgpu_findings *findings, bool accepted, int64_t now);

#endif
