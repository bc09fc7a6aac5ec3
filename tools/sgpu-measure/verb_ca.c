/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure ca: a small certificate authority, which knows the EKs of machines and certifies the
 * AKs that these vouch for.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "parts.h"
#include "verbs.h"

enum { ROOT_DAYS = 3650, LEAF_DAYS = 30, REQUEST_AGE = 86400, EKS_MAX = 4 << 20 };

struct task {
	const char *key_path, *certificate_path, *name, *out_path, *request_path;
	struct cli_list eks_paths;
	unsigned days;
	uint64_t max_age_ns;
	struct sgpu_signer *ca;
	struct sgpu_chain chain;
	char *eks, *request;
	size_t request_size;
};

const struct cli_option ca_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "sign: the authority's key (- standard input, fd:N a descriptor)",
	  CLI_INPUT(struct task, key_path) },
	{ "certificate", 0, "FILE", "the authority's certificate: init writes it, sign reads it",
	  CLI_TEXT(struct task, certificate_path) },
	{ "name", 0, "NAME", "init: the name of the authority (default: sgpu CA)",
	  CLI_TEXT(struct task, name) },
	{ "days", 0, "N", "how long the certificate is valid (default: init 3650, sign 30)",
	  CLI_NUMBER(struct task, days, 1, MEASURE_DAYS_MAX) },
	{ "ek", 0, "FILE",
	  "sign: public endorsement keys of known machines, PEM; may be given again",
	  CLI_LIST(struct task, eks_paths) },
	{ "max-age", 0, "DURATION", "sign: how old the request may be (default: 1d)",
	  CLI_DURATION(struct task, max_age_ns, MEASURE_SECOND) },
	{ "output", 'o', "FILE", "init: new file for the key; sign: where the certificate goes",
	  CLI_TEXT(struct task, out_path) },
	CLI_END,
};

/* ---- init ---- */
static int init(struct task *task)
{
	struct sgpu_error error = { 0 };
	char *pem = NULL;
	size_t size = 0;
	int code;

	if (task->key_path || task->eks_paths.count || task->max_age_ns) {
		return cli_usage("-k, --ek and --max-age belong to 'ca sign'");
	}
	if (!task->out_path || !task->certificate_path) {
		return cli_usage("%s is missing",
				 task->out_path ? "--certificate, where the certificate goes,"
						: "-o, where the authority's key goes,");
	}
	if (!cli_outputs_apart("the key", task->out_path, "the certificate",
			       task->certificate_path) ||
	    !cli_secret_output(task->out_path)) {
		return 2;
	}
	code = sgpu_signer_generate(false, &task->ca, &error);
	if (!code) {
		code = sgpu_ca_create(task->ca, task->name ? task->name : "sgpu CA", measure_now(),
				      task->days ? task->days : ROOT_DAYS, &pem, &size, &error);
	}
	if (!code) {
		code = measure_write_key(task->ca, task->out_path, pem, size,
					 task->certificate_path, &error);
	}
	free(pem);
	return code ? cli_error(&error)
		    : measure_report_key("CA", task->ca, task->out_path, task->certificate_path);
}

/* ---- sign ---- */
/* All files of known keys, one after another. */
static int read_eks(struct task *task, struct sgpu_error *error)
{
	size_t total = 0;
	int code = 0;

	for (int i = 0; !code && i < task->eks_paths.count; i++) {
		char *text = NULL, *grown = NULL;
		size_t size = 0;
		code = sgpu_read_trusted_file(task->eks_paths.items[i],
					      "says which machines are known", EKS_MAX, &text,
					      &size, error);
		if (!code && memchr(text, '\0', size)) {
			code = sgpu_fail(error, SGPU_EINVALID, "'%s' is not PEM text",
					 task->eks_paths.items[i]);
		}
		if (!code && !(grown = realloc(task->eks, total + size + 2))) {
			code = sgpu_fail_nomem(error);
		}
		if (!code) {
			task->eks = grown;
			memcpy(grown + total, text, size);
			total += size;
			grown[total++] = '\n';
			grown[total] = '\0';
		}
		free(text);
	}
	return code;
}

static int sign(struct task *task, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int code = sgpu_signer_load(task->key_path, &task->ca, error);

	code = code ? code : sgpu_chain_load(task->certificate_path, &task->chain, error);
	code = code ? code : read_eks(task, error);
	if (!code) {
		code = sgpu_ca_certify(
			task->ca, &task->chain, task->eks, task->request, task->request_size,
			measure_now(), task->days ? task->days : LEAF_DAYS,
			task->max_age_ns ? (unsigned)(task->max_age_ns / MEASURE_SECOND)
					 : REQUEST_AGE,
			&pem, &size, error);
	}
	code = code ? code : cli_write_text(task->out_path, 0644, pem, size, error);
	free(pem);
	return code;
}

static int verb_sign(struct task *task)
{
	struct sgpu_error error = { 0 };
	int status = 0;

	if (task->name) {
		return cli_usage("--name belongs to 'ca init'");
	}
	if (!task->key_path || !task->certificate_path || !task->eks_paths.count) {
		return cli_usage("%s is missing",
				 !task->key_path ? "the authority's key, -k,"
				 : task->eks_paths.count
					 ? "the authority's certificate, --certificate,"
					 : "a known endorsement key, --ek,");
	}
	if (!strcmp(task->key_path, "-") && cli_is_standard(task->request_path)) {
		return cli_usage("the key and the request cannot both come from standard input");
	}
	cli_remember_input(task->certificate_path);
	for (int i = 0; i < task->eks_paths.count; i++) {
		cli_remember_input(task->eks_paths.items[i]);
	}
	status = cli_output_prepare(task->out_path, 0644, false);
	if (status) {
		return status;
	}
	if (measure_read_input(task->request_path, &task->request, &task->request_size, &status)) {
		return status;
	}
	if (!cli_output_apart(task->out_path)) {
		return 2;
	}
	return sign(task, &error) ? cli_error(&error) : 0;
}

static int dispatch(struct task *task, int argc, char **argv)
{
	char **arguments;
	const int status = cli_read(argc, argv, task, &arguments);

	if (status) {
		return status;
	}
	if (!strcmp(arguments[0], "init")) {
		return arguments[1]
			       ? cli_usage("'ca init' takes no argument, not '%s'", arguments[1])
			       : init(task);
	}
	if (!strcmp(arguments[0], "sign")) {
		task->request_path = arguments[1];
		return verb_sign(task);
	}
	return cli_usage("'ca' does 'init' or 'sign', not '%s'", SGPU_EXCERPT(arguments[0]));
}

int verb_ca(int argc, char **argv)
{
	struct task task = { 0 };
	const int status = dispatch(&task, argc, argv);

	sgpu_signer_free(&task.ca);
	sgpu_chain_clear(&task.chain);
	free(task.eks);
	free(task.request);
	free(task.eks_paths.items);
	return status;
}
