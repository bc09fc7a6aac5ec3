/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure enroll: a new attestation key (AK), and the request, signed by the machine's EK and
 * by the AK itself, for which a certificate authority certifies it.
 */
#include <stdlib.h>

#include "parts.h"
#include "verbs.h"

struct task {
	const char *ek_path, *path, *request_path;
	bool tpm;
	struct sgpu_signer *ek, *ak;
};

const struct cli_option enroll_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "the endorsement key (- standard input, fd:N a descriptor)",
	  CLI_INPUT(struct task, ek_path) },
	{ "tpm", 0, NULL, "keep the attestation key in the TPM 2.0 of this machine",
	  CLI_FLAG(struct task, tpm) },
	{ "output", 'o', "FILE", "new file for the attestation key", CLI_TEXT(struct task, path) },
	{ "request", 0, "FILE", "where the request goes", CLI_TEXT(struct task, request_path) },
	CLI_END,
};

static int check_options(const struct task *task)
{
	if (!task->ek_path) {
		return cli_usage("the endorsement key is missing, with -k");
	}
	if (!task->path || !task->request_path) {
		return cli_usage("%s is missing", task->path
							  ? "--request, where the request goes,"
							  : "-o, where the attestation key goes,");
	}
	if (!cli_outputs_apart("the key", task->path, "the request", task->request_path)) {
		return 2;
	}
	return cli_secret_output(task->path) && cli_output_apart(task->request_path) ? 0 : 2;
}

int verb_enroll(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct task task = { 0 };
	char **arguments, *text = NULL;
	size_t size = 0;
	int code, status = cli_read(argc, argv, &task, &arguments);

	status = status ? status : check_options(&task);
	if (status) {
		return status;
	}
	code = sgpu_signer_load(task.ek_path, &task.ek, &error);
	code = code ? code : sgpu_signer_generate(task.tpm, &task.ak, &error);
	code = code ? code
		    : sgpu_enroll_request(task.ek, task.ak, measure_now(), &text, &size, &error);
	code = code ? code
		    : measure_write_key(task.ak, task.path, text, size, task.request_path, &error);
	status = code ? cli_error(&error)
		      : measure_report_key("AK", task.ak, task.path, task.request_path);
	free(text);
	sgpu_signer_free(&task.ek);
	sgpu_signer_free(&task.ak);
	return status;
}
