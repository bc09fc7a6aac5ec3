/* SPDX-License-Identifier: Apache-2.0
 *
 * What verbs say about their results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "parts.h"

enum { HEX_MAX = 64 };

int measure_print_record(json_t *record, bool data_on_stdout)
{
	return cli_print_json(record, data_on_stdout ? stderr : stdout, JSON_COMPACT);
}

json_t *measure_hex(const void *data, size_t size)
{
	char text[2 * HEX_MAX + 1] = "";

	if (size <= HEX_MAX) {
		sgpu_hex_encode(data, size, text);
	}
	return json_string(text);
}

int measure_report_key(const struct sgpu_signer *signer, const char *path, const char *public_path)
{
	uint8_t hash[SGPU_SHA256_SIZE];
	char hex[2 * SGPU_SHA256_SIZE + 1];
	struct sgpu_error error = { 0 };

	if (sgpu_signer_fingerprint(signer, hash, &error)) {
		return cli_error(&error);
	}
	sgpu_hex_encode(hash, sizeof(hash), hex);
	if (!cli_json) {
		cli_detail("key %s%s", hex, sgpu_signer_in_tpm(signer) ? ", in the TPM" : "");
		return 0;
	}
	return measure_print_record(
		json_pack("{s:s, s:b, s:o, s:o*}", "fingerprint", hex, "tpm",
			  sgpu_signer_in_tpm(signer), "file", cli_json_text(path), "public",
			  cli_json_text(cli_is_standard(public_path) ? NULL : public_path)),
		cli_is_standard(public_path));
}
