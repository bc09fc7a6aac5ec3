/* SPDX-License-Identifier: Apache-2.0
 *
 * How one demand of a policy is judged and noted, and what its lists hold.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "attest/appraise/appraise.h"

void sgpu_judge_note(struct sgpu_judging *s, enum sgpu_finding *part, bool good, const char *claim,
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

bool sgpu_judge_any(const json_t *list)
{
	return json_is_string(list);
}

bool sgpu_judge_in(const json_t *list, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach ((json_t *)list, i, item) {
		if (!strcmp(json_string_value(item), text)) {
			return true;
		}
	}
	return false;
}

bool sgpu_judge_listed(const json_t *list, const json_t *digest, char hex[SGPU_HEX_SIZE])
{
	uint8_t bytes[SGPU_KT128_SIZE] = { 0 };

	if (!json_is_string(digest) ||
	    sgpu_base64url_decode(json_string_value(digest), bytes, sizeof(bytes), NULL)) {
		snprintf(hex, SGPU_HEX_SIZE, "none");
		return sgpu_judge_any(list);
	}
	sgpu_hex_encode(bytes, sizeof(bytes), hex);
	return sgpu_judge_any(list) || sgpu_judge_in(list, hex);
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
