/* SPDX-License-Identifier: Apache-2.0
 *
 * What sgpu-run says about a run besides the response: trace, statistics, progress, and the plan of
 * a dry run.
 */
#include "base/io.h"
#include "run/run.h"

#ifndef SGPU_RUN_REPORT_H
#define SGPU_RUN_REPORT_H

/* Writes the trace in Chrome's format, with a row for each stream. The caller commits the
 * output. */
SGPU_MUST_CHECK int report_trace(const struct sgpu_run *run, const struct sgpu_output *output,
				 struct sgpu_error *error);

/* The outcome of a run. It has no pointers, since it may come from another process. */
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
/* Returns the id of the batch's first recipient that is one of `keys`; "": none is. */
const char *report_key(const struct sgpu_batch *batch, const struct sgpu_key *keys, int count);
/* Collects the report of a run that has ended. device: NULL leaves it out. One thread at a time. */
void report_collect(const struct sgpu_run *run, struct sgpu_device *device,
		    const struct sgpu_key *keys, int count, struct report *report);

/* Prints times and bytes by stage on standard error. */
void report_stats(const struct report *report);
/* Returns the name of a device's compute units. */
const char *report_units(const struct sgpu_device_info *info);

/* Prints a line on standard error, unless -q: the batch, its owner, the key used, sizes, time, the
 * code. file: the batch's, or NULL. by: the user and the text of their error, for a server's log;
 * or NULL. */
struct report_user {
	uint64_t uid;
	const char *name, *reason; /* may be "" */
};
void report_batch(const struct report *report, const char *file, int code,
		  const struct report_user *by);

/* From begin to end, SIGUSR1 prints a line, and a worker on a GPU gives up when the device does not
 * end a run that was told to stop. */
struct worker;
void report_progress_begin(const struct sgpu_run *run, const struct worker *worker);
void report_progress_end(void);
/* The same lines for a run in another process. all: bytes of all input payloads; 0: not known. */
void report_progress_show(const struct sgpu_run_progress *progress, uint64_t all);
void report_progress_print(const struct sgpu_run_progress *progress, uint64_t all);
uint64_t report_bytes_in_all(const struct sgpu_run *run);

/* plan.c: reads the head of the batch in `fd`, and writes the batch's plan to `path`. */
SGPU_MUST_CHECK int report_plan(int fd, const char *name, int devices, const char *path,
				struct sgpu_error *error);

#endif
