/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-enclave --info: devices, what is missing and how to get it, and what this platform protects.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/attest.h>
#include <sgpu/device.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "ops/ops.h"
#include "enclave.h"
#include "harden.h"

enum { DEVICES_MAX = 66, SELECTOR = 24 };

struct found {
	char selector[SELECTOR];  /* as passed to sgpu_device_open */
	bool available, standard; /* standard: the one that "cuda" means */
	struct sgpu_device_info info;
	struct sgpu_device_agreement agreement;
	struct sgpu_error missing;
};

struct inventory {
	struct found devices[DEVICES_MAX]; /* those of the preferred backend first */
	int device_count;
	struct sgpu_device_part parts[SGPU_DEVICE_PARTS_MAX];
	int part_count;
	struct harden_finding hardening[HARDEN_FINDINGS], modules[CONFINEMENT_FINDINGS];
};

static void look(const char *selector, struct found *found)
{
	struct sgpu_device *device = NULL;

	memset(found, 0, sizeof(*found));
	snprintf(found->selector, sizeof(found->selector), "%s", selector);
	found->available = sgpu_device_open(selector, NULL, &device, &found->missing) == SGPU_OK &&
			   sgpu_device_get_info(device, &found->info, &found->missing) == SGPU_OK &&
			   sgpu_device_agree(device, &found->agreement, &found->missing) == SGPU_OK;
	sgpu_device_close(&device);
}

/* Lists every GPU by its index, and marks the one that "cuda" means. If there is none, one entry
 * says what is missing. */
static void look_for_gpus(struct inventory *all)
{
	struct found standard, *next = all->devices;
	char selector[SELECTOR];
	int i;

	look("cuda", &standard);
	for (i = 0; standard.available && i < DEVICES_MAX - 2; i++, next++) {
		snprintf(selector, sizeof(selector), "cuda:%d", i);
		if (strcmp(selector, standard.info.selector) == 0) {
			*next = standard;
			next->standard = true;
			continue;
		}
		look(selector, next);
		if (!next->available && next->missing.code == SGPU_EUNAVAILABLE) {
			break;
		}
	}
	if (!standard.available) {
		*next++ = standard;
	}
	all->device_count = (int)(next - all->devices);
}

/* ---- text ---- */
static void print_gpu(const struct found *found)
{
	const struct sgpu_device_info *info = &found->info;

	printf("              %s, compute capability %s, %s\n", info->uuid, info->capability,
	       info->driver);
	printf("              %u multiprocessors, %" PRIu64 " MiB of memory, %" PRIu64
	       " MiB free, ",
	       info->compute_units, info->memory_total >> 20, info->memory_free >> 20);
	if (info->numa_node >= 0) {
		printf("NUMA node %d\n", info->numa_node);
	} else {
		printf("no NUMA node\n");
	}
	printf("              confidential computing %s; host memory is %s and can%s be "
	       "registered\n",
	       info->confidential, info->pins_host_memory ? "pinned" : "not pinned",
	       info->registers ? "" : "not");
	printf("              %s\n", found->agreement.text);
}

static void print_device(const struct found *found)
{
	const struct sgpu_device_info *info = &found->info;
	const char *task = getenv("SLURM_LOCALID");

	if (!found->available) {
		printf("device %-5s  not available: %s\n", found->selector, found->missing.text);
		if (found->missing.hint[0]) {
			printf("              %s\n", found->missing.hint);
		}
		return;
	}
	printf("device %-5s  %s\n", info->selector, info->name);
	if (found->standard && task && strcmp(info->selector, "cuda:0") != 0) {
		printf("              'cuda' means this one: SLURM_LOCALID is %s\n", task);
	}
	if (info->uuid[0]) {
		print_gpu(found);
		return;
	}
	printf("              %u workers, %" PRIu64 " MiB of memory, %" PRIu64 " MiB free\n",
	       info->compute_units, info->memory_total >> 20, info->memory_free >> 20);
}

static void print_findings(const struct harden_finding *findings, int count)
{
	for (int i = 0; i < count; i++) {
		printf("  %-14s  %s%s\n", findings[i].title,
		       findings[i].holds ? "" : "NOT: ", findings[i].text);
	}
}

static void print_platform(const struct sgpu_platform *platform,
			   const struct sgpu_protection *protection)
{
	printf("platform      %s (%s)%s\n", sgpu_platform_name(platform->kind), platform->seen,
	       platform->virtual_machine ? ", in a virtual machine" : "");
	printf("reports       %s\n",
	       platform->reports ? "the kernel gives attestation reports (configfs tsm)"
				 : "none: the kernel has no provider of attestation reports");
	printf("GPU           %s\n",
	       platform->gpu ? "an NVIDIA driver is loaded" : "no NVIDIA driver is loaded");
	printf("\nprotection    %s\n", protection->row);
	printf("  may the host read the runner's memory?  %s\n", protection->enclave_memory);
	printf("  may the host read the device's memory?  %s\n", protection->device_memory);
	printf("  what a recorder on the bus sees         %s\n", protection->bus);
	if (protection->protects) {
		printf("This is what the runner sees of itself. A host that lies could make it see "
		       "that too: only\n"
		       "attested evidence proves it to the owner of the data.\n");
	} else {
		printf("On this platform whoever controls the host can read the data while they "
		       "are processed.\n"
		       "Payloads are protected on their way to the runner and back, not in it.\n");
	}
}

/* ---- JSON ---- */
static json_t *device_json(const struct found *found)
{
	const struct sgpu_device_info *info = &found->info;
	json_t *object;

	if (!found->available) {
		return json_pack("{s:s, s:b, s:s, s:s}", "selector", found->selector, "available",
				 0, "missing", found->missing.text, "hint", found->missing.hint);
	}
	object = json_pack("{s:s, s:b, s:s, s:i, s:I, s:I, s:b, s:b, s:b, s:I, s:o}", "selector",
			   info->selector, "available", 1, "name", info->name, "compute_units",
			   (int)info->compute_units, "memory_total_bytes",
			   (json_int_t)info->memory_total, "memory_free_bytes",
			   (json_int_t)info->memory_free, "opens_on_device", info->opens_on_device,
			   "pins_host_memory", info->pins_host_memory, "registers_host_memory",
			   info->registers, "piece_bytes", (json_int_t)info->piece, "numa_node",
			   info->numa_node >= 0 ? json_integer(info->numa_node) : json_null());
	if (info->uuid[0] && object) {
		json_t *more =
			json_pack("{s:s, s:s, s:s, s:s, s:b, s:{s:b, s:s}}", "uuid", info->uuid,
				  "compute_capability", info->capability, "driver", info->driver,
				  "confidential_computing", info->confidential, "default",
				  found->standard, "key_agreement", "agreed",
				  found->agreement.agreed, "text", found->agreement.text);

		json_object_update(object, more);
		json_decref(more);
	}
	return object;
}

static json_t *findings_json(const struct harden_finding *findings, int count)
{
	json_t *object = json_object();

	for (int i = 0; i < count; i++) {
		json_object_set_new(object, findings[i].name,
				    json_pack("{s:b, s:s}", "holds", findings[i].holds, "text",
					      findings[i].text));
	}
	return object;
}

static int print_json(const struct inventory *all, const struct sgpu_platform *platform,
		      const struct sgpu_protection *protection)
{
	json_t *devices = json_array(), *providers = json_array(), *parts = json_array(), *object;
	const char *const *names = sgpu_aead_providers();

	for (int i = 0; i < all->device_count; i++) {
		json_array_append_new(devices, device_json(&all->devices[i]));
	}
	for (int i = 0; i < all->part_count; i++) {
		const struct sgpu_device_part *part = &all->parts[i];

		json_array_append_new(parts, json_pack("{s:s, s:b, s:s, s:s}", "name", part->name,
						       "found", part->found, "text", part->text,
						       "hint", part->hint));
	}
	for (int i = 0; names[i]; i++) {
		json_array_append_new(providers, json_string(names[i]));
	}
	object = json_pack(
		"{s:o, s:o, s:{s:s, s:o}, s:{s:s, s:s, s:b, s:b, s:b}, s:{s:s, s:b, s:s, s:s, "
		"s:s}, s:o, s:o}",
		"devices", devices, "cuda", parts, "aead", "provider", sgpu_aead_provider(),
		"available", providers, "platform", "kind", sgpu_platform_name(platform->kind),
		"seen", platform->seen, "virtual_machine", platform->virtual_machine,
		"attestation_reports", platform->reports, "nvidia_driver", platform->gpu,
		"protection", "row", protection->row, "protects_runner_memory",
		protection->protects, "host_reads_runner_memory", protection->enclave_memory,
		"host_reads_device_memory", protection->device_memory, "bus_recorder_sees",
		protection->bus, "hardening", findings_json(all->hardening, HARDEN_FINDINGS),
		"modules", findings_json(all->modules, CONFINEMENT_FINDINGS));
	return cli_print_json(object, stdout, JSON_INDENT(2));
}

static void print_text(const struct inventory *all, const struct sgpu_platform *platform,
		       const struct sgpu_protection *protection)
{
	for (int i = 0; i < all->device_count; i++) {
		print_device(&all->devices[i]);
	}
	printf("for CUDA\n");
	for (int i = 0; i < all->part_count; i++) {
		const struct sgpu_device_part *part = &all->parts[i];

		printf("  %-10s  %s%s\n", part->name, part->found ? "" : "missing: ", part->text);
		if (!part->found && part->hint[0]) {
			printf("              %s\n", part->hint);
		}
	}
	printf("AES-GCM       %s\n", sgpu_aead_provider());
	printf("hardening     of this build on this machine\n");
	print_findings(all->hardening, HARDEN_FINDINGS);
	printf("modules       of the CPU device, tried on this machine\n");
	print_findings(all->modules, CONFINEMENT_FINDINGS);
	print_platform(platform, protection);
}

int show_info(void)
{
	static struct inventory all;
	const struct sgpu_protection *protection;
	const struct found *taken;
	struct sgpu_platform platform;

	harden_look(all.hardening);   /* first: devices start threads */
	confinement_try(all.modules); /* starts a process, which takes long once a GPU is open */
	look_for_gpus(&all);
	look("cpu", &all.devices[all.device_count++]);
	all.part_count = sgpu_device_parts(all.parts);
	taken = &all.devices[all.device_count - 1]; /* the device that "auto" takes */
	for (int i = 0; i < all.device_count; i++) {
		taken = all.devices[i].standard ? &all.devices[i] : taken;
	}
	sgpu_platform_detect(&platform);
	protection = sgpu_platform_protection(&platform, taken->info.uuid[0] != '\0',
					      taken->info.confidential, taken->agreement.agreed);
	if (cli_json) {
		return print_json(&all, &platform, protection);
	}
	print_text(&all, &platform, protection);
	return 0;
}

/* sgpu-enclave --ops: which operations this build has, and on which devices. */

static bool implemented(const struct sgpu_op *op, const char *kind)
{
	return strcmp(kind, "cpu") == 0 ? op->cpu != NULL
					: sgpu_device_kind_op(kind, op->name) != NULL;
}

static json_t *op_json(const struct sgpu_op *op)
{
	json_t *devices = json_array();
	const char *kind;

	for (int i = 0; (kind = sgpu_device_kind(i)); i++) {
		if (implemented(op, kind)) {
			json_array_append_new(devices, json_string(kind));
		}
	}
	return json_pack("{s:s, s:s, s:o}", "name", op->name, "help", op->help, "devices", devices);
}

static int print_table(const struct sgpu_op *only)
{
	struct cli_table table = { 0 };

	cli_row(&table, "NAME", "DEVICES", "WHAT IT DOES");
	for (const struct sgpu_op *const *op = sgpu_ops(); *op; op++) {
		char devices[64] = "";
		const char *kind;

		for (int i = 0; (kind = sgpu_device_kind(i)); i++) {
			const size_t used = strlen(devices);

			if (implemented(*op, kind)) {
				snprintf(devices + used, sizeof(devices) - used, "%s%s",
					 used ? " " : "", kind);
			}
		}
		if (!only || only == *op) {
			cli_row(&table, (*op)->name, devices, (*op)->help);
		}
	}
	return cli_table_print(&table);
}

int show_ops(const char *name)
{
	const struct sgpu_op *only = name ? cli_find_op(name) : NULL;

	if (name && !only) {
		return 2;
	}
	if (cli_json) {
		json_t *list = only ? op_json(only) : json_array();

		for (const struct sgpu_op *const *op = sgpu_ops(); !only && *op; op++) {
			json_array_append_new(list, op_json(*op));
		}
		return cli_print_json(list, stdout, JSON_INDENT(2));
	}
	return print_table(only);
}
