/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the appraisal: policies, findings, the result.
 */
#ifndef SGPU_ATTEST_APPRAISE_APPRAISE_H
#define SGPU_ATTEST_APPRAISE_APPRAISE_H

#include "attest/quote.h"

/* ---- policies ---- */
enum { SGPU_POLICY_ID_SIZE = 160 };

struct sgpu_policy {
	json_t *document;	      /* well formed */
	char id[SGPU_POLICY_ID_SIZE]; /* a URI with the hash of the policy's text */
};

/* Returns the rank of a platform's word, or -1. Only hardware proves those of SGPU_RANK_TEE. */
enum { SGPU_RANK_TEE = 2 };
int sgpu_platform_rank(const char *word);
/* Whether the policy demands something that only a hardware report tells. */
bool sgpu_policy_needs_report(const json_t *platform);
/* Compares versions by their numbers, from the first digit on; a text without one is the least. */
int sgpu_version_compare(const char *a, const char *b);

/* The result of an appraisal for each part, in the values of AR4SI: whether the policy demanded
 * something, and whether the demand was met. */
enum sgpu_finding { SGPU_NOT_ASKED = 0, SGPU_AFFIRMED = 2, SGPU_WARNED = 32, SGPU_REFUSED = 96 };
struct sgpu_findings {
	enum sgpu_finding identity, configuration, executables, hardware, runtime;
	enum sgpu_finding device_configuration, device_executables, device_hardware;
};

/* Makes the result as claims (draft-ietf-rats-ear): a new object, NULL if out of memory. */
json_t *sgpu_ear_claims(const struct sgpu_policy *policy, const struct sgpu_quote_result *result,
			const struct sgpu_findings *findings, bool accepted, int64_t now);

enum { SGPU_HEX_SIZE = 2 * 48 + 1 };
/* Writes the last 32 of the `size` bytes of a claim, a digest or a ueid, in hexadecimal. Returns
 * false and writes "none" if it is no such claim. */
bool sgpu_judge_hex(const json_t *text, size_t size, char hex[SGPU_HEX_SIZE]);

#endif
