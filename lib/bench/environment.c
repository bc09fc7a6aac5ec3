/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes where a measurement was taken, so that others can judge it: the machine, the build,
 * settings that change results, and other load. Values that the machine does not tell are null.
 */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <openssl/crypto.h>

#include <base/base.h>
#include <device/device.h>
#include <sgpu/attest.h>
#include <sgpu/version.h>

#include "crypto/crypto.h"
#include "stage/stage.h"
#include "bench/private.h"

#define CPU "/sys/devices/system/cpu/"
#define MM "/sys/kernel/mm/"

enum { LINE = 256 };

/* Members and the files that hold their values. A path with an asterisk gives an object with a
 * member for each matching file. */
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

/* ---- values ---- */
static json_t *text_json(const char *text)
{
	json_t *value = json_string(text);

	return value ? value : json_string("");
}

static json_t *number_or_null(bool is_known, uint64_t number)
{
	return is_known && number <= INT64_MAX ? json_integer((json_int_t)number) : json_null();
}

static json_t *load_json(void)
{
	double load;

	return getloadavg(&load, 1) == 1 ? json_real(round(load * 100) / 100) : json_null();
}

/* Returns the line of a file as a number or a text; null if it is empty or begins with '('. */
static json_t *line_json(const char *path)
{
	char line[LINE], *end;
	long long number;

	sgpu_peek_line(path, line, sizeof(line));
	number = strtoll(line, &end, 10);
	return !*line || *line == '(' ? json_null()
	       : !*end		      ? json_integer(number)
				      : json_string(line);
}

/* Returns the lines of the matching files, keyed by the text that the asterisk matches. */
static json_t *lines_json(const char *pattern)
{
	const size_t before = strcspn(pattern, "*"), after = strlen(pattern) - before - 1;
	json_t *lines = json_object();
	glob_t paths = { 0 };

	if (glob(pattern, 0, NULL, &paths) == 0) {
		for (size_t i = 0; i < paths.gl_pathc; i++) {
			char key[LINE];

			snprintf(key, sizeof(key), "%.*s",
				 (int)(strlen(paths.gl_pathv[i]) - before - after),
				 paths.gl_pathv[i] + before);
			json_object_set_new(lines, key, line_json(paths.gl_pathv[i]));
		}
	}
	globfree(&paths);
	return lines;
}

/* Returns the name that a hypervisor gives itself by CPUID, up to the first byte that is not
 * printable. */
static json_t *hypervisor_json(void)
{
	unsigned name[4] = { 0 };
	char *end = (char *)name;

#if defined(__x86_64__)
	unsigned a;

	__cpuid(0x40000000, a, name[0], name[1], name[2]);
#endif
	while (*end >= ' ' && *end <= '~') {
		end++;
	}
	*end = '\0';
	return json_string(end > (char *)name ? (char *)name : "unknown");
}

/* Returns the system's name, PRETTY_NAME of os-release(5). */
static const char *system_name(char text[4096])
{
	char *name;

	sgpu_peek("/etc/os-release", text, 4096);
	name = strstr(text, "PRETTY_NAME=");
	if (!name) {
		return "unknown";
	}
	name += 12 + (name[12] == '"');
	name[strcspn(name, "\"\n")] = '\0';
	return name;
}

/* ---- parts of the description ---- */
static void set_host(json_t *object)
{
	struct sgpu_bench_exit costs;
	const bool has_costs = sgpu_bench_measure_exit(&costs);
	struct sgpu_numa_node *nodes = NULL;
	struct sgpu_platform platform;
	char processor[128];
	uint64_t memory;
	int count = 0;
	const bool has_nodes = sgpu_numa_nodes(&nodes, &count, NULL) == SGPU_OK && count > 0;

	free(nodes);
	sgpu_platform_detect(&platform);
	sgpu_host_processor(processor, sizeof(processor));
	sgpu_host_memory(&memory, NULL);
	json_object_update_new(
		object,
		json_pack("{s:o, s:I, s:o, s:o, s:o*, s:o*, s:o, s:s, s:o, s:s, s:s}", "processor",
			  text_json(processor), "processors", (json_int_t)sgpu_cpu_count(),
			  "numa_nodes", number_or_null(has_nodes, (uint64_t)count), "load_average",
			  load_json(), "cycles_per_second",
			  has_costs ? number_or_null(true, costs.cycles_per_second) : NULL,
			  "vm_exit_cycles",
			  has_costs ? number_or_null(costs.guest_exit_cycles != 0,
						     costs.guest_exit_cycles)
				    : NULL,
			  "memory_bytes", number_or_null(true, memory), "platform",
			  sgpu_platform_word(platform.kind), "hypervisor",
			  platform.virtual_machine ? hypervisor_json() : json_null(),
			  "aead_provider", sgpu_aead_provider(), "openssl",
			  OpenSSL_version(OPENSSL_VERSION)));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(files); i++) {
		json_object_set_new(object, files[i].key,
				    strchr(files[i].path, '*') ? lines_json(files[i].path)
							       : line_json(files[i].path));
	}
}

json_t *sgpu_bench_environment(const struct sgpu_device_info *info,
			       const struct sgpu_bench_options *options)
{
	const time_t now = time(NULL);
	struct utsname system;
	struct tm utc;
	char date[32] = "", text[4096];
	json_t *object;

	if (gmtime_r(&now, &utc)) {
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
	}
	object = json_pack(
		"{s:s, s:s, s:s, s:o, s:s, s:b, s:i}", "record", "environment", "sgpu_version",
		SGPU_VERSION, "date", date, "operating_system", text_json(system_name(text)),
		"kernel", uname(&system) == 0 ? system.release : "unknown", "quick", options->quick,
		"jobs", options->jobs ? options->jobs : sgpu_cpu_count());
	set_host(object);
	if (info) {
		json_object_update_new(
			object,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "device",
				  text_json(info->name), "device_selector",
				  text_json(info->selector), "device_uuid", text_json(info->uuid),
				  "device_driver", text_json(info->driver),
				  "device_confidential_computing", text_json(info->confidential),
				  "device_timer", text_json(info->timer), "device_numa_node",
				  number_or_null(info->numa_node >= 0, (uint64_t)info->numa_node),
				  "device_memory_bytes", (json_int_t)info->memory_total,
				  "device_compute_units", (json_int_t)info->compute_units));
	}
	return object;
}

/* ---- other load of the machine ---- */
void sgpu_bench_begin(struct sgpu_bench_moment *begin)
{
	char text[LINE] = "", *at = text + strlen("cpu");

	*begin = (struct sgpu_bench_moment){ .ns = sgpu_now_ns() };
	sgpu_peek("/proc/stat", text, sizeof(text));
	for (int i = 0; i < 8;
	     i++) { /* ticks of all processors; the last kind is time that the hypervisor took */
		begin->stolen = strtoull(at, &at, 10);
		begin->all += begin->stolen;
	}
}

json_t *sgpu_bench_end(const struct sgpu_bench_moment *begin)
{
	struct sgpu_bench_moment end;
	bool is_known;

	sgpu_bench_begin(&end);
	is_known = end.all > begin->all && end.stolen >= begin->stolen;
	return json_pack("{s:s, s:f, s:o, s:o}", "record", "end", "seconds",
			 round((double)(end.ns - begin->ns) / 1e6) / 1e3, "steal_share",
			 is_known ? json_real((double)(end.stolen - begin->stolen) /
					      (double)(end.all - begin->all))
				  : json_null(),
			 "load_average", load_json());
}
