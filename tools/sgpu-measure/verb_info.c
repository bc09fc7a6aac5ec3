/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure info: prints what this machine can prove, what is missing and why, and what a quote
 * of its runner would claim.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "device/device.h"
#include "parts.h"
#include "runner.h"

struct request {
	const char *device;
};

const struct cli_option info_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct request, device) },
	CLI_END,
};

struct found {
	struct sgpu_platform platform;
	struct sgpu_record records[SGPU_RECORDS_MAX];
	bool tpm, has_device, pages;
	struct sgpu_error tpm_missing, device_missing, pages_missing, runner_missing;
	struct sgpu_device *device;
	struct sgpu_device_info info;
	struct sgpu_pages_info pages_info;
	struct sgpu_device_agreement agreement;
	char runner_path[RUNNER_PATH_MAX];
	uint8_t runner[SGPU_KT128_SIZE];
	struct sgpu_device_code code[SGPU_DEVICE_CODE_MAX];
	int code_count;
	const struct sgpu_protection *protection;
};

static void look_at_device(struct found *found, const char *name)
{
	found->has_device =
		sgpu_device_open(name, NULL, &found->device, &found->device_missing) == SGPU_OK &&
		sgpu_device_get_info(found->device, &found->info, &found->device_missing) ==
			SGPU_OK;
	if (!found->has_device) {
		return;
	}
	found->pages = sgpu_device_pages(found->device, &found->pages_info,
					 &found->pages_missing) == SGPU_OK;
	if (sgpu_device_agree(found->device, &found->agreement, NULL)) {
		found->agreement = (struct sgpu_device_agreement){ .agreed = false };
	}
	found->code_count = sgpu_device_code_digests(found->device, found->code, NULL);
}

static void look(struct found *found, const char *device)
{
	const uint8_t report_data[64] = { 0 };
	struct sgpu_error *error = &found->runner_missing;
	struct sgpu_signer *signer = NULL;

	sgpu_platform_detect(&found->platform);
	/* The best test of the TPM is to make a key in it, which is dropped. */
	found->tpm = sgpu_signer_generate(true, &signer, &found->tpm_missing) == SGPU_OK;
	sgpu_signer_free(&signer);
	look_at_device(found, device);
	sgpu_evidence_collect(report_data, found->device, found->records);
	error->code =
		sgpu_measure_file(runner_path(found->runner_path), found->runner, NULL, error);
	found->protection =
		sgpu_platform_protection(&found->platform, found->info.uuid[0] != '\0',
					 found->info.confidential, found->agreement.agreed);
}

/* ---- text ---- */
static void print_page(uint64_t size)
{
	bool large = size >= 1 << 20;

	printf("%" PRIu64 " %s", size >> (large ? 20 : 10), large ? "MiB" : "KiB");
}

static void print_device(const struct found *found)
{
	if (!found->has_device) {
		printf("device           not available: %s\n", found->device_missing.text);
		return;
	}
	printf("device           %s: %s\n", found->info.selector, found->info.name);
	if (found->info.confidential[0]) {
		printf("                 confidential computing %s\n", found->info.confidential);
	}
	printf("channels         ");
	if (found->pages) {
		printf("pages of ");
		print_page(found->pages_info.small);
		printf(" and ");
		print_page(found->pages_info.big);
		printf("\n");
	} else {
		printf("none: %s\n", found->pages_missing.text);
	}
	if (found->agreement.text[0]) {
		printf("keys             %s\n", found->agreement.text);
	}
}

static void print_code(const struct found *found)
{
	char hex[2 * SGPU_KT128_SIZE + 1];

	if (found->runner_missing.code) {
		printf("runner           cannot be measured: %s\n", found->runner_missing.text);
	} else {
		sgpu_hex_encode(found->runner, sizeof(found->runner), hex);
		cli_print_line(stdout, "runner           %s  %s", hex, found->runner_path);
	}
	for (int i = 0; i < found->code_count; i++) {
		sgpu_hex_encode(found->code[i].digest, SGPU_KT128_SIZE, hex);
		printf("device code      %s  %s\n", hex, found->code[i].name);
	}
}

static void print_protection(const struct sgpu_protection *p)
{
	printf("\nprotection       %s\n", p->row);
	printf("  may the host read the runner's memory?   %s\n", p->enclave_memory);
	printf("  may the host read the device's memory?   %s\n", p->device_memory);
	printf("  what a recorder on the bus sees          %s\n", p->bus);
	printf("This is what the machine sees of itself. It proves nothing to anybody until a "
	       "quote was verified.\n");
}

static void print_text(const struct found *found)
{
	printf("platform         %s (%s)%s\n", sgpu_platform_name(found->platform.kind),
	       found->platform.seen,
	       found->platform.virtual_machine ? ", in a virtual machine" : "");
	for (const struct sgpu_record *r = found->records; r->label; r++) {
		printf("%-16s %s%s\n", r->label,
		       r->value ? "there, " : "absent: ", r->value ? r->type : r->absent);
	}
	printf("TPM              %s%s\n", found->tpm ? "keys can be kept in it" : "absent: ",
	       found->tpm ? "" : found->tpm_missing.text);
	if (!found->tpm && found->tpm_missing.hint[0]) {
		printf("                 %s\n", found->tpm_missing.hint);
	}
	print_device(found);
	print_code(found);
	print_protection(found->protection);
}

/* ---- JSON ---- */
static json_t *records_json(const struct found *found)
{
	json_t *object = json_object();

	for (const struct sgpu_record *r = found->records; r->label; r++) {
		json_object_set_new(object, r->label,
				    r->value ? json_pack("{s:b, s:s}", "found", 1, "type", r->type)
					     : json_pack("{s:b, s:o}", "found", 0, "missing",
							 cli_json_text(r->absent)));
	}
	return object;
}

static json_t *device_json(const struct found *found)
{
	if (!found->has_device) {
		return json_pack("{s:b, s:s, s:s}", "available", 0, "missing",
				 found->device_missing.text, "hint", found->device_missing.hint);
	}
	return json_pack("{s:b, s:s, s:s, s:s, s:b, s:b, s:s}", "available", 1, "selector",
			 found->info.selector, "name", found->info.name, "confidential_computing",
			 found->info.confidential, "channels", found->pages, "keys_agreed",
			 found->agreement.agreed, "keys", found->agreement.text);
}

static json_t *code_json(const struct found *found)
{
	json_t *list = json_array();

	for (int i = 0; i < found->code_count; i++) {
		json_array_append_new(
			list, json_pack("{s:s, s:I, s:o}", "name", found->code[i].name, "size",
					(json_int_t)found->code[i].size, "digest",
					measure_hex(found->code[i].digest, SGPU_KT128_SIZE)));
	}
	return list;
}

static int print_json(const struct found *found)
{
	const struct sgpu_protection *p = found->protection;
	json_t *tpm = found->tpm
			      ? json_pack("{s:b}", "found", 1)
			      : json_pack("{s:b, s:s, s:s}", "found", 0, "missing",
					  found->tpm_missing.text, "hint", found->tpm_missing.hint);
	json_t *runner =
		found->runner_missing.code
			? json_pack("{s:o}", "missing", cli_json_text(found->runner_missing.text))
			: json_pack("{s:o, s:o}", "path", cli_json_text(found->runner_path),
				    "digest", measure_hex(found->runner, sizeof(found->runner)));

	return cli_print_json(
		json_pack(
			"{s:{s:s, s:s, s:b}, s:o, s:o, s:o, s:o, s:o, s:{s:s, s:b, s:s, s:s, s:s}}",
			"platform", "kind", sgpu_platform_word(found->platform.kind), "seen",
			found->platform.seen, "virtual_machine", found->platform.virtual_machine,
			"records", records_json(found), "tpm", tpm, "device", device_json(found),
			"runner", runner, "device_code", code_json(found), "protection", "row",
			p->row, "protects_runner_memory", p->protects, "host_reads_runner_memory",
			p->enclave_memory, "host_reads_device_memory", p->device_memory,
			"bus_recorder_sees", p->bus),
		stdout, JSON_COMPACT);
}

int verb_info(int argc, char **argv)
{
	struct request request = { .device = "auto" };
	struct found found = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &request, &arguments);

	if (status) {
		return status;
	}
	look(&found, request.device);
	if (!found.has_device && found.device_missing.code == SGPU_EUSAGE) {
		status = cli_error(&found.device_missing);
	} else if (cli_json) {
		status = print_json(&found);
	} else {
		print_text(&found);
	}
	sgpu_records_clear(found.records);
	sgpu_device_close(&found.device);
	return status;
}
