/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure quote: collects claims about the runner, the device and the platform, and signs them
 * and a verifier's nonce.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"
#include "runner/start.h"

struct task {
	const char *key_path, *certificate_path, *recipient_path, *device_name, *runner_path,
		*out_path;
	struct cli_bytes nonce;
	struct sgpu_signer *ak;
	struct sgpu_chain chain;
	struct sgpu_key recipient;
	struct sgpu_device *device;
};

const struct cli_option quote_options[] = {
	{ "key", 'k', "KEY", "the attestation key (- standard input, fd:N a descriptor)",
	  CLI_INPUT(struct task, key_path) },
	{ "certificate", 0, "FILE", "its certificate chain, up to the authority",
	  CLI_INPUT(struct task, certificate_path) },
	{ "nonce", 0, "HEX", "what the verifier sent: 8 to 64 bytes",
	  CLI_BYTES(struct task, nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },
	{ "recipient", 0, "KEY", "the runner's X25519 key, to which batches are to be sealed",
	  CLI_INPUT(struct task, recipient_path) },
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct task, device_name) },
	{ "runner", 0, "PROGRAM",
	  "the program that is measured (default: the sgpu-enclave beside this one)",
	  CLI_INPUT(struct task, runner_path) },
	{ "output", 'o', "FILE", "where the quote goes (default: standard output)",
	  CLI_TEXT(struct task, out_path) },
	CLI_END,
};

static int collect(struct task *task, char **quote, size_t *size, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	char beside[PATH_MAX];
	const int rc = sgpu_device_get_info(task->device, &info, error);
	const struct sgpu_quote_subject subject = {
		.nonce = task->nonce.data,
		.nonce_size = task->nonce.size,
		.recipient = task->recipient_path ? &task->recipient : NULL,
		.device = task->device,
		.runner_path = task->runner_path ? task->runner_path
						 : runner_beside("sgpu-enclave", beside),
		/* On a GPU, other programs' work can run in between. */
		.preemption = !rc && strncmp(info.selector, "cpu", 3) != 0,
	};

	return rc ? rc
		  : sgpu_quote_create(&subject, task->ak, &task->chain, time(NULL), quote, size,
				      error);
}

static int run(struct task *task, struct sgpu_error *error)
{
	char *quote = NULL;
	size_t size = 0;
	int rc = sgpu_signer_load(task->key_path, &task->ak, error);

	rc = rc ? rc : sgpu_chain_load(task->certificate_path, &task->chain, error);
	if (!rc && task->recipient_path) {
		rc = measure_load_x25519(task->recipient_path, &task->recipient, error);
	}
	rc = rc ? rc : sgpu_device_open(task->device_name, NULL, &task->device, error);
	rc = rc ? rc : collect(task, &quote, &size, error);
	rc = rc ? rc : cli_write_text(task->out_path, 0644, quote, size, error);
	free(quote);
	return rc;
}

static int check_options(const struct task *task)
{
	if (!task->key_path || !task->certificate_path || !task->nonce.size) {
		return cli_usage(
			"%s is missing",
			!task->key_path ? "the attestation key, -k,"
			: task->certificate_path
				? "the verifier's nonce, --nonce,"
				: "the certificate of the attestation key, --certificate,");
	}
	return 0;
}

int verb_quote(int argc, char **argv)
{
	struct task task = { .device_name = "auto" };
	struct sgpu_error error = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &task, &arguments);

	status = status ? status : check_options(&task);
	if (!status) {
		status = run(&task, &error) ? cli_error(&error) : 0;
	}
	sgpu_device_close(&task.device);
	sgpu_chain_clear(&task.chain);
	sgpu_signer_free(&task.ak);
	return status;
}
