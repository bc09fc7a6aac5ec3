/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of runs. The line of a batch in a runner's log has no secrets: the host sees all of it
 * anyway.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <jansson.h>

#include "base/io.h"
#include "transfer/transfer.h"
#include "cli.h"
#include "wire.h"

enum { TIME_MAX = 48 };

static const char *const path_names[SGPU_PATHS] = {
	[SGPU_PATH_REGISTERED] = "registered",
	[SGPU_PATH_PINNED] = "pinned",
	[SGPU_PATH_PAGEABLE] = "pageable",
};

static void log_json(const struct report *report, const char *file, int rc,
		     const struct report_user *by, const char *time)
{
	const struct sgpu_run_progress *p = &report->progress;
	json_t *batch =
		json_pack("{s:s, s:s, s:o, s:s, s:s, s:I, s:I, s:f, s:s}", "time", time, "batch_id",
			  report->batch_id, "manifest_id", cli_json_text(report->manifest_id),
			  "owner", report->owner, "kid", report->kid, "bytes_in",
			  (json_int_t)p->bytes_in, "bytes_out", (json_int_t)p->bytes_out,
			  "elapsed_ms", (double)p->elapsed_ns / 1e6, "status", sgpu_error_name(rc));

	if (batch && file) {
		json_object_set_new(batch, "file", cli_json_text(file));
	}
	if (batch && by) {
		json_object_set_new(batch, "uid", json_integer((json_int_t)by->uid));
		json_object_set_new(batch, "user", cli_json_text(by->name));
		json_object_set_new(batch, "reason", cli_json_text(by->reason));
	}
	cli_print_json(json_pack("{s:o}", "batch", batch), stderr, JSON_COMPACT);
}

/* The user first: a client chooses what follows. A long manifest id is cut, to leave room for the
 * reason. */
void report_batch(const struct report *report, const char *file, int rc,
		  const struct report_user *by)
{
	const struct sgpu_run_progress *p = &report->progress;
	struct timespec now = { 0 };
	struct tm utc;
	char time[TIME_MAX], user[REPORT_USER_MAX + 32] = "",
						    text[4 * REPORT_NAME_MAX + SGPU_ERROR_TEXT_MAX];

	if (cli_quiet || (!*report->batch_id && !by)) {
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	/* RFC 3339 */
	snprintf(time + strftime(time, TIME_MAX, "%Y-%m-%dT%H:%M:%S", &utc), TIME_MAX / 2,
		 ".%03ldZ", now.tv_nsec / 1000000);
	if (cli_json) {
		log_json(report, file, rc, by, time);
		return;
	}
	if (by) {
		snprintf(user, sizeof(user), "user %" PRIu64 "%s%s%s, ", by->uid,
			 *by->name ? " (" : "", by->name, *by->name ? ")" : "");
	}
	snprintf(text, sizeof(text),
		 "%sbatch %s, manifest '%.64s', %s%s%skey %s: %" PRIu64 " bytes in, %" PRIu64
		 " out, %.1f ms, %s%s%s",
		 user, *report->batch_id ? report->batch_id : "none", report->manifest_id,
		 *report->owner ? "owner " : "", report->owner, *report->owner ? ", " : "",
		 *report->kid ? report->kid : "none", p->bytes_in, p->bytes_out,
		 (double)p->elapsed_ns / 1e6, sgpu_error_name(rc), by && *by->reason ? ": " : "",
		 by ? by->reason : "");
	if (file) {
		cli_note("'%s': %s", file, text);
	} else {
		cli_note("%s%s%s", by ? time : "", by ? " " : "", text);
	}
}

/* The times of the stages add up to more than the run's where streams overlap. */
static void report_stats(const struct report *report)
{
	const struct sgpu_run_progress *done = &report->progress;
	const struct sgpu_device_info *info = &report->device;
	json_t *stages = json_object(), *staging = json_object(), *object;
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	for (int i = 0; i < SGPU_SPAN_KINDS; i++) {
		const struct sgpu_run_total *total = &report->totals[i];

		json_object_set_new(
			stages, sgpu_span_name((enum sgpu_span_kind)i),
			json_pack("{s:I, s:I, s:I, s:f}", "count", (json_int_t)total->count, "ns",
				  (json_int_t)total->ns, "bytes", (json_int_t)total->bytes,
				  "gb_per_s",
				  total->ns ? (double)total->bytes / (double)total->ns : 0.0));
	}
	for (int i = 0; i < SGPU_PATHS; i++) {
		json_object_set_new(staging, path_names[i],
				    json_pack("{s:I, s:I}", "bytes_in",
					      (json_int_t)report->paths.in[i], "bytes_out",
					      (json_int_t)report->paths.out[i]));
	}
	object = json_pack("{s:{s:s, s:i, s:s, s:s, s:i, s:s, s:I, s:i, s:i, s:I, s:I, s:o, s:o}}",
			   "stats", "device", info->selector, "devices", report->devices,
			   "device_name", info->name, "confidential", info->confidential,
			   "compute_units", (int)info->compute_units, "aead", report->aead,
			   "elapsed_ns", (json_int_t)done->elapsed_ns, "operations_done",
			   done->operations_done, "operations_failed", done->operations_failed,
			   "bytes_in", (json_int_t)done->bytes_in, "bytes_out",
			   (json_int_t)done->bytes_out, "stages", stages, "staging", staging);
	if (!cli_json && (out = open_memstream(&text, &size))) {
		cli_record(out, json_object_get(object, "stats"));
		(void)fclose(out);
		(void)!sgpu_write(cli_error_fd, "standard error", text, size, NULL);
		free(text);
	} else {
		cli_print_json(json_incref(object), stderr, JSON_COMPACT);
	}
	json_decref(object);
}

void report_refusal(int fd, const struct report *report, const struct sgpu_error *why)
{
	struct sgpu_batch_refusal refusal = { .code = why->code };

	if (sgpu_exit_status(why->code) == sgpu_exit_status(SGPU_EREFUSED)) {
		snprintf(refusal.batch_id, sizeof(refusal.batch_id), "%.*s", SGPU_BATCH_ID_TEXT,
			 report->batch_id);
		snprintf(refusal.text, sizeof(refusal.text), "%s", why->text);
		/* the exit status says the same */
		(void)!sgpu_batch_refusal_write(fd, "the response", &refusal, NULL);
	}
}

void report_outcome(const struct report *report, bool stats, int rc)
{
	if (stats && (rc == SGPU_OK || rc == SGPU_ESEGMENTS)) {
		report_stats(report);
	}
	/* If the reader of the response has ended, the run has not failed. */
	report_batch(report, NULL,
		     rc == SGPU_ESYSTEM && sgpu_io_reader_gone() ? SGPU_ECANCELED : rc, NULL);
}
