/* SPDX-License-Identifier: Apache-2.0
 *
 * See enclave.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "enclave.h"

void report_collect(const struct sgpu_run *run, const struct enclave *w, struct report *report)
{
	const struct sgpu_run_result *result = sgpu_run_get_result(run);
	const struct sgpu_batch *batch = result->batch;

	memset(report, 0, sizeof(*report));
	sgpu_run_get_progress(run, &report->progress);
	memcpy(report->totals, result->totals, sizeof(report->totals));
	report->paths = result->paths;
	report->device = w->devices[0].about;
	report->device.memory_free = 0; /* nobody is told */
	report->devices = w->device_count;
	snprintf(report->aead, sizeof(report->aead), "%s", sgpu_aead_provider());
	if (batch) {
		sgpu_base64url_encode(batch->id, sizeof(batch->id), report->batch_id);
		snprintf(report->manifest_id, sizeof(report->manifest_id), "%s",
			 result->manifest_id);
		snprintf(report->owner, sizeof(report->owner), "%s", result->owner);
	}
	/* The first key that is a recipient's opens the batch. */
	for (int i = 0; batch && !report->kid[0] && i < w->key_count; i++) {
		if (sgpu_batch_recipient(batch, w->keys[i].kid)) {
			snprintf(report->kid, sizeof(report->kid), "%s", w->keys[i].kid);
		}
	}
}

/* Chrome's trace event format: complete events ("X") in microseconds. The host, each stream, and
 * moves between two devices have rows (tid), named by metadata events. Labels are ids, which need
 * no escaping. */

/* Returns the row of a span; 0: the host. */
static int row_of(const struct sgpu_span *span)
{
	const bool on_host = span->kind == SGPU_SPAN_READ || span->kind == SGPU_SPAN_WRITE;
	const int kinds = span->device * SGPU_SPAN_KINDS + (int)span->kind;

	return on_host ? 0 : 1 + kinds * SGPU_PLAN_STREAMS_MAX + span->number;
}

static json_t *name_row(const struct sgpu_span *span, bool of_several)
{
	static const char *const names[SGPU_SPAN_KINDS] = {
		[SGPU_SPAN_COPY_IN] = "copy in",   [SGPU_SPAN_OPEN] = "open",
		[SGPU_SPAN_KERNEL] = "stream",	   [SGPU_SPAN_SEAL] = "seal",
		[SGPU_SPAN_COPY_OUT] = "copy out", [SGPU_SPAN_MOVE] = "move to device",
	};
	char name[64] = "";

	if (row_of(span) > 0 && of_several) {
		cli_append(name, sizeof(name), "device %d, ", span->device);
	}
	cli_append(name, sizeof(name), "%s", row_of(span) > 0 ? names[span->kind] : "host");
	if (span->kind == SGPU_SPAN_KERNEL || span->kind == SGPU_SPAN_MOVE) {
		cli_append(name, sizeof(name), " %d", span->number);
	}
	return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M", "pid",
			 1, "tid", row_of(span), "args", "name", name);
}

static json_t *trace_events(const struct sgpu_run_result *result, bool on_several)
{
	bool named[SGPU_RUN_DEVICES_MAX * SGPU_SPAN_KINDS * SGPU_PLAN_STREAMS_MAX + 1] = { false };
	json_t *events = json_array();

	for (size_t i = 0; i < result->span_count; i++) {
		const struct sgpu_span *span = &result->spans[i];
		const char *kind = sgpu_span_name(span->kind);

		if (!named[row_of(span)]) {
			json_array_append_new(events, name_row(span, on_several));
			named[row_of(span)] = true;
		}
		json_array_append_new(
			events,
			json_pack("{s:s++, s:s, s:s, s:i, s:i, s:f, s:f, s:{s:s, s:I}}", "name",
				  kind, " ", span->label, "cat", kind, "ph", "X", "pid", 1, "tid",
				  row_of(span), "ts",
				  (double)(span->begin_ns - result->spans[0].begin_ns) / 1e3, "dur",
				  (double)(span->end_ns - span->begin_ns) / 1e3, "args",
				  span->kind == SGPU_SPAN_KERNEL ? "operation" : "segment",
				  span->label, "bytes", (json_int_t)span->bytes));
	}
	return events;
}

int report_trace(const struct sgpu_run *run, const struct enclave *w,
		 const struct sgpu_output *output, struct sgpu_error *error)
{
	json_t *trace = json_pack("{s:s, s:o}", "displayTimeUnit", "ns", "traceEvents",
				  trace_events(sgpu_run_get_result(run), w->device_count > 1));
	char *text = json_dumps(trace, JSON_COMPACT | JSON_REAL_PRECISION(15));
	const int rc = text ? sgpu_write(output->fd, output->path, text, strlen(text), error)
			    : sgpu_fail_nomem(error);

	free(text);
	json_decref(trace);
	return rc;
}
