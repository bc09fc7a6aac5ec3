/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of runs. The line for each batch in a runner's log has its ids, owner, sizes, time and
 * status. None of this is secret, since the host sees it anyway.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/io.h"
#include "transfer/transfer.h"
#include "cli.h"
#include "report.h"

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

/* A long manifest id is cut, to leave room for the reason. */
void report_batch(const struct report *report, const char *file, int rc,
		  const struct report_user *by)
{
	const struct sgpu_run_progress *p = &report->progress;
	struct timespec now = { 0 };
	struct tm utc;
	char time[TIME_MAX], user[REPORT_USER_MAX + 32] = "",
						    text[4 * REPORT_NAME_MAX + SGPU_ERROR_TEXT_MAX];

	if (cli_quiet || (!*report->batch_id && !by)) {
		return; /* without an id it was no batch */
	}
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	/* in the format of RFC 3339 */
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
		 "batch %s, manifest '%.64s', %s%s%s%skey %s: %" PRIu64 " bytes in, %" PRIu64
		 " out, %.1f ms, %s%s%s",
		 *report->batch_id ? report->batch_id : "none", report->manifest_id, user,
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

/* Statistics: the total time of each stage, and the bytes on each path to the device and back. The
 * times add up to more than the run's where streams overlap. */

static double rate(const struct sgpu_run_total *total)
{
	return total->ns == 0 ? 0 : (double)total->bytes / (double)total->ns;
}

static void print_json(const struct report *report)
{
	const struct sgpu_run_progress *done = &report->progress;
	const struct sgpu_device_info *info = &report->device;
	json_t *stages = json_object(), *staging = json_object(), *object;

	for (int i = 0; i < SGPU_SPAN_KINDS; i++) {
		const struct sgpu_run_total *total = &report->totals[i];

		json_object_set_new(stages, sgpu_span_name((enum sgpu_span_kind)i),
				    json_pack("{s:I, s:I, s:I, s:f}", "count",
					      (json_int_t)total->count, "ns", (json_int_t)total->ns,
					      "bytes", (json_int_t)total->bytes, "gb_per_s",
					      rate(total)));
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
	cli_print_json(object, stderr, JSON_COMPACT);
}

static void report_stats(const struct report *report)
{
	const struct sgpu_run_progress *done = &report->progress;
	const struct sgpu_device_info *info = &report->device;
	const struct sgpu_run_total *totals = report->totals;
	const struct sgpu_run_paths *paths = &report->paths;

	if (cli_json) {
		print_json(report);
		return;
	}
	dprintf(cli_error_fd, "device      %s, %u %s", info->name, info->compute_units,
		info->opens_on_device ? "multiprocessors" : "workers");
	if (report->devices > 1) {
		dprintf(cli_error_fd, "; %d devices", report->devices);
	}
	dprintf(cli_error_fd, "\n");
	dprintf(cli_error_fd, "AES-GCM     %s\n", report->aead);
	dprintf(cli_error_fd, "operations  %d done, %d failed\n", done->operations_done,
		done->operations_failed);
	dprintf(cli_error_fd, "elapsed     %.3f ms, %" PRIu64 " bytes in, %" PRIu64 " bytes out\n",
		(double)done->elapsed_ns / 1e6, done->bytes_in, done->bytes_out);
	dprintf(cli_error_fd, "%-10s %10s %12s %16s %10s\n", "stage", "count", "ms", "bytes",
		"GB/s");
	for (int i = 0; i < SGPU_SPAN_KINDS; i++) {
		dprintf(cli_error_fd, "%-10s %10" PRIu64 " %12.3f %16" PRIu64 " %10.3f\n",
			sgpu_span_name((enum sgpu_span_kind)i), totals[i].count,
			(double)totals[i].ns / 1e6, totals[i].bytes, rate(&totals[i]));
	}
	dprintf(cli_error_fd, "%-10s %27s %27s\n", "staging", "bytes in", "bytes out");
	for (int i = 0; i < SGPU_PATHS; i++) {
		dprintf(cli_error_fd, "%-10s %27" PRIu64 " %27" PRIu64 "\n", path_names[i],
			paths->in[i], paths->out[i]);
	}
}

/* ---- the outcome, for the client ---- */
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

/* ---- progress ---- */
enum { WHOLE = 1 << 20 };

/* Returns how much of WHOLE is done: bytes in, operations and the response are a third each. 0
 * until the batch's head has been read. */
static uint64_t share_done(const struct sgpu_run_progress *p)
{
	if (!p->operations) {
		return 0;
	}
	const double bytes = p->bytes_in_all ? (double)p->bytes_in / (double)p->bytes_in_all : 1;
	const double operations =
		(double)(p->operations_done + p->operations_failed) / p->operations;

	return (uint64_t)((bytes + operations) / 3 * WHOLE);
}

void report_progress_print(const struct sgpu_run_progress *p)
{
	const uint64_t ns = cli_progress_left(p->elapsed_ns, share_done(p), WHOLE);
	char left[64] = "";

	cli_progress_pause();
	if (cli_json) {
		cli_print_json(json_pack("{s:{s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:o*}}",
					 "progress", "operations_done", p->operations_done,
					 "operations_failed", p->operations_failed, "operations",
					 p->operations, "bytes_in", (json_int_t)p->bytes_in,
					 "bytes_in_all", (json_int_t)p->bytes_in_all, "bytes_out",
					 (json_int_t)p->bytes_out, "elapsed_ns",
					 (json_int_t)p->elapsed_ns, "left_ns",
					 ns ? json_integer((json_int_t)ns) : NULL),
			       stderr, JSON_COMPACT);
		return;
	}
	if (ns) {
		snprintf(left, sizeof(left), ", about %.1f s left", (double)ns / 1e9);
	}
	dprintf(cli_error_fd,
		"%s: %d operations done, %d failed, %d in all; %" PRIu64 " of %" PRIu64
		" bytes in, %" PRIu64 " bytes out; %.1f s%s\n",
		cli_tool_name(), p->operations_done, p->operations_failed, p->operations,
		p->bytes_in, p->bytes_in_all, p->bytes_out, (double)p->elapsed_ns / 1e9, left);
}

void report_progress_show(const struct sgpu_run_progress *p)
{
	const uint64_t done = share_done(p);
	char line[160], left[32] = "";

	if (!p->operations || !cli_progress_due()) {
		return;
	}
	const uint64_t ns = cli_progress_left(p->elapsed_ns, done, WHOLE);

	if (ns) {
		snprintf(left, sizeof(left), ", %.0f s left", (double)ns / 1e9);
	}
	snprintf(line, sizeof(line),
		 "running: %3.0f %%, %d of %d operations, %.0f of %.0f MiB in%s",
		 100.0 * (double)done / WHOLE, p->operations_done + p->operations_failed,
		 p->operations, (double)p->bytes_in / (1 << 20),
		 (double)p->bytes_in_all / (1 << 20), left);
	cli_progress_line(line);
}
