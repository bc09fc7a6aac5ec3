/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the machine moves its figures: clocks, idle states, caches, mitigations, neighbours. What a machine does not tell is
 * null.
 */
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <device/host.h>
#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "bench/private.h"

#define CPU "/sys/devices/system/cpu/"
#define MM "/sys/kernel/mm/"

enum { LINE = 256 };

/* With an asterisk: an object with a member for each file. */
static const struct {
	const char *key, *path;
} files[] = {
	{ "clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
	{ "frequency_driver", CPU "cpu0/cpufreq/scaling_driver" },
	{ "frequency_governor", CPU "cpu0/cpufreq/scaling_governor" },
	{ "frequency_min_khz", CPU "cpu0/cpufreq/cpuinfo_min_freq" },
	{ "frequency_max_khz", CPU "cpu0/cpufreq/cpuinfo_max_freq" },
	{ "frequency_now_khz", CPU "cpu0/cpufreq/scaling_cur_freq" },
	{ "idle_driver", CPU "cpuidle/current_driver" },
	{ "idle_governor", CPU "cpuidle/current_governor_ro" },
	{ "idle_state_names", CPU "cpu0/cpuidle/*/name" },
	{ "idle_state_latencies_us", CPU "cpu0/cpuidle/*/latency" },
	{ "smt", CPU "smt/control" },
	{ "isolated_processors", CPU "isolated" },
	{ "cache_levels", CPU "cpu0/cache/*/level" },
	{ "cache_types", CPU "cpu0/cache/*/type" },
	{ "cache_sizes", CPU "cpu0/cache/*/size" },
	{ "transparent_huge_pages", MM "transparent_hugepage/enabled" },
	{ "huge_pages", MM "hugepages/*/nr_hugepages" },
	{ "vulnerabilities", CPU "vulnerabilities/*" },
	{ "machine_vendor", "/sys/class/dmi/id/sys_vendor" },
	{ "machine_model", "/sys/class/dmi/id/product_name" },
	{ "firmware", "/sys/class/dmi/id/bios_version" },
};

/* The first line of a file: a number, a text, of "[this] that" the choice, or null. */
static json_t *line_json(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[LINE] = "", *text = line, *end;
	long long number;

	if (file && !fgets(line, sizeof(line), file)) {
		line[0] = '\0';
	}
	if (file) {
		fclose(file);
	}
	for (end = line; *end >= ' ' && *end <= '~'; end++) {
	}
	*end = '\0';
	if (strchr(line, '[') && strchr(line, ']')) {
		text = strchr(line, '[') + 1;
		text[strcspn(text, "]")] = '\0';
	}
	number = strtoll(text, &end, 10);
	return !*text || *text == '(' ? json_null() : !*end ? json_integer(number) : json_string(text);
}

/* What lies between the parts of a path that all have: "state1" of "/.../cpuidle/state1/name". */
static json_t *lines_json(const char *pattern)
{
	const size_t before = strcspn(pattern, "*"), after = strlen(pattern) - before - 1;
	json_t *lines = json_object();
	glob_t paths = { 0 };

	if (glob(pattern, 0, NULL, &paths) == 0) {
		for (size_t i = 0; i < paths.gl_pathc; i++) {
			char key[LINE];

			snprintf(key, sizeof(key), "%.*s", (int)(strlen(paths.gl_pathv[i]) - before - after),
				 paths.gl_pathv[i] + before);
			json_object_set_new(lines, key, line_json(paths.gl_pathv[i]));
		}
	}
	globfree(&paths);
	return lines;
}

/* How many different lines the files have: those that list the processors of a core differ from core to core. */
static json_t *count_different(const char *pattern)
{
	json_t *lines = lines_json(pattern), *seen = json_object(), *line;
	const char *key;
	size_t count;

	json_object_foreach(lines, key, line) {
		char text[LINE];

		/* A list of one processor is a number. */
		snprintf(text, sizeof(text), "%s%lld", json_is_string(line) ? json_string_value(line) : "",
			 (long long)json_integer_value(line));
		json_object_set_new(seen, text, json_true());
	}
	count = json_object_size(seen);
	json_decref(lines);
	json_decref(seen);
	return count ? json_integer((json_int_t)count) : json_null();
}

/* The name that a hypervisor gives itself by CPUID. */
static json_t *hypervisor_json(void)
{
	unsigned name[4] = { 0 };
#if defined(__x86_64__)
	unsigned a;

	__cpuid(0x40000000, a, name[0], name[1], name[2]);
#endif
	for (const char *c = (const char *)name; *c; c++) {
		if (*c < ' ' || *c > '~') {
			return json_string("unknown");
		}
	}
	return json_string(name[0] ? (const char *)name : "unknown");
}

void sgpu_bench_set_machine(json_t *environment)
{
	struct sgpu_platform platform;
	uint64_t total;

	sgpu_platform_detect(&platform);
	sgpu_host_memory(&total, NULL);
	json_object_set_new(environment, "sockets", count_different(CPU "cpu*/topology/package_cpus_list"));
	json_object_set_new(environment, "cores", count_different(CPU "cpu*/topology/thread_siblings_list"));
	json_object_set_new(environment, "memory_bytes", total > INT64_MAX ? json_null() : json_integer((json_int_t)total));
	json_object_set_new(environment, "platform", json_string(sgpu_platform_word(platform.kind)));
	json_object_set_new(environment, "hypervisor", platform.virtual_machine ? hypervisor_json() : json_null());
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(files); i++) {
		json_object_set_new(environment, files[i].key, strchr(files[i].path, '*') ? lines_json(files[i].path) :
				    line_json(files[i].path));
	}
}

/* ---- what else it did ---- */
void sgpu_bench_begin(struct sgpu_bench_moment *begin)
{
	FILE *file = fopen("/proc/stat", "re");
	uint64_t ticks[8] = { 0 }; /* of all processors; the last kind is what the hypervisor took */

	for (int i = 0; file && i < 8; i++) {
		if (fscanf(file, i ? "%" SCNu64 : "cpu %" SCNu64, &ticks[i]) != 1) {
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	*begin = (struct sgpu_bench_moment){ .ns = sgpu_now_ns(), .stolen = ticks[7] };
	for (int i = 0; i < 8; i++) {
		begin->all += ticks[i];
	}
}

json_t *sgpu_bench_end(const struct sgpu_bench_moment *begin)
{
	struct sgpu_bench_moment end;
	double load;
	json_t *object;

	sgpu_bench_begin(&end);
	object = json_pack("{s:s, s:f}", "record", "end", "seconds", round((double)(end.ns - begin->ns) / 1e6) / 1e3);
	json_object_set_new(object, "steal_share", end.all > begin->all && end.stolen >= begin->stolen ?
			    json_real((double)(end.stolen - begin->stolen) / (double)(end.all - begin->all)) : json_null());
	json_object_set_new(object, "load_average", getloadavg(&load, 1) == 1 ? json_real(round(load * 100) / 100) : json_null());
	return object;
}
