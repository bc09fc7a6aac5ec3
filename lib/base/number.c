/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked numbers from text.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"

/* Parses a number, which may end with one of the suffixes: the powers of 1024. */
static int parse(const char *text, const char *what, const char *suffixes, uint64_t min,
		 uint64_t max, uint64_t *value, struct sgpu_error *error)
{
	char *rest = NULL;

	errno = 0;
	uint64_t parsed = strtoull(text, &rest, 10);
	/* strtoull also takes signs and blanks. */
	bool good = *text >= '0' && *text <= '9' && errno == 0;

	if (good && *rest) {
		const char *suffix = strchr(suffixes, *rest);
		good = suffix && !rest[1] &&
		       sgpu_mul_u64(parsed, (uint64_t)1 << (10 * (suffix - suffixes + 1)), &parsed);
	}
	if (!good) {
		sgpu_fail(error, SGPU_EUSAGE, "%s '%s' is not a %s", what, SGPU_EXCERPT(text),
			  *suffixes ? "size" : "whole number");
		if (*suffixes) {
			sgpu_hint(error, "a number of bytes, with K, M, G or T for powers of 1024");
		}
		return SGPU_EUSAGE;
	}
	if (parsed < min || parsed > max) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "%s '%s' is not between %" PRIu64 " and %" PRIu64, what,
				 SGPU_EXCERPT(text), min, max);
	}
	*value = parsed;
	return 0;
}

int sgpu_parse_u64(const char *text, const char *what, uint64_t min, uint64_t max, uint64_t *value,
		   struct sgpu_error *error)
{
	return parse(text, what, "", min, max, value, error);
}

int sgpu_parse_size(const char *text, const char *what, uint64_t min, uint64_t max, uint64_t *bytes,
		    struct sgpu_error *error)
{
	return parse(text, what, "KMGT", min, max, bytes, error);
}

int sgpu_parse_duration(const char *text, const char *what, uint64_t *ns, struct sgpu_error *error)
{
	static const struct {
		const char *suffix;
		double seconds;
	} units[] = { { "", 1 },   { "s", 1 },	  { "ms", 1e-3 },
		      { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	const double longest = 10 * 366 * 86400.0;
	char *rest = NULL;
	/* strtod also takes signs, blanks, hexadecimal, "inf" and "nan". */
	size_t digits = strspn(text, "0123456789.");
	double value = digits && digits < 32 ? strtod(text, &rest) : 0;

	if (rest == text + digits) {
		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(units); i++) {
			double seconds = value * units[i].seconds;
			if (!strcmp(rest, units[i].suffix) && seconds * 1e9 >= 1 &&
			    seconds <= longest) {
				*ns = (uint64_t)(seconds * 1e9);
				return 0;
			}
		}
	}
	int rc = sgpu_fail(error, SGPU_EUSAGE, "%s '%s' is not a duration", what,
			   SGPU_EXCERPT(text));
	sgpu_hint(error, "seconds above 0, or a number with ms, s, m, h or d");
	return rc;
}
