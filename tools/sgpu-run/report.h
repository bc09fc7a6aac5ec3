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
	char batch_id[REPORT_NAME_MAX]; /* "": what came is no batch */
	char manifest_id[REPORT_NAME_MAX], kid[REPORT_NAME_MAX], owner[REPORT_NAME_MAX],
		aead[REPORT_NAME_MAX];
	struct sgpu_run_progress progress;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
	struct sgpu_device_info device; /* the first device */
	int devices;
};
/* Returns the id of the key that a batch was opened with, or can be; "": there is none. */
const char *report_key(const struct sgpu_batch *batch, const struct sgpu_key *keys, int count);
/* Collects the report of a run that has ended. device: NULL leaves it out. One thread at a time. */
void report_collect(const struct sgpu_run *run, struct sgpu_device *device,
		    const struct sgpu_key *keys, int count, struct report *report);

/* Times and bytes by stage, on standard error. */
void report_stats(const struct report *report);
/* The name of a device's compute units. */
const char *report_units(const struct sgpu_device_info *info);

/* One line on standard error, unless -q: the batch, its owner, the key used, sizes, time, the code.
 * file: the batch's, or NULL. by: the user and what they were told, for the log of a server; else
 * NULL. */
struct report_user {
	uint64_t uid;
	const char *name, *reason; /* may be "" */
};
void report_batch(const struct report *report, const char *file, int code,
		  const struct report_user *by);

/* From begin to end, SIGUSR1 prints a line, and a worker on a GPU gives up when the device holds a
 * run that was told to stop. */
struct worker;
void report_progress_begin(const struct sgpu_run *run, const struct worker *worker);
void report_progress_end(void);
/* The same lines for a run in another process. all: bytes of the payloads that come in, 0: not
 * known. */
void report_progress_show(const struct sgpu_run_progress *progress, uint64_t all);
void report_progress_print(const struct sgpu_run_progress *progress, uint64_t all);
uint64_t report_bytes_in_all(const struct sgpu_run *run);

/* plan.c: the plan of the batch in `fd`, of which only the head is read, to `path`. */
SGPU_MUST_CHECK int report_plan(int fd, const char *name, int devices, const char *path,
				struct sgpu_error *error);

#endif
