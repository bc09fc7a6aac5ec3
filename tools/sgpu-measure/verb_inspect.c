/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure inspect: prints the content of a quote, and that it is not verified.
 */
#include <stdlib.h>

#include "base/json.h"
#include "parts.h"

const struct cli_option inspect_options[] = { CLI_END };

enum { UEID_SIZE = 33 };

/* Returns the machine as a policy's `machines` have it: without the ueid's first byte, its type. */
static json_t *machine_json(const json_t *claims)
{
	uint8_t ueid[UEID_SIZE];

	return json_object_get(claims, "ueid") &&
			       !sgpu_json_bytes(claims, "claims", "ueid", ueid, sizeof(ueid), NULL)
		       ? measure_hex(ueid + 1, sizeof(ueid) - 1)
		       : json_null();
}

static json_t *authority_json(const char *text, size_t size)
{
	uint8_t digest[SGPU_SHA256_SIZE];
	char *pem;
	json_t *json = NULL;

	if (!sgpu_quote_authority(text, size, &pem, digest, NULL)) {
		json = json_pack("{s:o, s:s}", "sha256", measure_hex(digest, sizeof(digest)), "pem",
				 pem);
	}
	free(pem);
	return json;
}

/* Takes the authority over. */
static int print(const json_t *claims, const uint8_t *ak, json_t *authority,
		 const struct sgpu_record *record)
{
	json_t *list = json_array();

	for (; record->label; record++) {
		json_t *one = record->value
				      ? json_pack("{s:s, s:s, s:o}", "label", record->label, "type",
						  record->type, "value",
						  sgpu_json_from_bytes(record->value, record->size))
				      : json_pack("{s:s, s:o}", "label", record->label, "absent",
						  cli_json_text(record->absent));

		if (json_array_append_new(list, one)) {
			json_decref(list);
			list = NULL;
		}
	}
	return cli_print_json(json_pack("{s:b, s:o, s:o, s:o, s:O, s:o}", "verified", 0, "machine",
					machine_json(claims), "attestation_key",
					measure_hex(ak, SGPU_SHA256_SIZE), "authority", authority,
					"claims", claims, "records", list),
			      stdout, cli_json ? JSON_COMPACT : JSON_INDENT(2));
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

	status =
		status ? status : cli_read_input(paths[0], SGPU_QUOTE_MAX, "a quote", &text, &size);
	if (status) {
		return status;
	}
	if (sgpu_quote_parse(text, size, &claims, records, ak, &error)) {
		status = measure_quote_error(paths[0], text, size, &error);
	} else {
		status = print(claims, ak, authority_json(text, size), records);
	}
	sgpu_records_clear(records);
	json_decref(claims);
	free(text);
	return status;
}
