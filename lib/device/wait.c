/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for a device: a thread polls without pause for SPIN_NS, then sleeps between polls for a
 * sixteenth of the wait so far, within STEP_MIN_NS and STEP_MAX_NS.
 */
#include <time.h>

#include <base/base.h>
#include <device/backend.h>

#define SPIN_NS ((uint64_t)50000)
#define STEP_MIN_NS ((uint64_t)5000)
#define STEP_MAX_NS ((uint64_t)200000)

void sgpu_device_pause(uint64_t begin_ns)
{
	const uint64_t waited = sgpu_now_ns() - begin_ns;
	uint64_t step = waited / 16 < STEP_MAX_NS ? waited / 16 : STEP_MAX_NS;

	if (waited < SPIN_NS) {
		sgpu_pause();
		return;
	}
	step = step > STEP_MIN_NS ? step : STEP_MIN_NS;
	(void)nanosleep(&(struct timespec){ .tv_nsec = (long)step }, NULL);
}

int sgpu_event_query(struct sgpu_event *event, bool *done, struct sgpu_error *error)
{
	*done = false;
	return sgpu_device_backend_of(event)->stream->event_query(event, done, error);
}

int sgpu_event_sync(struct sgpu_event *event, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	bool done = false;
	int rc;

	while ((rc = sgpu_event_query(event, &done, error)) == SGPU_OK && !done) {
		sgpu_device_pause(begin);
	}
	return rc;
}
