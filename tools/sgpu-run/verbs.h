/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-run, one file each; submissions to a server have submit_remote.c besides.
 */
#ifndef SGPU_RUN_VERBS_H
#define SGPU_RUN_VERBS_H

#include "base/io.h"
#include "remote/greeting.h"
#include "cli.h"
#include "report.h"
#include "worker.h"

extern const struct cli_option submit_options[], worker_options[], serve_options[],
	status_options[], session_options[], quote_options[], info_options[], ops_options[];
int verb_submit(int argc, char **argv);
int verb_worker(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_session(int argc, char **argv);
int verb_quote(int argc, char **argv);
int verb_info(int argc, char **argv);
int verb_ops(int argc, char **argv);

/* ---- submit ---- */
struct submit {
	struct worker worker; /* the key of an attested run is the last of its keys */
	struct attested attested;
	int in_fd; /* the batch; -1 while it is not open */
	const char *in_name;
	const char *trace, *output, *batch;
	uint64_t timeout_ns;
	bool stats, dry_run, lease; /* lease: results are to be left in one */
	const char *socket;
	struct sgpu_service_path service;
	bool local, remote; /* remote: a server runs the batch */
};

struct outputs {
	struct sgpu_output response, trace;
};

/* When a run has ended without a response: if the batch was refused, whoever reads `fd` is told by
 * a refusal. A regular file that -o names is not shown then, so what has the name of a response is
 * one. */
void submit_refuse(int fd, const struct report *report, const struct sgpu_error *why);
/* On standard error, after all is written. */
void submit_tell(const struct submit *r, const struct report *report, int code);

/* Lets the server run the batch, which is open, and shows the response. An exit status. */
int submit_remote(const struct submit *r);

#endif
