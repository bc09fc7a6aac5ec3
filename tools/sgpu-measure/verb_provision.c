/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure provision: the endorsement key (EK) of a machine, which stands for it for as long as it lives.
 */
#include <stdlib.h>

#include "parts.h"
#include "verbs.h"

enum { TPM = CLI_LONG, PUBLIC };

const struct cli_option provision_options[] = {
	CLI_COMMON,
	{ "tpm", TPM, NULL, "keep the private half in the TPM 2.0 of this machine" },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)" },
	{ "public", PUBLIC, "FILE", "also write the public half there, for the certificate authority" },
	{ NULL, 0, NULL, NULL },
};

static int run(bool tpm, const char *path, const char *public_path, struct sgpu_signer **ek, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int code = sgpu_signer_generate(tpm, ek, error);

	if (!code && public_path) {
		code = sgpu_signer_public_pem(*ek, &pem, &size, error);
	}
	if (!code) {
		code = measure_write_key(*ek, path, pem, size, public_path, error);
	}
	free(pem);
	return code;
}

int verb_provision(int argc, char **argv)
{
	const char *path = NULL, *public_path = NULL, *value = NULL;
	struct sgpu_signer *ek = NULL;
	struct sgpu_error error = { 0 };
	bool tpm = false;
	int first = argc;

	for (int key = 0; (key = cli_next(argc, argv, &value, &first)) != 0;) {
		switch (key) {
		case TPM:
			tpm = true;
			break;
		case PUBLIC:
			public_path = value;
			break;
		case 'o':
			path = value;
			break;
		default:
			return 2;
		}
	}
	if (!cli_positionals(argc, first, 0, 0)) {
		return 2;
	}
	if (public_path && !cli_outputs_apart("the key", path, "its public half", public_path)) {
		return 2;
	}
	if (!cli_secret_output(path)) {
		return 2;
	}
	const int status = run(tpm, path, public_path, &ek, &error) ? cli_error(&error) :
			   measure_report_key("EK", ek, path, public_path);
	sgpu_signer_free(&ek);
	return status;
}
