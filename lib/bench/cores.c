/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's description of the processors says which are hardware threads of one core.
 */
#include "bench/cores.h"

#include <sched.h>
#include <stdio.h>

/* -1: not known. */
static int topology(int cpu, const char *name)
{
	char path[96];
	int value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name);
	file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%d", &value) != 1) {
			value = -1;
		}
		fclose(file);
	}
	return value;
}

static bool share_core(int a, int b)
{
	const int core = topology(a, "core_id");

	return core >= 0 && core == topology(b, "core_id") &&
	       topology(a, "physical_package_id") == topology(b, "physical_package_id");
}

int sgpu_find_cores(int cpus[2])
{
	cpu_set_t set;
	int count = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0) {
		return 0;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set)) {
			continue;
		}
		if (count == 0) {
			cpus[0] = cpus[1] = cpu;
			count = 1;
		} else if (!share_core(cpus[0], cpu)) {
			cpus[1] = cpu;
			return 2;
		} else if (count == 1) {
			cpus[1] = cpu;
			count = 2;
		}
	}
	return count;
}

bool sgpu_bind_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}
