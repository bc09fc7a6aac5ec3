/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure inspect: prints the content of a quote, and that it is not verified. Every text in a
 * quote may be hostile, so all text is escaped for the terminal.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/json.h"
#include "parts.h"

const struct cli_option inspect_options[] = { CLI_COMMON, CLI_END };

enum { BYTES_MAX = 64, TEXT_SIZE = 1024 };

#define line(label, ...) (printf("%-17s", label), cli_print_line(stdout, __VA_ARGS__))

/* Returns a base64url member in hexadecimal; unchanged if it is malformed or too long. */
static const char *hex_of(const json_t *object, const char *key, char hex[2 * BYTES_MAX + 1])
{
	const char *text = cli_text_of(object, key);
	const size_t size = strlen(text) * 3 / 4;
	uint8_t bytes[BYTES_MAX];

	if (size > sizeof(bytes) || sgpu_base64url_decode(text, bytes, size, NULL)) {
		return text;
	}
	sgpu_hex_encode(bytes, size, hex);
	return hex;
}

static bool is_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static const json_t *own_of(const json_t *object)
{
	return json_object_get(object, SGPU_EAT_PROFILE);
}

static const char *first_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_array_get(json_object_get(object, key), 0));

	return text ? text : "";
}

/* Appends the names of members that are `wanted`, also in nested objects, to a list in `text`. */
static void list_truths(const json_t *object, bool wanted, const char *within, char *text,
			size_t size)
{
	const char *name = NULL;
	json_t *value = NULL;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		const size_t used = strlen(text);
		if (json_is_object(value)) {
			list_truths(value, wanted, name, text, size);
		} else if (json_is_true(value) == wanted) {
			snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", within,
				 *within ? " " : "", name);
		}
	}
}

static void print_confinement(const json_t *own)
{
	const json_t *confinement = json_object_get(own, "confinement");
	char has[TEXT_SIZE] = "", lacks[TEXT_SIZE] = "";

	if (!confinement) {
		line("", "confinement: nothing is said");
		return;
	}
	list_truths(confinement, true, "", has, sizeof(has));
	list_truths(confinement, false, "", lacks, sizeof(lacks));
	line("", "confined by %s%s%s", has[0] ? has : "nothing", lacks[0] ? "; not by " : "",
	     lacks);
}

static void print_owners(const json_t *own)
{
	const json_t *owners = json_object_get(own, "owners"), *item = NULL;
	const char *sessions = cli_text_of(own, "sessions");
	size_t i = 0;

	if (!owners) {
		line("", "work is taken of anyone");
	}
	json_array_foreach (owners, i, item) {
		line("", "work is taken of %s",
		     json_string_value(item) ? json_string_value(item) : "");
	}
	line("", "sessions are taken of %s",
	     !sessions[0]		? "whom is not said"
	     : !strcmp(sessions, "any") ? "anyone"
					: "nobody");
}

static void print_runner(const json_t *claims)
{
	const json_t *runner = json_object_get(json_object_get(claims, "submods"), "runner"),
		     *own = own_of(runner);
	const json_t *jwk = json_object_get(json_object_get(claims, "cnf"), "jwk");
	const char *key = cli_text_of(own, "key");
	char hex[2 * BYTES_MAX + 1];

	line("runner", "%s %s, measured as %s", cli_text_of(runner, "swname"),
	     first_of(runner, "swversion"),
	     !strcmp(cli_text_of(own, "measured"), "process") ? "the process that made the quote"
							      : "a file");
	line("", "digest %s", hex_of(own, "digest", hex));
	if (cli_text_of(own, "build_id")[0]) {
		line("", "build id %s", cli_text_of(own, "build_id"));
	}
	line("", "debugging %s; kernels that batches bring are %s", cli_text_of(runner, "dbgstat"),
	     is_true(own, "modules") ? "run" : "refused");
	line("", "files of the machine are %s batches",
	     is_true(own, "files") ? "open to" : "closed to");
	print_owners(own);
	print_confinement(own);
	if (!jwk) {
		line("recipient", "none: no key to seal to");
		return;
	}
	line("recipient", "%s",
	     cli_text_of(jwk, "kid")[0] ? cli_text_of(jwk, "kid") : cli_text_of(jwk, "x"));
	line("", "%s",
	     !strcmp(key, "ephemeral")
		     ? "made by the process that made the quote, and nowhere else"
		     : "stored: from a file, by the word of whoever runs the machine");
}

static void print_owner(const json_t *own)
{
	char hex[2 * BYTES_MAX + 1];

	if (cli_text_of(own, "owner_key_hash")[0]) {
		line("owner", "SHA-256 of the key %s", hex_of(own, "owner_key_hash", hex));
	} else {
		line("owner", "none named");
	}
}

static void print_device(const char *name, const json_t *device)
{
	const json_t *own = own_of(device), *code = NULL;
	char hex[2 * BYTES_MAX + 1];
	size_t i = 0;

	line("device", "%s: %s%s%s", name, cli_text_of(own, "name"),
	     cli_text_of(own, "uuid")[0] ? ", " : "", cli_text_of(own, "uuid"));
	if (cli_text_of(own, "driver")[0]) {
		line("", "%s", cli_text_of(own, "driver"));
	}
	line("", "debugging %s%s%s", cli_text_of(device, "dbgstat"),
	     cli_text_of(own, "confidential")[0] ? "; confidential computing " : "",
	     cli_text_of(own, "confidential"));
	line("", "keys: %s", cli_text_of(own, "agreement"));
	if (is_true(own, "preemption")) {
		line("", "work of others may run between that of the runner");
	}
	json_array_foreach (json_object_get(own, "code"), i, code) {
		line("device code", "%s  %s", hex_of(code, "digest", hex),
		     cli_text_of(code, "name"));
	}
}

static void print_platform(const json_t *own)
{
	const json_t *platform = json_object_get(own, "platform");

	line("platform", "%s (%s)%s", cli_text_of(platform, "kind"), cli_text_of(platform, "seen"),
	     is_true(platform, "virtual_machine") ? ", in a virtual machine" : "");
	line("", "%s", cli_text_of(platform, "row"));
	line("", "may the host read the runner's memory? %s",
	     cli_text_of(platform, "enclave_memory"));
	line("", "may the host read the device's memory? %s",
	     cli_text_of(platform, "device_memory"));
	line("", "what a recorder on the bus sees: %s", cli_text_of(platform, "bus"));
}

static void print_text(const json_t *claims, const uint8_t *ak, const struct sgpu_record *record)
{
	const json_t *own = own_of(claims), *submod = NULL;
	char hex[2 * BYTES_MAX + 1], moment[MEASURE_TIME_MAX];
	const char *name = NULL;

	printf("Nothing below was verified: it is what the quote says, whoever wrote it.\n\n");
	line("made", "%s",
	     measure_time_text((int64_t)json_integer_value(json_object_get(claims, "iat")),
			       moment));
	line("nonce", "%s", hex_of(claims, "eat_nonce", hex));
	/* As in a policy's `machines`: without the first byte, which is the type of the UEID. */
	const char *ueid = hex_of(claims, "ueid", hex);
	line("machine", "%s", !*ueid ? "not named" : ueid + (ueid == hex ? 2 : 0));
	sgpu_hex_encode(ak, SGPU_SHA256_SIZE, hex);
	line("attestation key", "%s", hex);
	line("software", "%s %s", cli_text_of(claims, "swname"), first_of(claims, "swversion"));
	print_runner(claims);
	print_owner(own);
	json_object_foreach ((json_t *)(uintptr_t)json_object_get(claims, "submods"), name,
			     submod) {
		if (strcmp(name, "runner")) {
			print_device(name, submod);
		}
	}
	print_platform(own);
	for (; record->label; record++) {
		if (record->value) {
			line("record", "%s, %zu bytes: %s", record->label, record->size,
			     record->type);
		} else {
			line("record", "%s is absent: %s", record->label, record->absent);
		}
	}
}

static json_t *record_json(const struct sgpu_record *record)
{
	if (!record->value) {
		return json_pack("{s:s, s:o}", "label", record->label, "absent",
				 cli_json_text(record->absent));
	}
	return json_pack("{s:s, s:s, s:o}", "label", record->label, "type", record->type, "value",
			 sgpu_json_from_bytes(record->value, record->size));
}

static int print_json(const json_t *claims, const uint8_t *ak, const struct sgpu_record *record)
{
	json_t *list = json_array();

	for (; record->label; record++) {
		if (json_array_append_new(list, record_json(record))) {
			json_decref(list);
			list = NULL;
		}
	}
	return cli_print_json(json_pack("{s:b, s:o, s:O, s:o}", "verified", 0, "attestation_key",
					measure_hex(ak, SGPU_SHA256_SIZE), "claims", claims,
					"records", list),
			      stdout, JSON_COMPACT);
}

int verb_inspect(int argc, char **argv)
{
	struct sgpu_record records[SGPU_RECORDS_MAX];
	struct sgpu_error error = { 0 };
	uint8_t ak[SGPU_SHA256_SIZE];
	char **paths;
	json_t *claims = NULL;
	char *text = NULL;
	size_t size = 0;
	int status = cli_read(argc, argv, NULL, &paths);

	status = status ? status : measure_read_input(paths[0], "a quote", &text, &size);
	if (status) {
		return status;
	}
	if (sgpu_quote_parse(text, size, &claims, records, ak, &error)) {
		status = measure_quote_error(paths[0], text, size, &error);
	} else if (cli_json) {
		status = print_json(claims, ak, records);
	} else {
		print_text(claims, ak, records);
	}
	sgpu_records_clear(records);
	json_decref(claims);
	free(text);
	return status;
}
