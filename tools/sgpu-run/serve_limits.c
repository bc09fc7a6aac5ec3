/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a worker process takes for its tenant. The library counts what batches and
 * sessions take, and holds the limits. Of the host's memory, what the engines stage with is set
 * aside, and the pool of leases gets at most half of the rest: results need some, too.
 */
#include "requests.h"

#include <sgpu/run.h>

#include "base/base.h"
#include "device/backend.h"

/* What a device gives above the limit, for staging buffers and for what lies between buffers: a
 * quarter of it, and this. */
#define DEVICE_SLACK (UINT64_C(1) << 30)

static uint64_t set_aside;

void serve_limits_open(struct serve_counters *counters)
{
	sgpu_limit_count_in(SGPU_DEVICE_MEMORY, &counters->device_bytes);
	sgpu_limit_count_in(SGPU_HOST_MEMORY, &counters->host_bytes);
}

static void limit_device_memory(const struct worker *w, uint64_t bytes)
{
	const uint64_t most = bytes ? bytes / 4 * 5 + DEVICE_SLACK : 0;

	for (int i = 0; i < w->device_count; i++) {
		sgpu_device_set_limit(w->devices[i].device, most);
	}
	sgpu_limit_set(SGPU_DEVICE_MEMORY, bytes);
}

/* What is set aside is taken while there is no limit yet, and stays as long as there is any. */
static void limit_host_memory(const struct worker *w, uint64_t bytes)
{
	const uint64_t staging = (uint64_t)w->device_count * SGPU_RUNNER_PINNED_MAX;

	if (bytes && bytes <= staging) {
		cli_warning("a user's limit of host memory leaves none for results: %d devices "
			    "have %llu bytes for staging, "
			    "and the limit is %llu",
			    w->device_count, (unsigned long long)staging,
			    (unsigned long long)bytes);
	}
	if (bytes && !set_aside) {
		serve_lease_shrink(bytes > staging ? (bytes - staging) / 2 : 0);
		set_aside =
			sgpu_limit_take(SGPU_HOST_MEMORY, staging, NULL) == SGPU_OK ? staging : 0;
	}
	sgpu_limit_set(SGPU_HOST_MEMORY, bytes);
	if (!bytes && set_aside) {
		sgpu_limit_give(SGPU_HOST_MEMORY, set_aside);
		set_aside = 0;
	}
}

bool serve_limits_take(const struct worker *w)
{
	struct wire_limits limits;

	if (wire_receive(SERVE_CONTROL_FD, WIRE_LIMITS, &limits, sizeof(limits), NULL, 0, NULL) !=
	    SGPU_OK) {
		return false;
	}
	limit_device_memory(w, limits.device_memory);
	limit_host_memory(w, limits.host_memory);
	sessions_limit((unsigned)limits.sessions);
	return true;
}
