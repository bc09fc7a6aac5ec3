/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-worker: runs the batches of a directory until none is left. See sgpu-worker(1).
 */
#include <signal.h>

#include <sgpu/base.h>

#include "spool.h"
#include "runner/start.h"

struct request {
	struct runner_options runner;
	struct spool_options spool;
	uint64_t timeout_ns;
};

static const struct cli_option worker_options[] = {
	{ CLI_ROWS(runner_rows) },
	{ "timeout", 0, "DURATION", "fail what a batch has not finished after this time",
	  CLI_DURATION(struct request, timeout_ns, 0) },
	{ "output", 'o', "DIR", "write the responses there (default: beside the batches)",
	  CLI_TEXT(struct request, spool.output) },
	{ "remove", 0, NULL, "remove batches that are done, do not keep them",
	  CLI_FLAG(struct request, spool.remove) },
	{ "reclaim", 0, NULL, "take over the claims of workers of other hosts: they are gone",
	  CLI_FLAG(struct request, spool.reclaim) },
	CLI_END,
};

static int check_request(const struct request *r)
{
	if (cli_is_standard(r->spool.path)) {
		return cli_usage("the directory of the batches is missing");
	}
	for (int i = 0; i < r->runner.keys.count; i++) {
		if (cli_is_standard(r->runner.keys.items[i]) ||
		    strncmp(r->runner.keys.items[i], "fd:", 3) == 0) {
			return cli_usage("a worker's keys are files, since its enclave reads them");
		}
	}
	return 0;
}

static int work(struct request *r)
{
	struct link enclave = { .control = -1 };
	struct spool *spool = NULL;
	struct sgpu_error error = { 0 };
	unsigned most;
	int status, rc;

	cli_raise_descriptors();
	most = drain_most(r->runner.jobs);
	rc = link_start(&enclave, most, -1, &error);
	status = rc ? cli_error(&error) : link_ready(&enclave, &r->spool.keys);
	if (status == 0 && spool_open(&r->spool, &spool, &error) != SGPU_OK) {
		status = cli_error(&error);
	} else if (status == 0) {
		status = drain(&enclave, most, r->spool.keys.memory_free, spool, r->timeout_ns);
	}
	spool_close(&spool);
	link_close(&enclave);
	return status;
}

static int verb_worker(int argc, char **argv)
{
	static struct request r;
	char **paths;
	int status = cli_read(argc, argv, &r, &paths);

	if (status == 0) {
		r.spool.path = paths[0];
		status = check_request(&r);
	}
	if (status == 0) {
		cli_signals(drain_stop);  /* finishes the batches under way */
		signal(SIGUSR1, SIG_IGN); /* schedulers may send it to all of a job */
		status = work(&r);
	}
	return cli_finish(status);
}

static const struct cli_verb verbs[] = {
	{ "", "DIR", "run the batches of a directory until none is left", worker_options,
	  verb_worker },
	{ .name = NULL },
};

static const struct cli_tool tool = {
	.name = "sgpu-worker",
	.verbs = verbs,
};

int main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
