/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of runs. The line for each batch in a runner's log has its ids, owner, sizes, time and
 * status. None of this is secret, since the host sees it anyway.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sgpu/base.h>

#include "base/base.h"
#include "base/io.h"
#include "base/json.h"
#include "crypto/crypto.h"
#include "transfer/transfer.h"
#include "cli.h"
#include "report.h"
#include "worker.h"

enum { TIME_MAX = 48 };

const char *report_key(const struct sgpu_batch *batch, const struct sgpu_key *keys, int count)
{
	size_t i = 0;
	json_t *recipient = NULL;

	json_array_foreach (batch->recipients, i, recipient) {
		const char *kid = json_string_value(json_object_get(recipient, "kid"));
		for (int k = 0; kid && k < count; k++) {
			if (!strcmp(kid, keys[k].kid)) {
				return keys[k].kid;
			}
		}
	}
	return "";
}

/* Keeps the last id, since many batches in a row have the same manifest, by its checked hash. */
static const char *manifest_id(const struct sgpu_batch *batch)
{
	static uint8_t last[SGPU_SHA256_SIZE];
	static json_t *id;
	json_t *manifest = NULL;

	if (id && memcmp(last, batch->manifest_sha256, sizeof(last)) == 0) {
		return json_string_value(id);
	}
	json_decref(id);
	id = NULL;
	if (batch->manifest_text && !sgpu_json_parse(batch->manifest_text, batch->manifest_size,
						     &manifest, NULL, NULL, NULL)) {
		id = json_object_get(manifest, "manifest_id");
		id = json_is_string(id) ? json_incref(id) : NULL;
		json_decref(manifest);
	}
	memcpy(last, batch->manifest_sha256, sizeof(last));
	return id ? json_string_value(id) : "";
}

/* Keeps the description while the device is the same, since a query reads several files of /proc.
 * Free memory is left out of reports. */
static void describe_device(struct sgpu_device *device, struct sgpu_device_info *about)
{
	static struct sgpu_device_info known;
	static const struct sgpu_device *whose;

	if (device != whose) {
		whose = sgpu_device_get_info(device, &known, NULL) == SGPU_OK ? device : NULL;
		known.memory_free = 0;
	}
	if (whose) {
		*about = known;
	} else {
		snprintf(about->name, sizeof(about->name), "unknown");
	}
}

void report_collect(const struct sgpu_run *run, struct sgpu_device *device,
		    const struct sgpu_key *keys, int count, struct report *report)
{
	const struct sgpu_batch *batch = sgpu_run_get_batch(run);
	struct sgpu_run_result result;

	memset(report, 0, sizeof(*report));
	sgpu_run_get_progress(run, &report->progress);
	sgpu_run_get_result(run, &result);
	memcpy(report->totals, result.totals, sizeof(report->totals));
	report->paths = result.paths;
	if (device) {
		describe_device(device, &report->device);
	}
	snprintf(report->aead, sizeof(report->aead), "%s", sgpu_aead_provider());
	if (batch) {
		sgpu_base64url_encode(batch->id, sizeof(batch->id), report->batch_id);
		snprintf(report->manifest_id, sizeof(report->manifest_id), "%s",
			 manifest_id(batch));
		snprintf(report->kid, sizeof(report->kid), "%s", report_key(batch, keys, count));
		snprintf(report->owner, sizeof(report->owner), "%s", result.owner);
	}
}

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
		json_object_set_new(staging, sgpu_transfer_path_name((enum sgpu_transfer_path)i),
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

const char *report_units(const struct sgpu_device_info *info)
{
	return info->opens_on_device ? "multiprocessors" : "workers";
}

void report_stats(const struct report *report)
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
		report_units(info));
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
		dprintf(cli_error_fd, "%-10s %27" PRIu64 " %27" PRIu64 "\n",
			sgpu_transfer_path_name((enum sgpu_transfer_path)i), paths->in[i],
			paths->out[i]);
	}
}

/* The trace, in Chrome's trace event format: complete events ("X") in microseconds. The host, each
 * stream, and moves between two devices have rows (tid), which metadata events name. Labels are
 * ids, which need no escaping. */

static void print_name(FILE *out, const char *kind, int tid, int device, const char *name,
		       int number)
{
	fprintf(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"",
		kind, tid);
	if (device >= 0) {
		fprintf(out, "device %d, ", device);
	}
	fprintf(out, "%s", name);
	if (number >= 0) {
		fprintf(out, " %d", number);
	}
	fprintf(out, "\"}},\n");
	if (kind[0] == 't') {
		fprintf(out,
			"{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,"
			"\"args\":{\"sort_index\":%d}},\n",
			tid, tid);
	}
}

/* Rows without a span stay unnamed. */
static void print_rows(FILE *out, const struct sgpu_run *run, const struct sgpu_run_result *result)
{
	bool *used = calloc((size_t)result->rows + 1, sizeof(*used));

	for (size_t i = 0; used && i < result->span_count; i++) {
		used[result->spans[i].stream + 1] = true;
	}
	print_name(out, "process_name", 0, -1, "sgpu-run", -1);
	print_name(out, "thread_name", 0, -1, "host", -1);
	for (int i = 0; used && i < result->rows; i++) {
		if (used[i + 1]) {
			int number, device;
			const char *name = sgpu_run_row_name(run, i, &number, &device);

			print_name(out, "thread_name", i + 1, device, name, number);
		}
	}
	free(used);
}

static void print_trace(FILE *out, const struct sgpu_run *run)
{
	struct sgpu_run_result result;

	sgpu_run_get_result(run, &result);
	fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	print_rows(out, run, &result);
	for (size_t i = 0; i < result.span_count; i++) {
		const struct sgpu_span *span = &result.spans[i];
		const uint64_t begin = span->begin_ns - result.spans[0].begin_ns,
			       length = span->end_ns - span->begin_ns;
		const char *kind = sgpu_span_name(span->kind);

		fprintf(out,
			"{\"name\":\"%s %s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,",
			kind, span->label, kind, span->stream + 1);
		fprintf(out, "\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64 ",",
			begin / 1000, begin % 1000, length / 1000, length % 1000);
		fprintf(out, "\"args\":{\"%s\":\"%s\",\"bytes\":%" PRIu64 "}},\n",
			span->kind == SGPU_SPAN_KERNEL ? "operation" : "segment", span->label,
			span->bytes);
	}
	/* The last event has no comma after it. */
	fprintf(out, "{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":1,\"args\":{\"sort_"
		     "index\":0}}\n]}\n");
}

int report_trace(const struct sgpu_run *run, const struct sgpu_output *output,
		 struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int rc;

	if (!out) {
		return sgpu_fail_nomem(error);
	}
	print_trace(out, run);
	if (fclose(out) != 0) {
		free(text);
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_write(output->fd, output->path, text, size, error);
	free(text);
	return rc;
}

/* Progress: a line on a terminal, and one for each SIGUSR1. A thread reads the signal from a
 * descriptor, so no signal handler prints. On a GPU, the thread also notices a stopped run that
 * does not end: a GPU abandons its kernels within seconds, but a call of the driver may wait for a
 * kernel that never ends. */

static pthread_t thread;
static bool started;
static int signal_fd = -1, end_fd = -1;
static const struct sgpu_run *shown;
static void (*when_stuck)(void);

uint64_t report_bytes_in_all(const struct sgpu_run *run)
{
	struct sgpu_run_progress p;
	const struct sgpu_batch *batch;
	uint64_t sum = 0;

	sgpu_run_get_progress(run, &p);
	batch = p.operations ? sgpu_run_get_batch(run) : NULL;
	for (int i = 0; batch && i < batch->segment_count; i++) {
		sum += batch->segments[i].input ? sgpu_batch_payload_size(batch, i) : 0;
	}
	return sum;
}

enum { WHOLE = 1 << 20 };

/* Returns how much of WHOLE is done: bytes in, operations and the response are a third each. 0
 * until the batch's head has been read. */
static uint64_t share_done(const struct sgpu_run_progress *p, uint64_t all)
{
	if (!p->operations) {
		return 0;
	}
	const double bytes = all ? (double)p->bytes_in / (double)all : 1;
	const double operations =
		(double)(p->operations_done + p->operations_failed) / p->operations;

	return (uint64_t)((bytes + operations) / 3 * WHOLE);
}

void report_progress_print(const struct sgpu_run_progress *p, uint64_t all)
{
	const uint64_t ns = cli_progress_left(p->elapsed_ns, share_done(p, all), WHOLE);
	char line[512], left[64] = "";
	int size;

	if (ns && cli_json) {
		snprintf(left, sizeof(left), ",\"left_ns\":%" PRIu64, ns);
	} else if (ns) {
		snprintf(left, sizeof(left), ", about %.1f s left", (double)ns / 1e9);
	}
	size = cli_json ? snprintf(line, sizeof(line),
				   "{\"progress\":{\"operations_done\":%d,\"operations_failed\":%d,"
				   "\"operations\":%d,"
				   "\"bytes_in\":%" PRIu64 ",\"bytes_in_all\":%" PRIu64
				   ",\"bytes_out\":%" PRIu64 ",\"elapsed_ns\":%" PRIu64 "%s}}\n",
				   p->operations_done, p->operations_failed, p->operations,
				   p->bytes_in, all, p->bytes_out, p->elapsed_ns, left)
			: snprintf(line, sizeof(line),
				   "sgpu-run: %d operations done, %d failed, %d in all; %" PRIu64
				   " of %" PRIu64 " bytes in, %" PRIu64 " bytes out; %.1f s%s\n",
				   p->operations_done, p->operations_failed, p->operations,
				   p->bytes_in, all, p->bytes_out, (double)p->elapsed_ns / 1e9,
				   left);
	if (size > 0) {
		cli_progress_pause();
		(void)!write(cli_error_fd, line, (size_t)size);
	}
}

void report_progress_show(const struct sgpu_run_progress *p, uint64_t all)
{
	const uint64_t done = share_done(p, all);
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
		 p->operations, (double)p->bytes_in / (1 << 20), (double)all / (1 << 20), left);
	cli_progress_line(line);
}

static void *wait_for_signal(void *argument)
{
	struct pollfd fds[2] = { { .fd = signal_fd, .events = POLLIN },
				 { .fd = end_fd, .events = POLLIN } };

	(void)argument;
	const int wait_ms = isatty(cli_error_fd) && !cli_quiet && !cli_json ? 100
			    : when_stuck				    ? 1000
									    : -1;

	while (poll(fds, 2, wait_ms) >= 0 && !fds[1].revents) {
		struct sgpu_run_progress p;

		sgpu_run_get_progress(shown, &p);
		if (when_stuck && p.stopping_ns > WORKER_STUCK_NS) {
			when_stuck();
		}
		report_progress_show(&p, report_bytes_in_all(shown));
		if (fds[0].revents && worker_take_signal(signal_fd)) {
			report_progress_print(&p, report_bytes_in_all(shown));
		}
	}
	return NULL;
}

/* If the descriptor or the thread cannot be made, the run goes on without progress. */
void report_progress_begin(const struct sgpu_run *run, const struct worker *worker)
{
	shown = run;
	when_stuck = worker->on_gpu ? worker_give_up : NULL;
	signal_fd = worker->signal_fd;
	end_fd = eventfd(0, EFD_CLOEXEC);
	if (end_fd < 0) {
		return;
	}
	cli_progress_begin("running", 0);
	started = sgpu_thread_start(&thread, wait_for_signal, NULL, NULL) == SGPU_OK;
}

void report_progress_end(void)
{
	if (started && eventfd_write(end_fd, 1) == 0) {
		pthread_join(thread, NULL);
	}
	cli_progress_end();
	started = false;
	sgpu_close(end_fd);
	end_fd = -1;
}
