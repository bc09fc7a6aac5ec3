/* SPDX-License-Identifier: Apache-2.0
 *
 * One line a batch, for whoever keeps the logs of a runner: which batch, whose, how much, how long,
 * what came of it. Nothing in it is secret: the host sees all of it in the batch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>
#include <sgpu/json.h>

#include "cli.h"
#include "report.h"

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

/* Many batches in a row have the same manifest, by the hash that was checked. */
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

/* Of the device that is asked about in a row: to learn it again takes several files of /proc, for
 * each batch. How much memory was free is not told of a run. */
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

	memset(report, 0, sizeof(*report));
	sgpu_run_get_progress(run, &report->progress);
	sgpu_run_get_totals(run, report->totals);
	sgpu_run_get_paths(run, &report->paths);
	if (device) {
		describe_device(device, &report->device);
	}
	snprintf(report->aead, sizeof(report->aead), "%s", sgpu_aead_provider());
	if (batch) {
		sgpu_base64url_encode(batch->id, sizeof(batch->id), report->batch_id);
		snprintf(report->manifest_id, sizeof(report->manifest_id), "%s",
			 manifest_id(batch));
		snprintf(report->kid, sizeof(report->kid), "%s", report_key(batch, keys, count));
		snprintf(report->owner, sizeof(report->owner), "%s", sgpu_run_get_owner(run));
	}
}

/* As RFC 3339 has it. */
static void print_time(char text[TIME_MAX])
{
	struct timespec now = { 0 };
	struct tm utc;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	snprintf(text + strftime(text, TIME_MAX, "%Y-%m-%dT%H:%M:%S", &utc), TIME_MAX / 2,
		 ".%03ldZ", now.tv_nsec / 1000000);
}

static void log_json(const struct report *report, const char *file, int code,
		     const struct report_user *by, const char *time)
{
	const struct sgpu_run_progress *p = &report->progress;
	json_t *batch = json_pack("{s:s, s:s, s:o, s:s, s:s, s:I, s:I, s:f, s:s}", "time", time,
				  "batch_id", report->batch_id, "manifest_id",
				  cli_json_text(report->manifest_id), "owner", report->owner, "kid",
				  report->kid, "bytes_in", (json_int_t)p->bytes_in, "bytes_out",
				  (json_int_t)p->bytes_out, "elapsed_ms",
				  (double)p->elapsed_ns / 1e6, "status", sgpu_error_name(code));

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

/* A long manifest id is cut, so that there is room for the reason in each line. */
void report_batch(const struct report *report, const char *file, int code,
		  const struct report_user *by)
{
	const struct sgpu_run_progress *p = &report->progress;
	char time[TIME_MAX], user[REPORT_USER_MAX + 32] = "",
						    text[4 * REPORT_NAME_MAX + SGPU_ERROR_TEXT_MAX];

	if (cli_quiet || (!*report->batch_id && !by)) {
		return; /* what is no batch has no id */
	}
	print_time(time);
	if (cli_json) {
		log_json(report, file, code, by, time);
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
		 (double)p->elapsed_ns / 1e6, sgpu_error_name(code), by && *by->reason ? ": " : "",
		 by ? by->reason : "");
	if (file) {
		cli_note("'%s': %s", file, text);
	} else {
		cli_note("%s%s%s", by ? time : "", by ? " " : "", text);
	}
}
