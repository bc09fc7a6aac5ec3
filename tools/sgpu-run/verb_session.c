/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run session: a worker for one session of a program (sgpu/remote.h), on standard input and output.
 */
#include <unistd.h>

#include <sgpu/io.h>
#include <sgpu/remote.h>

#include "verbs.h"
#include "worker.h"

struct values {
	struct worker worker;
	uint64_t memory;
};

const struct cli_option session_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)", CLI_TEXT(struct values, worker.selector) },
	{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",
	  CLI_NUMBER(struct values, worker.config.jobs, 1, SGPU_POOL_JOBS_MAX) },
	{ "memory", 0, "SIZE", "device memory that the session may have (default: all that is free)",
	  CLI_SIZE(struct values, memory, 1, UINT64_MAX) },
	CLI_END,
};

static int serve(struct worker *w, uint64_t memory, struct sgpu_error *error)
{
	struct landlock_needs needs = { .output_count = 0 };
	int rc = worker_open(w, NULL, error);

	if (rc == SGPU_OK) {
		rc = worker_start(w, &needs, false, error);
	}
	if (rc == SGPU_OK && !w->devices[0].context) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "device '%s' has no secure contexts, which sessions need", w->selector);
	}
	return rc == SGPU_OK ? sgpu_remote_serve(w->devices[0].context, memory, STDIN_FILENO, STDOUT_FILENO, error) : rc;
}

int verb_session(int argc, char **argv)
{
	struct values v = { .worker = WORKER_INIT };
	struct sgpu_error error = { 0 };
	const char *name;
	char **paths;
	int status = cli_read(argc, argv, &v, &paths), fd = -1;

	if (status == 0) {
		status = cli_input("-", &name, &fd); /* not from a terminal */
	}
	if (status == 0 && !cli_binary_output(STDOUT_FILENO)) {
		status = 2;
	}
	if (status == 0) {
		status = worker_begin(&v.worker, NULL);
	}
	if (status == 0 && serve(&v.worker, v.memory, &error) != SGPU_OK) {
		status = error.code == SGPU_ECANCELED && sgpu_io_interrupted() ? sgpu_exit_status(error.code) : cli_error(&error);
	}
	worker_stop(&v.worker);
	return worker_end(&v.worker, status);
}
