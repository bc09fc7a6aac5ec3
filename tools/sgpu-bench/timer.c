/* SPDX-License-Identifier: Apache-2.0
 *
 * The timer of a GPU's tasks: which one, and how far the two that there are differ in this run.
 */
#include <math.h>
#include <string.h>

#include "verbs.h"

/* Beyond this, one of them is wrong. */
static const double suspicious = 0.05;

int timer_take(enum sgpu_device_timer *timer, const char *name)
{
	for (*timer = SGPU_TIMER_AUTO; *timer <= SGPU_TIMER_GLOBALTIMER; (*timer)++) {
		if (strcmp(name, sgpu_device_timer_name(*timer)) == 0) {
			return 0;
		}
	}
	return cli_usage("--timer '%s' is none of 'auto', 'events' and 'globaltimer'", name);
}

void timer_compare(struct sgpu_device *device, json_t *environment)
{
	struct sgpu_timer_comparison times;
	struct sgpu_error error = { 0 };
	const int rc = sgpu_device_compare_timers(device, &times, &error);
	double difference;

	if (rc != SGPU_OK) {
		if (rc != SGPU_EUNAVAILABLE) {
			cli_warning("%s", error.text);
		}
		return;
	}
	difference = times.globaltimer_ns > 0 ? times.events_ns / times.globaltimer_ns - 1 : NAN;
	cli_detail("the same work: %.3f ms by events, %.3f ms by %%globaltimer, %.3f ms with what "
		   "the host adds",
		   times.events_ns / 1e6, times.globaltimer_ns / 1e6, times.host_ns / 1e6);
	if (!(fabs(difference) <= suspicious)) {
		cli_warning("the device's timers differ: the same work took %.3f ms by events and "
			    "%.3f ms by %%globaltimer",
			    times.events_ns / 1e6, times.globaltimer_ns / 1e6);
	}
	if (isfinite(difference)) {
		json_object_set_new(environment, "device_timer_difference", json_real(difference));
	}
}
