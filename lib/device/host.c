/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and processor of this machine, from /proc and the control groups.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "base/base.h"
#include "device/device.h"

/* Returns the number after `label` in a file of lines "label [:] number", or `fallback`. */
static uint64_t labelled(const char *path, const char *label, uint64_t fallback)
{
	FILE *file = fopen(path, "re");
	char line[256];
	uint64_t value = fallback;
	size_t length = strlen(label);

	if (!file) {
		return fallback;
	}
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, label, length) == 0 &&
		    (line[length] == ':' || line[length] == ' ')) {
			if (sscanf(line + length + 1, "%" SCNu64, &value) != 1) {
				value = fallback;
			}
			break;
		}
	}
	fclose(file);
	return value;
}

/* Returns the number in a file, or `fallback` ("max" is no number). */
static uint64_t number(const char *path, uint64_t fallback)
{
	FILE *file = fopen(path, "re");
	uint64_t value;

	if (!file) {
		return fallback;
	}
	if (fscanf(file, "%" SCNu64, &value) != 1) {
		value = fallback;
	}
	fclose(file);
	return value;
}

struct group_files {
	const char *limit, *usage, *inactive, *active;
};
static const struct group_files unified = { "memory.max", "memory.current", "inactive_file",
					    "active_file" };
static const struct group_files legacy = { "memory.limit_in_bytes", "memory.usage_in_bytes",
					   "total_inactive_file", "total_active_file" };

/* Applies the limits of the control group in `folder`. Page cache counts as free, since the kernel
 * drops it first. */
static void apply_group(const char *folder, const struct group_files *files, uint64_t *total,
			uint64_t *available)
{
	char path[PATH_MAX + 32];
	uint64_t limit, usage, cache;

	snprintf(path, sizeof(path), "%s/%s", folder, files->limit);
	limit = number(path, UINT64_MAX);
	if (limit >= INT64_MAX / 2) {
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", folder, files->usage);
	usage = number(path, 0);
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	cache = labelled(path, files->inactive, 0) + labelled(path, files->active, 0);
	usage -= sgpu_min_u64(usage, cache);
	*total = sgpu_min_u64(*total, limit);
	*available = sgpu_min_u64(*available, limit - sgpu_min_u64(limit, usage));
}

/* Applies the limits of a control group and of all its ancestors. */
static void apply_groups(const char *root, const char *group, const struct group_files *files,
			 uint64_t *total, uint64_t *available)
{
	char folder[PATH_MAX];
	size_t length = strlen(root);

	if (snprintf(folder, sizeof(folder), "%s%s", root, group) >= (int)sizeof(folder)) {
		return;
	}
	while (strlen(folder) > length) {
		apply_group(folder, files, total, available);
		*strrchr(folder, '/') = '\0';
	}
	apply_group(root, files, total, available);
}

/* Tells the machine's memory. Without /proc, sysinfo is used, and memory of caches does not count
 * as available. */
static void whole_machine(uint64_t *total, uint64_t *available)
{
	struct sysinfo about;
	uint64_t all = labelled("/proc/meminfo", "MemTotal", 0),
		 now = labelled("/proc/meminfo", "MemAvailable", all);

	if (all > 0 && all < UINT64_MAX / 1024 && now <= all) {
		*total = all * 1024;
		*available = now * 1024;
		return;
	}
	*total = *available = UINT64_MAX;
	if (sysinfo(&about) == 0) {
		*total = (uint64_t)about.totalram * about.mem_unit;
		*available = ((uint64_t)about.freeram + about.bufferram) * about.mem_unit;
	}
}

void sgpu_host_memory(uint64_t *total, uint64_t *available)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	uint64_t all, now;
	char line[PATH_MAX], *controllers, *group;

	whole_machine(&all, &now);
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		controllers = strchr(line, ':');
		group = controllers ? strchr(++controllers, ':') : NULL;
		if (!group) {
			continue;
		}
		*group++ = '\0';
		if (*controllers == '\0') {
			apply_groups("/sys/fs/cgroup", group, &unified, &all, &now);
		} else if (strcmp(controllers, "memory") == 0) {
			apply_groups("/sys/fs/cgroup/memory", group, &legacy, &all, &now);
		}
	}
	if (file) {
		fclose(file);
	}
	if (total) {
		*total = all;
	}
	if (available) {
		*available = now;
	}
}

void sgpu_host_processor(char *name, unsigned size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	struct utsname system;
	char line[256], *value;

	snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		value = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && value) {
			value += 1 + strspn(value + 1, " \t");
			value[strcspn(value, "\n")] = '\0';
			snprintf(name, size, "%s", value);
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	for (; *name; name++) {
		if (!isprint((unsigned char)*name)) {
			*name = '?';
		}
	}
}
