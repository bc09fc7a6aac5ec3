/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run: has a batch run, by a server where there is one, else by sgpu-enclave, which it
 * becomes. See sgpu-run(1).
 */
#include <sys/stat.h>

#include <sgpu/base.h>

#include "client.h"

/* Options of a server's batches. With others a sgpu-enclave of one's own runs the batch, since a
 * server has keys, rules and a device already. */
static const char of_both[] = " timeout stats manifest output socket lease wait ";

static int choose(const struct run_request *r, struct sgpu_service_path *service, bool *served)
{
	const char *option = runner_given(of_both);
	struct sgpu_error error = { 0 };
	struct stat status;

	*served = false;
	if (option && (r->socket || r->lease || r->wait_ns)) {
		return cli_usage("--%s is about a runner of one's own, and %s about a server's",
				 option,
				 r->socket  ? "--socket"
				 : r->lease ? "--lease"
					    : "--wait");
	}
	if (option) {
		return 0;
	}
	if (sgpu_service_find(r->socket, service, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	*served = service->named || r->wait_ns ||
		  (service->text[0] && lstat(service->text, &status) == 0);
	return r->lease && !*served ? cli_usage("--lease needs a server, and there is none at '%s'",
						service->text)
				    : 0;
}

static int verb_run(int argc, char **argv)
{
	static struct run_request request;
	struct sgpu_service_path service;
	struct sgpu_error error = { 0 };
	char **paths;
	bool served;
	int enclave, status = cli_read(argc, argv, &request, &paths);

	status = status ? status : choose(&request, &service, &served);
	if (status) {
		return status;
	}
	if (served) {
		cli_signals(NULL);
		return submit_to_server(&request, &service, paths[0]);
	}
	if (runner_find(&enclave, &error) == SGPU_OK) {
		(void)runner_execute(enclave, argv, &error);
	}
	return cli_error(&error);
}

static const struct cli_verb verbs[] = {
	{ "", "[BATCH]", "run a batch and write its response", batch_rows, verb_run },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-run",
	.verbs = verbs,
};

int main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
