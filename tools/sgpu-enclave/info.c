/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-enclave --info: devices, what is missing and how to get it, how this process and its modules
 * are confined, as a quote claims it, and what this platform protects.
 */
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <jansson.h>
#include <sgpu/attest.h>
#include <sgpu/device.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "device/device.h"
#include "enclave.h"

enum { GPUS_MAX = 64, SELECTOR = 24 };

static json_t *modules_json(const struct sgpu_module_confinement *m)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "process", m->process, "namespaces",
			 m->user && m->mount && m->pid && m->net && m->ipc && m->uts, "root",
			 m->root, "landlock", m->landlock != 0, "seccomp", m->seccomp,
			 "no_capabilities", m->capabilities);
}

json_t *confinement_claim(const struct sgpu_module_confinement *m)
{
	return json_pack("{s:b, s:b, s:o*}", "seccomp", !cli_harden_off(), "landlock",
			 landlock_version() > 0, "modules", m->process ? modules_json(m) : NULL);
}

int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules,
			   struct sgpu_error *error)
{
	const int rc = sgpu_device_module_confinement(device, modules, error);
	/* On a GPU they have no process. */
	json_t *parts = rc == SGPU_OK && modules->process ? modules_json(modules) : NULL, *holds;
	char lacks[128] = "";
	const char *name;

	json_object_foreach (parts, name, holds) {
		if (json_is_false(holds)) {
			cli_append(lacks, sizeof(lacks), "%s%s", *lacks ? ", " : "", name);
		}
	}
	if (*lacks) {
		cli_warning("modules are not confined in all: %s", lacks);
	}
	json_decref(parts);
	return rc;
}

/* Tries the confinement of CPU modules, with the names of the claim `confinement`, and in "missing"
 * why not. */
static json_t *try_modules(void)
{
	struct sgpu_module_confinement m = { .process = 0 };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	int rc = sgpu_device_prepare_modules(SGPU_HOST_PATH, 1, &error);
	json_t *parts;

	rc = rc ? rc : sgpu_device_open("cpu", NULL, &device, &error);
	rc = rc ? rc : sgpu_device_module_confinement(device, &m, &error);
	sgpu_device_close(&device);
	parts = modules_json(&m);
	if (rc != SGPU_OK) {
		json_object_set_new(parts, "missing", json_string(error.text));
	}
	return parts;
}

/* Hardens this process as a runner, and tells whether this machine has each protection, in
 * "missing" why not, and the kind of "secret_memory" that it gets. */
static json_t *look_at_process(void)
{
	const char *off = cli_harden_off();
	struct rlimit core = { 1, 1 };
	bool closed;

	if (!off) {
		cli_harden();
	}
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:s, s:s*}", "no_core",
			 closed && core.rlim_max == 0, "no_attaching", closed, "no_new_privileges",
			 prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "filtered_system_calls",
			 /* on all threads */ !off && seccomp_api_get() >= 2, "confined_files",
			 landlock_version() > 0, "secret_memory", sgpu_secret_kind(), "missing",
			 off);
}

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
	json_t *hardening = look_at_process(), *modules = try_modules();
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
