/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-enclave: the runner, and the only program that is trusted with keys and data. See
 * sgpu-enclave(1).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "../module-host/host.h"
#include "enclave.h"
#include "serving.h"

static int check_modes(const struct run_request *r, const char *path)
{
	if ((r->serve > 0) + r->session + r->info > 1) {
		return cli_usage("--serve, --session and --info exclude each other");
	}
	if (r->socket || r->lease || r->wait_ns) {
		return cli_usage("--socket, --lease and --wait are for 'sgpu-run' and a server");
	}
	if (r->memory && !r->session) {
		return cli_usage("--memory is for --session");
	}
	return path && (r->serve || r->session || r->info)
		       ? cli_usage("'%s' is an argument too many", SGPU_EXCERPT(path))
		       : 0;
}

static int verb_run(int argc, char **argv)
{
	static struct run_request request;
	static struct enclave enclave = { .request = &request };
	char **paths;
	int status = cli_read(argc, argv, &request, &paths);

	status = status ? status : check_modes(&request, paths[0]);
	if (status == 0) {
		status = request.info	   ? show_info()
			 : request.session ? run_session(&enclave)
			 : request.serve   ? serve(&enclave)
					   : run_batch(&enclave, paths[0]);
	}
	return enclave_end(&enclave, status);
}

static const struct cli_verb verbs[] = {
	{ "", "[BATCH]", "run a batch and write its response", batch_rows, verb_run },
	{ .name = NULL },
};

int main(int argc, char **argv)
{
	/* If sgpu-run has become this program, messages are sgpu-run's. */
	const char *called = program_invocation_short_name;
	const struct cli_tool tool = {
		.name = strcmp(called, "sgpu-run") == 0 ? "sgpu-run" : "sgpu-enclave",
		.verbs = verbs,
	};

	if (strcmp(called, SGPU_HOST_PROGRAM) == 0) {
		return host_main(argc, argv);
	}
	/* Without a TPM, its library would print lines of its own. */
	setenv("TSS2_LOG", "all+NONE", 0);
	prctl(PR_SET_NAME, tool.name); /* the kernel may have made one of a descriptor */
	return cli_main(&tool, argc, argv);
}
