/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known of a run in this process: its report, trace and progress.
 */
#ifndef SGPU_COLLECT_H
#define SGPU_COLLECT_H

#include "report.h"

/* Writes the trace in Chrome's format, with a row for each stream. The caller commits the
 * output. */
SGPU_MUST_CHECK int report_trace(const struct sgpu_run *run, const struct sgpu_output *output,
				 struct sgpu_error *error);

/* Returns the id of the batch's first recipient that is one of `keys`; "": none is. */
const char *report_key(const struct sgpu_batch *batch, const struct sgpu_key *keys, int count);
/* Collects the report of a run that has ended. device: NULL leaves it out. One thread at a time. */
void report_collect(const struct sgpu_run *run, struct sgpu_device *device,
		    const struct sgpu_key *keys, int count, struct report *report);

/* From begin to end, SIGUSR1 prints a line, and a worker on a GPU gives up when the device does not
 * end a run that was told to stop. */
struct enclave;
void report_progress_begin(const struct sgpu_run *run, const struct enclave *worker);
void report_progress_end(void);
/* Returns the bytes of all input payloads; 0: not known yet. */
uint64_t report_bytes_in_all(const struct sgpu_run *run);

#endif
