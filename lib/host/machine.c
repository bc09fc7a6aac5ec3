/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors and memory of this machine, from /proc, /sys and the control groups (version 2).
 */
#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "host/host.h"

#define GROUPS "/sys/fs/cgroup"

/* A container's quota (cgroup v2 as seen from inside) can be smaller than the affinity mask. */
static unsigned quota(void)
{
	unsigned long limit, period;
	char text[64];

	return sgpu_peek(GROUPS "/cpu.max", text, sizeof(text)) &&
			       sscanf(text, "%lu %lu", &limit, &period) == 2 && period
		       ? (unsigned)((limit + period - 1) / period)
		       : 0;
}

unsigned sgpu_cpu_count(void)
{
	cpu_set_t sets[64]; /* for 65536 processors */
	unsigned count = 0, limit = quota();

	if (sched_getaffinity(0, sizeof(sets), sets) == 0) {
		count = (unsigned)CPU_COUNT_S(sizeof(sets), sets);
	}
	if (limit && limit < count) {
		count = limit;
	}
	if (count > SGPU_POOL_JOBS_MAX) {
		count = SGPU_POOL_JOBS_MAX;
	}
	return count ? count : 1;
}

/* The number after `label`, which begins a line of a file, or `fallback`; "max" is no number. */
static uint64_t number(const char *folder, const char *file, const char *label, uint64_t fallback)
{
	char path[PATH_MAX + 32], text[8192], *at = text, *end;
	uint64_t value;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	(void)sgpu_peek(path, text, sizeof(text));
	for (; strncmp(at, label, strlen(label)) != 0; at++) {
		at = strchr(at, '\n');
		if (!at) {
			return fallback;
		}
	}
	at += strlen(label);
	value = strtoull(at, &end, 10);
	return end > at ? value : fallback;
}

/* Page cache counts as free, since the kernel drops it first. */
static void apply_group(const char *folder, uint64_t *total, uint64_t *available)
{
	const uint64_t limit = number(folder, "memory.max", "", UINT64_MAX),
		       cache = number(folder, "memory.stat", "inactive_file ", 0) +
			       number(folder, "memory.stat", "active_file ", 0);
	uint64_t usage = number(folder, "memory.current", "", 0);

	usage -= sgpu_min_u64(usage, cache);
	*total = sgpu_min_u64(*total, limit);
	*available = sgpu_min_u64(*available, limit - sgpu_min_u64(limit, usage));
}

uint64_t sgpu_host_memory_installed(void)
{
	struct sysinfo about;

	return sysinfo(&about) == 0 ? (uint64_t)about.totalram * about.mem_unit : 0;
}

/* Without /proc, memory of caches does not count as available. */
static void whole_machine(uint64_t *total, uint64_t *available)
{
	const uint64_t all = number("/proc", "meminfo", "MemTotal:", 0);
	struct sysinfo about;

	*total = all * 1024;
	*available = number("/proc", "meminfo", "MemAvailable:", all) * 1024;
	if (!all && sysinfo(&about) == 0) {
		*total = sgpu_host_memory_installed();
		*available = ((uint64_t)about.freeram + about.bufferram) * about.mem_unit;
	}
}

void sgpu_host_memory(uint64_t *total, uint64_t *available)
{
	char groups[PATH_MAX], folder[PATH_MAX] = GROUPS, *group;
	uint64_t all, now;

	whole_machine(&all, &now);
	(void)sgpu_peek("/proc/self/cgroup", groups, sizeof(groups));
	group = strstr(groups, "0::/"); /* no other line has an empty list of controllers */
	if (group) {
		group[strcspn(group, "\n")] = '\0';
		snprintf(folder, sizeof(folder), GROUPS "%s", group + strlen("0::"));
	}
	/* the group and all its ancestors */
	for (; strlen(folder) > strlen(GROUPS); *strrchr(folder, '/') = '\0') {
		apply_group(folder, &all, &now);
	}
	apply_group(GROUPS, &all, &now);
	if (total) {
		*total = all;
	}
	if (available) {
		*available = now;
	}
}

void sgpu_host_processor(char *name, unsigned size)
{
	struct utsname system;
	char text[4096], *model;

	(void)sgpu_peek("/proc/cpuinfo", text, sizeof(text));
	model = strstr(text, "\nmodel name");
	model = model ? strstr(model, ": ") : NULL;
	snprintf(name, size, "%.*s", model ? (int)strcspn(model + 2, "\n") : INT_MAX,
		 model		       ? model + 2
		 : uname(&system) == 0 ? system.machine
				       : "unknown");
	for (; *name; name++) {
		if (!isprint((unsigned char)*name)) {
			*name = '?';
		}
	}
}

int sgpu_host_node(const char *path)
{
	char line[16];

	return sgpu_peek_line(path, line, sizeof(line)) && isdigit((unsigned char)*line)
		       ? atoi(line)
		       : -1;
}
