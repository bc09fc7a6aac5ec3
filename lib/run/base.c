/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device is like, and what every object of a run may do.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "run/loop.h"
#include "run/run.h"

/* Beside a GPU, and where the device itself computes on these cores; on a single core somebody else
 * needs it. */
#define SPIN_NS ((uint64_t)500000)
#define SPIN_ON_CPU_NS ((uint64_t)20000)

int sgpu_run_learn_traits(const struct sgpu_runner_config *config, struct sgpu_run_traits *traits,
			  struct sgpu_error *error)
{
	struct sgpu_device_info info;
	uint64_t spin_ns = SPIN_NS;
	int rc = sgpu_device_get_info(config->device, &info, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (!info.opens_on_device) {
		spin_ns = config->many_runs ? 0 : SPIN_ON_CPU_NS;
	}
	for (int i = 0; i < config->more_count; i++) {
		struct sgpu_device_info other;

		rc = sgpu_device_get_info(config->more[i], &other, error);
		if (rc != SGPU_OK) {
			return rc;
		}
		if (other.opens_on_device != info.opens_on_device ||
		    other.pins_host_memory != info.pins_host_memory ||
		    other.secure != info.secure) {
			return sgpu_fail(
				error, SGPU_EUSAGE,
				"the devices of a runner are of one kind, and these are not");
		}
	}
	*traits = (struct sgpu_run_traits){
		.devices = config->more_count + 1,
		.opens_on_device = info.opens_on_device,
		.pins = info.pins_host_memory,
		.shared_files = config->shared_files,
		.pinned_max = config->pinned_max ? config->pinned_max : SGPU_RUNNER_PINNED_MAX,
		.jobs = config->jobs,
		.costs = SGPU_SPREAD_COSTS,
		.spin_ns = sgpu_cpu_count() < 2 ? 0 : spin_ns,
	};
	return SGPU_OK;
}

void sgpu_run_stop(struct sgpu_run_base *base, int code)
{
	const uint64_t one = 1;
	uint_fast64_t never = 0;
	int none = 0;

	/* The time first: whoever sees the code reckons from it. */
	(void)atomic_compare_exchange_strong(&base->stop_ns, &never, sgpu_now_ns());
	if (!atomic_compare_exchange_strong(&base->stop, &none, code)) {
		return;
	}
	if (write(base->wake_fd, &one, sizeof(one)) < 0) {
		errno = 0; /* the counter is full: it wakes as well */
	}
	sgpu_loop_wake(base->loop);
}

char *sgpu_run_text(const char *format, ...)
{
	struct sgpu_error error;
	va_list list;

	va_start(list, format);
	(void)sgpu_vfail(&error, SGPU_OK, format, list);
	va_end(list);
	return strdup(error.text);
}
