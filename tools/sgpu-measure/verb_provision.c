/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure provision: the endorsement key (EK) of a machine, which stands for it for as long as
 * it lives.
 */
#include <stdlib.h>

#include "parts.h"
#include "verbs.h"

struct request {
	bool tpm;
	const char *path, *public_path;
};

const struct cli_option provision_options[] = {
	CLI_COMMON,
	{ "tpm", 0, NULL, "keep the private half in the TPM 2.0 of this machine",
	  CLI_FLAG(struct request, tpm) },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)",
	  CLI_TEXT(struct request, path) },
	{ "public", 0, "FILE", "also write the public half there, for the certificate authority",
	  CLI_TEXT(struct request, public_path) },
	CLI_END,
};

int verb_provision(int argc, char **argv)
{
	struct request request = { 0 };
	struct sgpu_signer *ek = NULL;
	struct sgpu_error error = { 0 };
	char **arguments, *pem = NULL;
	size_t size = 0;
	int code, status = cli_read(argc, argv, &request, &arguments);

	if (status) {
		return status;
	}
	if ((request.public_path &&
	     !cli_outputs_apart("the key", request.path, "its public half", request.public_path)) ||
	    !cli_secret_output(request.path)) {
		return 2;
	}
	code = sgpu_signer_generate(request.tpm, &ek, &error);
	if (!code && request.public_path) {
		code = sgpu_signer_public_pem(ek, &pem, &size, &error);
	}
	code = code ? code
		    : measure_write_key(ek, request.path, pem, size, request.public_path, &error);
	status = code ? cli_error(&error)
		      : measure_report_key("EK", ek, request.path, request.public_path);
	free(pem);
	sgpu_signer_free(&ek);
	return status;
}
