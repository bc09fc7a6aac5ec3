/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes where a measurement was taken, so that others can judge it: the machine, the build,
 * settings that change results, and other load. Values that the machine does not tell are null.
 */
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <openssl/crypto.h>

#include <host/host.h>
#include <sgpu/attest.h>
#include <sgpu/version.h>

#include "crypto/crypto.h"
#include "bench/bench.h"

static const struct {
	const char *key, *path;
} files[] = {
	{ "clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
	{ "frequency_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor" },
	{ "smt", "/sys/devices/system/cpu/smt/control" },
	{ "transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled" },
};

static json_t *number_or_null(bool is_known, uint64_t number)
{
	return is_known ? json_integer((json_int_t)number) : json_null();
}

static void set_host(json_t *object)
{
	const struct sgpu_bench_exit costs = sgpu_bench_measure_exit();
	glob_t nodes = { 0 };
	struct sgpu_platform platform;
	char processor[128], line[256];
	uint64_t memory;
	double load;
	const bool has_nodes = glob("/sys/devices/system/node/node[0-9]*", 0, NULL, &nodes) == 0;

	sgpu_platform_detect(&platform);
	sgpu_host_processor(processor, sizeof(processor));
	sgpu_host_memory(&memory, NULL);
	json_object_update_new(
		object,
		json_pack("{s:o*, s:I, s:o, s:o, s:I, s:o, s:I, s:s, s:s, s:s}", "processor",
			  json_string(processor), "processors", (json_int_t)sgpu_cpu_count(),
			  "numa_nodes", number_or_null(has_nodes, nodes.gl_pathc), "load_average",
			  getloadavg(&load, 1) == 1 ? json_real(round(load * 100) / 100)
						    : json_null(),
			  "cycles_per_second", (json_int_t)costs.cycles_per_second,
			  "vm_exit_cycles",
			  number_or_null(costs.guest_exit_cycles != 0, costs.guest_exit_cycles),
			  "memory_bytes", (json_int_t)memory, "platform",
			  sgpu_platform_word(platform.kind), "aead_provider", sgpu_aead_provider(),
			  "openssl", OpenSSL_version(OPENSSL_VERSION)));
	globfree(&nodes);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(files); i++) {
		sgpu_peek_line(files[i].path, line, sizeof(line));
		json_object_set_new(object, files[i].key, *line ? json_string(line) : json_null());
	}
}

json_t *sgpu_bench_environment(const struct sgpu_device_info *info,
			       const struct sgpu_bench_options *options)
{
	const time_t now = time(NULL);
	struct utsname system = { .release = "unknown" };
	struct tm utc;
	char date[32], text[4096], *name, *rest;
	json_t *object;

	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
	(void)uname(&system);
	sgpu_peek("/etc/os-release", text, sizeof(text));
	name = strstr(text, "PRETTY_NAME=");
	name = name ? strtok_r(name + strlen("PRETTY_NAME="), "\"\n", &rest) : NULL;
	object = json_pack(
		"{s:s, s:s, s:s, s:o*, s:s, s:b, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I}",
		"record", "environment", "sgpu_version", SGPU_VERSION, "date", date,
		"operating_system", json_string(name ? name : "unknown"), "kernel", system.release,
		"quick", options->quick, "jobs", options->jobs ? options->jobs : sgpu_cpu_count(),
		"device", info->name, "device_selector", info->selector, "device_uuid", info->uuid,
		"device_driver", info->driver, "device_confidential_computing", info->confidential,
		"device_timer", info->timer, "device_numa_node",
		number_or_null(info->numa_node >= 0, (uint64_t)info->numa_node),
		"device_memory_bytes", (json_int_t)info->memory_total, "device_compute_units",
		(json_int_t)info->compute_units);
	set_host(object);
	return object;
}
