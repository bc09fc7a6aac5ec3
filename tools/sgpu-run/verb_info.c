/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run info: devices, what is missing and how to get it, and what this platform protects. It claims nothing that
 * the platform does not give.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <sgpu/crypto.h>
#include <sgpu/device.h>

#include "platform.h"
#include "verbs.h"

const struct cli_option info_options[] = { CLI_COMMON, { NULL, 0, NULL, NULL } };

/* Every kind of device that there may be, in this build or in another. */
static const char *const selectors[] = { "cuda", "cpu" };
enum { SELECTORS = 2 };

struct found {
	bool available;
	struct sgpu_device_info info;
	struct sgpu_error missing;
};

static const char *kind_name(enum platform_kind kind)
{
	static const char *const names[] = {
		[PLATFORM_PLAIN] = "plain machine",
		[PLATFORM_GRAMINE_DIRECT] = "plain machine, under Gramine without SGX",
		[PLATFORM_GRAMINE_SGX] = "SGX enclave by Gramine",
		[PLATFORM_TDX] = "TDX guest",
		[PLATFORM_SNP] = "SEV-SNP guest",
	};

	return names[kind];
}

static void look(const char *selector, struct found *found)
{
	struct sgpu_device *device = NULL;

	memset(found, 0, sizeof(*found));
	found->available = sgpu_device_open(selector, NULL, &device, &found->missing) == SGPU_OK &&
			   sgpu_device_get_info(device, &found->info, &found->missing) == SGPU_OK;
	sgpu_device_close(&device);
}

/* ---- text ---- */
static void print_device(const char *selector, const struct found *found)
{
	if (!found->available) {
		printf("device %-5s  not available: %s\n", selector, found->missing.text);
		if (found->missing.hint[0]) {
			printf("              %s\n", found->missing.hint);
		}
		return;
	}
	printf("device %-5s  %s\n", found->info.selector, found->info.name);
	printf("              %u workers, %" PRIu64 " MiB of memory, %" PRIu64 " MiB free\n", found->info.compute_units,
	       found->info.memory_total >> 20, found->info.memory_free >> 20);
}

static void print_platform(const struct platform *platform, const struct protection *protection)
{
	printf("platform      %s (%s)%s\n", kind_name(platform->kind), platform->seen,
	       platform->virtual_machine ? ", in a virtual machine" : "");
	printf("reports       %s\n", platform->reports ? "the kernel gives attestation reports (configfs tsm)" :
	       "none: the kernel has no provider of attestation reports");
	printf("GPU           %s\n", platform->gpu ? "an NVIDIA driver is loaded" : "no NVIDIA driver is loaded");
	printf("\nprotection    %s\n", protection->row);
	printf("  may the host read the runner's memory?  %s\n", protection->enclave_memory);
	printf("  may the host read the device's memory?  %s\n", protection->device_memory);
	printf("  what a recorder on the bus sees         %s\n", protection->bus);
	if (protection->protects) {
		printf("This is what the runner sees of itself. A host that lies could make it see that too: only\n"
		       "attested evidence proves it to the owner of the data.\n");
	} else {
		printf("On this platform whoever controls the host can read the data while they are processed.\n"
		       "Payloads are protected on their way to the runner and back, not in it.\n");
	}
}

/* ---- JSON ---- */
static json_t *device_json(const char *selector, const struct found *found)
{
	if (!found->available) {
		return json_pack("{s:s, s:b, s:s, s:s}", "selector", selector, "available", 0, "missing",
				 found->missing.text, "hint", found->missing.hint);
	}
	return json_pack("{s:s, s:b, s:s, s:i, s:I, s:I, s:b}", "selector", found->info.selector, "available", 1, "name",
			 found->info.name, "compute_units", (int)found->info.compute_units, "memory_total_bytes",
			 (json_int_t)found->info.memory_total, "memory_free_bytes", (json_int_t)found->info.memory_free,
			 "opens_on_device", found->info.opens_on_device);
}

static int print_json(const struct found *found, const struct platform *platform,
		      const struct protection *protection)
{
	json_t *devices = json_array(), *providers = json_array(), *object;
	const char *const *names = sgpu_aead_providers();
	int failed;

	for (int i = 0; i < SELECTORS; i++) {
		json_array_append_new(devices, device_json(selectors[i], &found[i]));
	}
	for (int i = 0; names[i]; i++) {
		json_array_append_new(providers, json_string(names[i]));
	}
	object = json_pack("{s:o, s:{s:s, s:o}, s:{s:s, s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:s, s:s, s:s}}", "devices",
			   devices, "aead", "provider", sgpu_aead_provider(), "available", providers, "platform", "kind",
			   kind_name(platform->kind), "seen", platform->seen, "virtual_machine",
			   platform->virtual_machine, "attestation_reports", platform->reports, "nvidia_driver",
			   platform->gpu, "protection", "row", protection->row, "protects_runner_memory",
			   protection->protects, "host_reads_runner_memory", protection->enclave_memory,
			   "host_reads_device_memory", protection->device_memory, "bus_recorder_sees", protection->bus);
	failed = !object || json_dumpf(object, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF;
	json_decref(object);
	return failed || fflush(stdout) == EOF ? cli_fail(SGPU_ESYSTEM, "cannot write to standard output") : 0;
}

int verb_info(int argc, char **argv)
{
	const struct protection *protection;
	struct found found[SELECTORS];
	struct platform platform;
	const char *value;
	int first, key;

	while ((key = cli_next(argc, argv, &value, &first))) {
		if (key < 0) {
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 0)) {
		return 2;
	}
	for (int i = 0; i < SELECTORS; i++) {
		look(selectors[i], &found[i]);
	}
	platform_detect(&platform);
	protection = platform_protection(&platform, found[0].available); /* the device that auto would take */
	if (cli_json) {
		return print_json(found, &platform, protection);
	}
	for (int i = 0; i < SELECTORS; i++) {
		print_device(selectors[i], &found[i]);
	}
	printf("AES-GCM       %s\n", sgpu_aead_provider());
	print_platform(&platform, protection);
	return fflush(stdout) == EOF ? cli_fail(SGPU_ESYSTEM, "cannot write to standard output") : 0;
}
