/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a measurement was taken: without that it says nothing to anybody else.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <openssl/crypto.h>

#include <device/host.h>
#include <sgpu/crypto.h>
#include <sgpu/rpc.h>
#include <sgpu/stage.h>
#include <sgpu/version.h>

#include "bench/private.h"

static void set_text(json_t *object, const char *key, const char *text)
{
	json_t *value = json_string(text);

	json_object_set_new(object, key, value ? value : json_string(""));
}

static void set_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

/* The system's own name for itself, PRETTY_NAME of os-release(5). */
static void set_system(json_t *object)
{
	FILE *file = fopen("/etc/os-release", "re");
	char line[256], name[256] = "unknown";
	struct utsname system;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "PRETTY_NAME=", 12) == 0) {
			char *value = line + 12 + (line[12] == '"');

			value[strcspn(value, "\"\n")] = '\0';
			snprintf(name, sizeof(name), "%s", value);
		}
	}
	if (file) {
		fclose(file);
	}
	set_text(object, "operating_system", name);
	set_text(object, "kernel", uname(&system) == 0 ? system.release : "unknown");
}

static void set_host(json_t *object)
{
	struct sgpu_rpc_costs costs;
	char processor[128];
	double load;
	struct sgpu_numa_node *nodes = NULL;
	int count = 0;

	sgpu_host_processor(processor, sizeof(processor));
	set_text(object, "processor", processor);
	set_number(object, "processors", sgpu_cpu_count());
	if (sgpu_numa_nodes(&nodes, &count, NULL) == SGPU_OK && count > 0) {
		set_number(object, "numa_nodes", (uint64_t)count);
		free(nodes);
	} else {
		json_object_set_new(object, "numa_nodes", json_null());
	}
	if (getloadavg(&load, 1) == 1) {
		json_object_set_new(object, "load_average", json_real(round(load * 100) / 100));
	}
	if (sgpu_rpc_measure(&costs, NULL) == SGPU_OK) {
		set_number(object, "cycles_per_second", costs.cycles_per_second);
		json_object_set_new(object, "vm_exit_cycles", costs.guest_exit_cycles == 0 ? json_null() :
				    json_integer((json_int_t)costs.guest_exit_cycles));
	}
	sgpu_bench_set_machine(object);
	set_text(object, "aead_provider", sgpu_aead_provider());
	set_text(object, "openssl", OpenSSL_version(OPENSSL_VERSION));
}

static void set_device(json_t *object, const struct sgpu_device_info *info)
{
	set_text(object, "device", info->name);
	set_text(object, "device_selector", info->selector);
	set_text(object, "device_uuid", info->uuid);
	set_text(object, "device_driver", info->driver);
	set_text(object, "device_confidential_computing", info->confidential);
	set_text(object, "device_timer", info->timer);
	json_object_set_new(object, "device_timer_difference", json_null());
	json_object_set_new(object, "device_numa_node",
			    info->numa_node < 0 ? json_null() : json_integer(info->numa_node));
	set_number(object, "device_memory_bytes", info->memory_total);
	set_number(object, "device_compute_units", info->compute_units);
}

json_t *sgpu_bench_environment(const struct sgpu_device_info *info, const struct sgpu_bench_options *options)
{
	json_t *object = json_object();
	time_t now = time(NULL);
	struct tm utc;
	char date[32] = "";

	set_text(object, "record", "environment");
	set_text(object, "sgpu_version", SGPU_VERSION);
	if (gmtime_r(&now, &utc)) {
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
	}
	set_text(object, "date", date);
	set_system(object);
	set_host(object);
	if (info) {
		set_device(object, info);
	}
	json_object_set_new(object, "quick", json_boolean(options->quick));
	set_number(object, "jobs", options->jobs ? options->jobs : sgpu_cpu_count());
	return object;
}
