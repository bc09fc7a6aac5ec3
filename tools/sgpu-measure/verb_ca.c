/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure ca: a small certificate authority, which knows the EKs of machines and certifies the AKs that these vouch
 * for.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "parts.h"
#include "verbs.h"

enum { CERTIFICATE = CLI_LONG, NAME, DAYS, EK, MAX_AGE };
enum { ROOT_DAYS = 3650, LEAF_DAYS = 30, REQUEST_AGE = 86400, EKS_MAX = 4 << 20 };

const struct cli_option ca_options[] = {
	CLI_COMMON,
	{ "key", 'k', "KEY", "sign: the authority's key (- standard input, fd:N a descriptor)" },
	{ "certificate", CERTIFICATE, "FILE", "the authority's certificate: init writes it, sign reads it" },
	{ "name", NAME, "NAME", "init: what the authority is called (default: sgpu CA)" },
	{ "days", DAYS, "N", "how long the certificate is valid (default: init 3650, sign 30)" },
	{ "ek", EK, "FILE", "sign: public endorsement keys of known machines, PEM; may be given again" },
	{ "max-age", MAX_AGE, "DURATION", "sign: how old the request may be (default: 1d)" },
	{ "output", 'o', "FILE", "init: new file for the key; sign: where the certificate goes" },
	{ NULL, 0, NULL, NULL },
};

struct task {
	const char *key_path, *certificate_path, *name, *out_path, *request_path;
	const char **ek_paths;
	int ek_count;
	unsigned days;
	int64_t max_age;
	struct sgpu_signer *ca;
	struct sgpu_chain chain;
	char *eks, *request;
	size_t request_size;
};

/* ---- init ---- */
static int init(struct task *task, struct sgpu_error *error)
{
	char *pem = NULL;
	size_t size = 0;
	int code = sgpu_signer_generate(false, &task->ca, error);

	if (!code) {
		code = sgpu_ca_create(task->ca, task->name ? task->name : "sgpu CA", measure_now(),
				      task->days ? task->days : ROOT_DAYS, &pem, &size, error);
	}
	if (!code) {
		code = measure_write_key(task->ca, task->out_path, pem, size, task->certificate_path, error);
	}
	free(pem);
	return code;
}

static int verb_init(struct task *task)
{
	struct sgpu_error error = { 0 };

	if (task->key_path || task->ek_count || task->max_age) {
		return cli_usage("-k, --ek and --max-age belong to 'ca sign'");
	}
	if (!task->out_path || !task->certificate_path) {
		return cli_usage("%s is missing", task->out_path ? "--certificate, where the certificate goes," :
				 "-o, where the authority's key goes,");
	}
	if (!cli_outputs_apart("the key", task->out_path, "the certificate", task->certificate_path)) {
		return 2;
	}
	if (!cli_secret_output(task->out_path)) {
		return 2;
	}
	return init(task, &error) ? cli_error(&error) :
	       measure_report_key("CA", task->ca, task->out_path, task->certificate_path);
}

/* ---- sign ---- */
/* All files of known keys, one after another. */
static int read_eks(struct task *task, struct sgpu_error *error)
{
	size_t total = 0;
	int code = 0;

	for (int i = 0; !code && i < task->ek_count; i++) {
		char *text = NULL, *grown = NULL;
		size_t size = 0;
		code = sgpu_read_file(task->ek_paths[i], EKS_MAX, &text, &size, error);
		if (!code && memchr(text, '\0', size)) {
			code = sgpu_fail(error, SGPU_EINVALID, "'%s' is not PEM text", task->ek_paths[i]);
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

	if (!code) {
		code = sgpu_chain_load(task->certificate_path, &task->chain, error);
	}
	if (!code) {
		code = read_eks(task, error);
	}
	if (!code) {
		code = sgpu_ca_certify(task->ca, &task->chain, task->eks, task->request, task->request_size,
				       measure_now(), task->days ? task->days : LEAF_DAYS,
				       task->max_age ? (unsigned)task->max_age : REQUEST_AGE, &pem, &size, error);
	}
	if (!code) {
		code = measure_write(task->out_path, pem, size, error);
	}
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
	if (!task->key_path || !task->certificate_path || !task->ek_count) {
		return cli_usage("%s is missing", !task->key_path ? "the authority's key, -k," : task->ek_count ?
				 "the authority's certificate, --certificate," :
				 "a known endorsement key, --ek,");
	}
	if (!strcmp(task->key_path, "-") && cli_is_standard(task->request_path)) {
		return cli_usage("the key and the request cannot both come from standard input");
	}
	cli_remember_input(task->key_path);
	cli_remember_input(task->certificate_path);
	for (int i = 0; i < task->ek_count; i++) {
		cli_remember_input(task->ek_paths[i]);
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

static int take_option(struct task *task, int key, const char *value)
{
	switch (key) {
	case 'k':
		task->key_path = value;
		return 0;
	case CERTIFICATE:
		task->certificate_path = value;
		return 0;
	case NAME:
		task->name = value;
		return 0;
	case DAYS:
		return measure_parse_days(value, &task->days) ? 0 : 2;
	case EK:
		task->ek_paths[task->ek_count++] = value;
		return 0;
	case MAX_AGE:
		return measure_parse_seconds(value, "--max-age", &task->max_age) ? 0 : 2;
	case 'o':
		task->out_path = value;
		return 0;
	default:
		return 2;
	}
}

static int dispatch(struct task *task, int argc, char **argv)
{
	const char *value = NULL;
	int first = argc;

	for (int key = 0; (key = cli_next(argc, argv, &value, &first)) != 0;) {
		const int status = take_option(task, key, value);
		if (status) {
			return status;
		}
	}
	if (!cli_positionals(argc, first, 1, 2)) {
		return 2;
	}
	if (!strcmp(argv[first], "init")) {
		return first + 1 < argc ? cli_usage("'ca init' takes no argument, not '%s'", argv[first + 1]) :
		       verb_init(task);
	}
	if (!strcmp(argv[first], "sign")) {
		task->request_path = first + 1 < argc ? argv[first + 1] : NULL;
		return verb_sign(task);
	}
	return cli_usage("'ca' does 'init' or 'sign', not '%s'", SGPU_EXCERPT(argv[first]));
}

int verb_ca(int argc, char **argv)
{
	struct task task = { .ek_paths = calloc((size_t)argc + 1, sizeof(*task.ek_paths)) };
	const int status = task.ek_paths ? dispatch(&task, argc, argv) : cli_fail(SGPU_ENOMEM, "out of memory");

	sgpu_signer_free(&task.ca);
	sgpu_chain_clear(&task.chain);
	free(task.eks);
	free(task.request);
	free(task.ek_paths);
	return status;
}
