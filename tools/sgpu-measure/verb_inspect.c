/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure inspect: what a quote says. It verifies nothing, and says so.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "parts.h"
#include "verbs.h"

const struct cli_option inspect_options[] = { CLI_COMMON, CLI_END };

static json_t *record_json(const struct sgpu_record *record)
{
	if (!record->value) {
		return json_pack("{s:s, s:s}", "label", record->label, "absent", record->absent);
	}
	char *text = malloc(SGPU_BASE64URL_MAX(record->size));
	if (!text) {
		return NULL;
	}
	sgpu_base64url_encode(record->value, record->size, text);
	json_t *object = json_pack("{s:s, s:s, s:s}", "label", record->label, "type", record->type,
				   "value", text);
	free(text);
	return object;
}

static int print_json(const json_t *claims, const uint8_t *ak, const struct sgpu_record *records,
		      int count)
{
	json_t *list = json_array();

	for (int i = 0; i < count; i++) {
		json_array_append_new(list, record_json(&records[i]));
	}
	return measure_print_record(json_pack("{s:b, s:o, s:O, s:o}", "verified", 0,
					      "attestation_key", measure_hex(ak, SGPU_SHA256_SIZE),
					      "claims", claims, "records", list),
				    false);
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
	int count = 0, status = cli_read(argc, argv, NULL, &paths);

	if (status || measure_read_input(paths[0], "a quote", &text, &size, &status)) {
		return status;
	}
	if (sgpu_quote_parse(text, size, &claims, records, &count, ak, &error)) {
		status = measure_quote_error(paths[0], text, size, &error);
	} else if (cli_json) {
		status = print_json(claims, ak, records, count);
	} else {
		inspecting_print(claims, ak, records, count);
	}
	sgpu_records_clear(records, count);
	json_decref(claims);
	free(text);
	return status;
}
