/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's description of the processors says which are hardware threads of one core.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "bench/bench.h"

enum { LINE = 128 };

/* The processors of a core, as the kernel lists them; "": not known. */
static void siblings(int cpu, char line[LINE])
{
	char path[LINE];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
		 cpu);
	sgpu_peek_line(path, line, LINE);
}

static bool share_core(int a, int b)
{
	char of_a[LINE], of_b[LINE];

	siblings(a, of_a);
	siblings(b, of_b);
	return of_a[0] && strcmp(of_a, of_b) == 0;
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
