/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-enclave --info: devices, what is missing and how to get it, and what this platform protects.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/attest.h>
#include <sgpu/device.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "enclave.h"

enum { GPUS_MAX = 64, SELECTOR = 24 };

/* *code: why the device is not available, or SGPU_OK. */
static json_t *look(const char *selector, int *code)
{
	struct sgpu_device_agreement agreement;
	struct sgpu_device_info info;
	struct sgpu_device *device = NULL;
	struct sgpu_error missing = { 0 };
	bool gpu;
	int rc = sgpu_device_open(selector, NULL, &device, &missing);

	rc = rc ? rc : sgpu_device_get_info(device, &info, &missing);
	rc = rc ? rc : sgpu_device_agree(device, &agreement, &missing);
	sgpu_device_close(&device);
	*code = rc;
	if (rc != SGPU_OK) {
		return json_pack("{s:s, s:b, s:s, s:s}", "selector", selector, "available", 0,
				 "missing", missing.text, "hint", missing.hint);
	}
	gpu = info.uuid[0] != '\0';
	return json_pack(
		"{s:s, s:b, s:s, s:i, s:I, s:I, s:b, s:b, s:b, s:I, s:o, s:s*, s:s*, s:s*, s:s*, "
		"s:o*, s:o*}",
		"selector", info.selector, "available", 1, "name", info.name, "compute_units",
		(int)info.compute_units, "memory_total_bytes", (json_int_t)info.memory_total,
		"memory_free_bytes", (json_int_t)info.memory_free, "opens_on_device",
		info.opens_on_device, "pins_host_memory", info.pins_host_memory,
		"registers_host_memory", info.registers, "piece_bytes", (json_int_t)info.piece,
		"numa_node", info.numa_node >= 0 ? json_integer(info.numa_node) : json_null(),
		"uuid", gpu ? info.uuid : NULL, "compute_capability", gpu ? info.capability : NULL,
		"driver", gpu ? info.driver : NULL, "confidential_computing",
		gpu ? info.confidential : NULL, "default", gpu ? json_false() : NULL,
		"key_agreement",
		gpu ? json_pack("{s:b, s:s}", "agreed", agreement.agreed, "text", agreement.text)
		    : NULL);
}

/* Lists every GPU by its index and marks the one that "cuda" means, or says what is missing; then
 * the CPU. *taken: that of "auto". */
static json_t *list_devices(const json_t **taken)
{
	json_t *all = json_array(), *one;
	char selector[SELECTOR];
	int none, code = SGPU_OK;
	json_t *standard = look("cuda", &none);

	for (int i = 0; none == SGPU_OK && i < GPUS_MAX; i++) {
		snprintf(selector, sizeof(selector), "cuda:%d", i);
		one = strcmp(selector, cli_text_of(standard, "selector")) == 0
			      ? json_incref(standard)
			      : look(selector, &code);
		if (code == SGPU_EUNAVAILABLE) {
			json_decref(one);
			break;
		}
		json_array_append_new(all, one);
	}
	if (none == SGPU_OK) {
		json_object_set_new(standard, "default", json_true());
	} else {
		json_array_append(all, standard);
	}
	one = look("cpu", &code);
	json_array_append_new(all, one);
	json_decref(standard);
	*taken = none == SGPU_OK ? standard : one; /* the list has it */
	return all;
}

static const char proof[] = "This is what the runner sees of itself. A host that lies could make "
			    "it see that too: only\n"
			    "attested evidence proves it to the owner of the data.\n";
static const char no_proof[] =
	"On this platform whoever controls the host can read the data while they are processed.\n"
	"Payloads are protected on their way to the runner and back, not in it.\n";

int show_info(void)
{
	/* First: devices start threads, and modules are tried in a process, which takes long to
	 * start once a GPU is open. */
	json_t *hardening = harden_look(), *modules = confinement_try();
	const struct sgpu_protection *protection;
	struct sgpu_platform platform;
	const json_t *taken;
	json_t *devices = list_devices(&taken), *providers = json_array(), *cuda = json_array(),
	       *info;
	struct sgpu_device_part parts[SGPU_DEVICE_PARTS_MAX];
	const int count = sgpu_device_parts(parts);

	for (const char *const *one = sgpu_aead_providers(); *one; one++) {
		json_array_append_new(providers, json_string(*one));
	}
	for (int i = 0; i < count; i++) {
		json_array_append_new(cuda, json_pack("{s:s, s:b, s:s, s:s}", "name", parts[i].name,
						      "found", parts[i].found, "text",
						      parts[i].text, "hint", parts[i].hint));
	}
	sgpu_platform_detect(&platform);
	protection = sgpu_platform_protection(
		&platform, json_object_get(taken, "uuid") != NULL,
		cli_text_of(taken, "confidential_computing"),
		json_is_true(json_object_get(json_object_get(taken, "key_agreement"), "agreed")));
	info = json_pack("{s:o, s:o, s:{s:s, s:o}, s:o, s:o, s:{s:s, s:s, s:b, s:b, s:b}, "
			 "s:{s:s, s:b, s:s, s:s, s:s}}",
			 "devices", devices, "cuda", cuda, "aead", "provider", sgpu_aead_provider(),
			 "available", providers, "hardening", hardening, "modules", modules,
			 "platform", "kind", sgpu_platform_name(platform.kind), "seen",
			 platform.seen, "virtual_machine", platform.virtual_machine,
			 "attestation_reports", platform.reports, "nvidia_driver", platform.gpu,
			 "protection", "row", protection->row, "protects_runner_memory",
			 protection->protects, "host_reads_runner_memory",
			 protection->enclave_memory, "host_reads_device_memory",
			 protection->device_memory, "bus_recorder_sees", protection->bus);
	if (cli_json || !info) {
		return cli_print_json(info, stdout, JSON_INDENT(2));
	}
	cli_record(stdout, info);
	fputs(protection->protects ? proof : no_proof, stdout);
	json_decref(info);
	return 0;
}
