/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure keygen and certify: keygen makes a private key, and for others a request for a
 * certificate or an authority's own certificate; certify answers a request. An authority certifies
 * a machine's endorsement key, and that key the machine's attestation keys.
 */
#include <stdlib.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "parts.h"

enum { AUTHORITY_DAYS = 3650, DAYS_MAX = 36500 };

struct task {
	const char *path, *request_path, *authority_path, *name;
	const char *public_path; /* the request's or the authority's */
	unsigned days;
	bool tpm;
	struct sgpu_signer *key;
};

const struct cli_option keygen_options[] = {
	{ "output", 'o', "FILE", "new file for the key", CLI_TEXT(struct task, path) },
	{ "request", 0, "FILE",
	  "where the request for a certificate goes (default: standard output)",
	  CLI_TEXT(struct task, request_path) },
	{ "tpm", 0, NULL, "keep the private half in the TPM 2.0 of this machine",
	  CLI_FLAG(struct task, tpm) },
	{ "authority", 0, "FILE",
	  "make an authority's key; its own certificate goes there, and there is no request",
	  CLI_TEXT(struct task, authority_path) },
	{ "name", 0, "NAME", "the authority's name (default: sgpu CA)",
	  CLI_TEXT(struct task, name) },
	{ "days", 0, "N", "how long the authority's certificate is valid (default: 3650)",
	  CLI_NUMBER(struct task, days, 1, DAYS_MAX) },
	CLI_END,
};

static int check_options(struct task *task)
{
	task->public_path = task->authority_path ? task->authority_path : task->request_path;
	if (!task->path || cli_is_standard(task->path)) {
		return cli_usage("-o, a new file for the key, is missing");
	}
	if (task->authority_path && task->request_path) {
		return cli_usage("an authority certifies itself: --request is for other keys");
	}
	if (!task->authority_path && (task->name || task->days)) {
		return cli_usage("--name and --days belong to --authority");
	}
	return cli_output_prepare(task->public_path, 0644, false);
}

/* Writes the key, and then the request or certificate: both or neither. */
static int write_both(const struct task *task, const char *text, size_t size,
		      struct sgpu_error *error)
{
	size_t pem_size = 0;
	char *pem = NULL;
	int rc = sgpu_signer_private_pem(task->key, &pem, &pem_size, error);

	rc = rc ? rc : cli_write_secret(task->path, pem, pem_size, error);
	sgpu_free_wiped(&pem, pem_size);
	if (!rc) {
		rc = cli_write_text(task->public_path, 0644, text, size, error);
		if (rc) {
			unlink(task->path);
		}
	}
	return rc;
}

static int run(struct task *task, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_signer_generate(task->tpm, &task->key, error);

	if (!rc && task->authority_path) {
		rc = sgpu_ca_create(task->key, task->name ? task->name : "sgpu CA", time(NULL),
				    task->days ? task->days : AUTHORITY_DAYS, &text, &size, error);
	} else if (!rc) {
		rc = sgpu_request_create(task->key, &text, &size, error);
	}
	rc = rc ? rc : write_both(task, text, size, error);
	free(text);
	return rc;
}

/* Reports a new key's fingerprint: a record with --json, else with -v. Returns an exit status. */
static int report_key(const struct task *task)
{
	const bool standard = cli_is_standard(task->public_path),
		   tpm = sgpu_signer_in_tpm(task->key);
	uint8_t hash[SGPU_SHA256_SIZE];
	char hex[2 * SGPU_SHA256_SIZE + 1];
	struct sgpu_error error = { 0 };

	if (sgpu_signer_fingerprint(task->key, hash, &error)) {
		return cli_error(&error);
	}
	sgpu_hex_encode(hash, sizeof(hash), hex);
	if (!cli_json) {
		cli_detail("key %s%s", hex, tpm ? ", in the TPM" : "");
		return 0;
	}
	return cli_print_json(json_pack("{s:s, s:b, s:o, s:o*}", "fingerprint", hex, "tpm", tpm,
					"file", cli_json_text(task->path), "public",
					cli_json_text(standard ? NULL : task->public_path)),
			      standard ? stderr : stdout, JSON_COMPACT);
}

int verb_keygen(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct task task = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &task, &arguments);

	status = status ? status : check_options(&task);
	if (!status) {
		status = run(&task, &error) ? cli_error(&error) : report_key(&task);
	}
	sgpu_signer_free(&task.key);
	return status;
}

struct certification {
	const char *key_path, *certificate_path, *out_path;
	unsigned days;
	struct sgpu_signer *issuer;
	struct sgpu_chain chain;
	char *request;
	size_t request_size;
};

const struct cli_option certify_options[] = {
	{ "key", 'k', "KEY", "the issuer's key (- standard input, fd:N a descriptor)",
	  CLI_INPUT(struct certification, key_path) },
	{ "certificate", 0, "FILE", "the issuer's certificate, and those above it",
	  CLI_INPUT(struct certification, certificate_path) },
	{ "days", 0, "N", "how long the new one is valid (default: 30, or as long as the issuer's)",
	  CLI_NUMBER(struct certification, days, 1, DAYS_MAX) },
	{ "output", 'o', "FILE", "where the certificate goes (default: standard output)",
	  CLI_TEXT(struct certification, out_path) },
	CLI_END,
};

static int certify(struct certification *task, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int rc = sgpu_signer_load(task->key_path, &task->issuer, error);

	rc = rc ? rc : sgpu_chain_load(task->certificate_path, &task->chain, error);
	rc = rc ? rc
		: sgpu_ca_certify(task->issuer, &task->chain, task->request, task->request_size,
				  time(NULL), task->days, &pem, &size, error);
	rc = rc ? rc : cli_write_text(task->out_path, 0644, pem, size, error);
	free(pem);
	return rc;
}

int verb_certify(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct certification task = { 0 };
	char **arguments;
	int status = cli_read(argc, argv, &task, &arguments);

	if (!status && (!task.key_path || !task.certificate_path)) {
		status = cli_usage("%s is missing",
				   task.key_path ? "the issuer's certificate, --certificate,"
						 : "the issuer's key, -k,");
	}
	status = status ? status : cli_output_prepare(task.out_path, 0644, false);
	status =
		status ? status
		       : cli_read_input(arguments[0], SGPU_QUOTE_MAX, "a request for a certificate",
					&task.request, &task.request_size);
	if (!status && certify(&task, &error)) {
		status = cli_error(&error);
	}
	sgpu_signer_free(&task.issuer);
	sgpu_chain_clear(&task.chain);
	free(task.request);
	return status;
}
