/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure certify: answers a request. An authority certifies the endorsement key of a machine,
 * and that the attestation keys of the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

struct task {
	const char *key_path, *certificate_path, *out_path;
	unsigned days;
	struct sgpu_signer *issuer;
	struct sgpu_chain chain;
	char *request;
	size_t request_size;
};

const struct cli_option certify_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "the issuer's key (- standard input, fd:N a descriptor)",
	  CLI_INPUT(struct task, key_path) },
	{ "certificate", 0, "FILE", "the issuer's certificate, and those above it",
	  CLI_INPUT(struct task, certificate_path) },
	{ "days", 0, "N", "how long the new one is valid (default: 30, or as long as the issuer's)",
	  CLI_NUMBER(struct task, days, 1, MEASURE_DAYS_MAX) },
	{ "output", 'o', "FILE", "where the certificate goes (default: standard output)",
	  CLI_TEXT(struct task, out_path) },
	CLI_END,
};

static int run(struct task *task, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int code = sgpu_signer_load(task->key_path, &task->issuer, error);

	code = code ? code : sgpu_chain_load(task->certificate_path, &task->chain, error);
	code = code ? code
		    : sgpu_ca_certify(task->issuer, &task->chain, task->request, task->request_size,
				      time(NULL), task->days, &pem, &size, error);
	code = code ? code : cli_write_text(task->out_path, 0644, pem, size, error);
	free(pem);
	return code;
}

static int read_request(struct task *task, const char *path)
{
	int status = 0;

	if (!task->key_path || !task->certificate_path) {
		return cli_usage("%s is missing",
				 task->key_path ? "the issuer's certificate, --certificate,"
						: "the issuer's key, -k,");
	}
	if (!strcmp(task->key_path, "-") && cli_is_standard(path)) {
		return cli_usage("the key and the request cannot both come from standard input");
	}
	status = cli_output_prepare(task->out_path, 0644, false);
	if (!status) {
		status = measure_read_input(path, "a request for a certificate", &task->request,
					    &task->request_size);
	}
	return status ? status : cli_output_apart(task->out_path) ? 0 : 2;
}

int verb_certify(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct task task = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &task, &arguments);

	status = status ? status : read_request(&task, arguments[0]);
	if (!status && run(&task, &error)) {
		status = cli_error(&error);
	}
	sgpu_signer_free(&task.issuer);
	sgpu_chain_clear(&task.chain);
	free(task.request);
	return status;
}
