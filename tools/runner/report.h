/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs say about a run besides the response.
 */
#include "run/run.h"

#ifndef SGPU_REPORT_H
#define SGPU_REPORT_H

/* The outcome of a run, without pointers, since it may come from another process. */
enum { REPORT_NAME_MAX = 256, REPORT_USER_MAX = 33 };
struct report {
	char batch_id[REPORT_NAME_MAX]; /* "": the input is no batch */
	char manifest_id[REPORT_NAME_MAX], kid[REPORT_NAME_MAX], owner[REPORT_NAME_MAX],
		aead[REPORT_NAME_MAX];
	struct sgpu_run_progress progress;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
	struct sgpu_device_info device; /* the first device */
	int devices;
};
/* Prints a line on standard error, unless -q: batch, owner, key used, sizes, time, code. file: the
 * batch's, or NULL. by: the user and their error's text, for a server's log; or NULL. */
struct report_user {
	uint64_t uid;
	const char *name, *reason; /* may be "" */
};
void report_batch(const struct report *report, const char *file, int code,
		  const struct report_user *by);

/* Sends the reader of `fd` a refusal if a run was refused. A regular file that -o names gets none,
 * so that each file with a response's name is a response. */
void report_refusal(int fd, const struct report *report, const struct sgpu_error *why);
/* Prints the line of report_batch and, with `stats`, times and bytes by stage on standard error.
 * Call after all is written. */
void report_outcome(const struct report *report, bool stats, int code);

#endif
