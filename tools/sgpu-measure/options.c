/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments.
 */
#include <time.h>

#include "parts.h"

int64_t measure_now(void)
{
	return (int64_t)time(NULL);
}

const char *measure_time_text(int64_t seconds, char text[MEASURE_TIME_MAX])
{
	const time_t moment = (time_t)seconds;
	struct tm parts;

	if (!gmtime_r(&moment, &parts) ||
	    !strftime(text, MEASURE_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts)) {
		snprintf(text, MEASURE_TIME_MAX, "%lld", (long long)seconds);
	}
	return text;
}
