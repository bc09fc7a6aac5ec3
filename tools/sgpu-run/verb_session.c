/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run session: a worker for one session of a program (sgpu/session.h), on standard input and
 * output.
 */
#include <unistd.h>

#include <sgpu/session.h>

#include "base/io.h"
#include "worker.h"
#include "verbs.h"

struct values {
	struct worker worker;
	struct attested attested;
	uint64_t memory;
};

const struct cli_option session_options[] = {
	CLI_COMMON,
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N or auto (the default)",
	  CLI_TEXT(struct values, worker.selector) },
	{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",
	  CLI_NUMBER(struct values, worker.config.jobs, 1, SGPU_POOL_JOBS_MAX) },
	{ "memory", 0, "SIZE",
	  "device memory that the session may have (default: all that is free)",
	  CLI_SIZE(struct values, memory, 1, UINT64_MAX) },
	ATTESTED_OPTIONS(struct values, attested, "session"),
	CLI_END,
};

/* The evidence comes first: the program waits for it, and binds its session to the key in it. */
static int serve(struct values *v, struct sgpu_error *error)
{
	struct worker *w = &v->worker;
	struct landlock_needs needs = { .files = NULL };
	const struct sgpu_key *key = v->attested.quote ? &w->keys[0] : NULL;
	int rc = worker_open(w, v->attested.key, error);

	if (rc == SGPU_OK && key) {
		rc = attested_quote(&v->attested, w, error);
	}
	if (rc == SGPU_OK) {
		key_files_close(&w->key_files, -1);
		rc = worker_start(w, &needs, key != NULL, error);
	}
	if (rc == SGPU_OK && !w->devices[0].context) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "device '%s' has no secure contexts, which sessions need",
			       w->selector);
	}
	return rc < 0 ? rc
		      : sgpu_remote_serve(w->devices[0].context, v->memory, key, STDIN_FILENO,
					  cli_output_fd, error);
}

int verb_session(int argc, char **argv)
{
	struct values v = { .worker = WORKER_INIT };
	struct sgpu_error error = { 0 };
	const char *name;
	char **paths;
	int status = cli_read(argc, argv, &v, &paths), fd = -1;

	v.worker.sessions = true; /* this process serves whoever is at the other end */
	status = status ? status : attested_check(&v.attested, false);
	if (status == 0 && v.attested.quote && !cli_output_apart(v.attested.quote)) {
		status = 2;
	}
	status = status ? status : worker_check(&v.worker);
	if (status == 0) {
		status = cli_input("-", &name, &fd); /* not from a terminal */
	}
	if (status == 0 && !cli_binary_output(STDOUT_FILENO)) {
		status = 2;
	}
	status = status ? status : worker_begin(&v.worker, NULL);
	if (status == 0 && serve(&v, &error) != SGPU_OK) {
		status = error.code == SGPU_ECANCELED && sgpu_io_interrupted()
				 ? sgpu_exit_status(error.code)
				 : cli_error(&error);
	}
	worker_stop(&v.worker);
	return worker_end(&v.worker, status);
}
