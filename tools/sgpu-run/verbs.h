/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-run, in verb_*.c, and submissions to a server, in submit_remote.c.
 */
#ifndef SGPU_RUN_VERBS_H
#define SGPU_RUN_VERBS_H

#include "base/io.h"
#include "remote/greeting.h"
#include "cli.h"
#include "report.h"
#include "worker.h"

CLI_VERB(submit);
CLI_VERB(worker);
CLI_VERB(serve);
CLI_VERB(status);
CLI_VERB(session);
CLI_VERB(quote);
CLI_VERB(info);
CLI_VERB(ops);

/* ---- submit ---- */
struct submit {
	struct worker worker; /* the key of an attested run is the last of its keys */
	struct attested attested;
	int in_fd; /* the batch; -1 while it is not open */
	const char *in_name;
	const char *trace, *output, *batch;
	uint64_t timeout_ns;
	bool stats, dry_run, lease; /* lease: results are to be left in a lease */
	const char *socket;
	struct sgpu_service_path service;
	bool local, remote; /* remote: a server runs the batch */
};

struct outputs {
	struct sgpu_output response, trace;
};

/* Call when a run ended without a response. If the batch was refused, sends the reader of `fd` a
 * refusal. A regular file that -o names gets none, so that each file with a response's name is a
 * response. */
void submit_refuse(int fd, const struct report *report, const struct sgpu_error *why);
/* Reports the run on standard error. Call after all is written. */
void submit_tell(const struct submit *r, const struct report *report, int code);

/* Has the server run the open batch, and shows the response. Returns an exit status. */
int submit_remote(const struct submit *r);

#endif
