/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options, and moments.
 */
#include <string.h>
#include <time.h>

#include <sgpu/base.h>

#include "parts.h"

enum { DAYS_MAX = 36500 };

bool measure_parse_nonce(const char *text, struct measure_nonce *nonce)
{
	struct sgpu_error error = { 0 };
	const size_t digits = strlen(text);

	if (digits % 2 || digits / 2 < SGPU_NONCE_MIN || digits / 2 > SGPU_NONCE_MAX) {
		cli_usage("the nonce has %zu characters; it is %d to %d bytes in hexadecimal, %d to %d digits", digits,
			  SGPU_NONCE_MIN, SGPU_NONCE_MAX, 2 * SGPU_NONCE_MIN, 2 * SGPU_NONCE_MAX);
		return false;
	}
	if (sgpu_hex_decode(text, nonce->bytes, digits / 2, &error)) {
		cli_usage("the nonce is not in hexadecimal: %s", error.text);
		return false;
	}
	nonce->size = digits / 2;
	return true;
}

bool measure_parse_days(const char *text, unsigned *days)
{
	struct sgpu_error error = { 0 };
	uint64_t value = 0;

	if (sgpu_parse_u64(text, "number of days", 1, DAYS_MAX, &value, &error)) {
		cli_usage("%s", error.text);
		return false;
	}
	*days = (unsigned)value;
	return true;
}

bool measure_parse_seconds(const char *text, const char *what, int64_t *seconds)
{
	struct sgpu_error error = { 0 };
	uint64_t ns = 0;

	if (sgpu_parse_duration(text, what, &ns, &error)) {
		cli_usage("%s", error.text);
		return false;
	}
	if (ns < 1000000000) {
		cli_usage("%s is less than a second: '%s'", what, text);
		return false;
	}
	*seconds = (int64_t)(ns / 1000000000);
	return true;
}

int64_t measure_now(void)
{
	return (int64_t)time(NULL);
}

const char *measure_time_text(int64_t seconds, char text[MEASURE_TIME_MAX])
{
	const time_t moment = (time_t)seconds;
	struct tm parts;

	if (!gmtime_r(&moment, &parts) || !strftime(text, MEASURE_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts)) {
		snprintf(text, MEASURE_TIME_MAX, "%lld", (long long)seconds);
	}
	return text;
}
