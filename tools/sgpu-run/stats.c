/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics: what each stage took in all, which with streams that overlap is more than the run
 * took, and on which path payloads got to the device and back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "cli.h"
#include "report.h"
#include "transfer/transfer.h"

static double rate(const struct sgpu_run_total *total)
{
	return total->ns == 0 ? 0 : (double)total->bytes / (double)total->ns;
}

static json_t *stages_json(const struct sgpu_run_total *totals)
{
	json_t *stages = json_object();

	for (int i = 0; i < SGPU_SPAN_KINDS; i++) {
		json_object_set_new(
			stages, sgpu_span_name((enum sgpu_span_kind)i),
			json_pack("{s:I, s:I, s:I, s:f}", "count", (json_int_t)totals[i].count,
				  "ns", (json_int_t)totals[i].ns, "bytes",
				  (json_int_t)totals[i].bytes, "gb_per_s", rate(&totals[i])));
	}
	return stages;
}

static json_t *staging_json(const struct sgpu_run_paths *paths)
{
	json_t *staging = json_object();

	for (int i = 0; i < SGPU_PATHS; i++) {
		json_object_set_new(staging, sgpu_transfer_path_name((enum sgpu_transfer_path)i),
				    json_pack("{s:I, s:I}", "bytes_in", (json_int_t)paths->in[i],
					      "bytes_out", (json_int_t)paths->out[i]));
	}
	return staging;
}

static void print_json(const struct report *report)
{
	const struct sgpu_run_progress *done = &report->progress;
	const struct sgpu_device_info *info = &report->device;
	json_t *object = json_pack(
		"{s:{s:s, s:i, s:s, s:s, s:i, s:s, s:I, s:i, s:i, s:I, s:I, s:o, s:o}}", "stats",
		"device", info->selector, "devices", report->devices, "device_name", info->name,
		"confidential", info->confidential, "compute_units", (int)info->compute_units,
		"aead", report->aead, "elapsed_ns", (json_int_t)done->elapsed_ns, "operations_done",
		done->operations_done, "operations_failed", done->operations_failed, "bytes_in",
		(json_int_t)done->bytes_in, "bytes_out", (json_int_t)done->bytes_out, "stages",
		stages_json(report->totals), "staging", staging_json(&report->paths));

	cli_print_json(object, stderr, JSON_COMPACT);
}

static void print_table(const struct report *report)
{
	const struct sgpu_run_progress *done = &report->progress;
	const struct sgpu_device_info *info = &report->device;
	const struct sgpu_run_total *totals = report->totals;
	const struct sgpu_run_paths *paths = &report->paths;

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

const char *report_units(const struct sgpu_device_info *info)
{
	return info->opens_on_device ? "multiprocessors" : "workers";
}

void report_stats(const struct report *report)
{
	if (cli_json) {
		print_json(report);
	} else {
		print_table(report);
	}
}
