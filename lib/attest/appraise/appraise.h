/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of the appraisal. Each file judges one part of the claims, and notes the
 * differences from the policy. What a missing member of the policy would permit is refused.
 */
#ifndef SGPU_ATTEST_APPRAISE_APPRAISE_H
#define SGPU_ATTEST_APPRAISE_APPRAISE_H

#include "attest/appraise/policy.h"

enum { SGPU_REASON_SIZE = 256, SGPU_HEX_SIZE = 2 * 48 + 1 };

struct sgpu_judging {
	const struct sgpu_quote_result *result;
	const json_t *policy;
	json_t *reasons;
	struct sgpu_findings findings;
	bool failed; /* memory is out */
};

/* Notes the result of one demand; the status of a part is its worst result. */
void sgpu_judge_note(struct sgpu_judging *s, enum sgpu_finding *part, bool good, const char *claim,
		     const char *expected, const char *got, const char *text);
/* A text of an object, or `otherwise`. */
const char *sgpu_judge_text(const json_t *object, const char *key, const char *otherwise);
/* Whether a list of a policy is the text "any". */
bool sgpu_judge_any(const json_t *list);
/* Whether a text is in a list, which may be missing. */
bool sgpu_judge_in(const json_t *list, const char *text);
/* Whether a digest in base64url is in a list in hexadecimal, or the list accepts any. `hex`
 * receives the digest in hexadecimal. */
bool sgpu_judge_listed(const json_t *list, const json_t *digest, char hex[SGPU_HEX_SIZE]);
/* "one of 3 digests", or the one that there is, or "none". */
const char *sgpu_judge_expected(const json_t *list, char text[SGPU_REASON_SIZE]);

void sgpu_judge_runner(struct sgpu_judging *s);
void sgpu_judge_device(struct sgpu_judging *s);
void sgpu_judge_platform(struct sgpu_judging *s);

#endif
