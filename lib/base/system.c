/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock and the number of processors.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <sgpu/base.h>

uint64_t sgpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A container's quota (cgroup v2 as seen from inside) can be smaller than the affinity mask. */
static unsigned quota(void)
{
	FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
	unsigned long limit = 0, period = 0;

	if (file) {
		if (fscanf(file, "%lu %lu", &limit, &period) != 2) {
			limit = period = 0;
		}
		fclose(file);
	}
	return period ? (unsigned)((limit + period - 1) / period) : 0;
}

unsigned sgpu_cpu_count(void)
{
	cpu_set_t *set = NULL;
	unsigned count = 0;

	for (int cpus = 1024; cpus <= 1 << 16 && !count; cpus *= 4) {
		size_t size = CPU_ALLOC_SIZE(cpus);
		set = CPU_ALLOC(cpus);
		if (set && sched_getaffinity(0, size, set) == 0) {
			count = (unsigned)CPU_COUNT_S(size, set);
		}
		CPU_FREE(set);
	}
	unsigned limit = quota();
	if (limit && limit < count) {
		count = limit;
	}
	if (count > SGPU_POOL_JOBS_MAX) {
		count = SGPU_POOL_JOBS_MAX;
	}
	return count ? count : 1;
}
