/* SPDX-License-Identifier: Apache-2.0
 *
 * See prometheus.h. All samples of a metric come in a row, after its HELP and TYPE; times are in
 * seconds.
 */
#include "prometheus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "cli.h"

/* A sample for each tenant, or one of the server: then `of` is "workers" for a sum over these, or
 * "". Of a text, a sample is how often it is `value`; without that it is the label's value. A row
 * without a type goes on with the metric before it. */
static const struct row {
	const char *name, *type, *help, *of, *path, *label, *value;
} rows[] = {
	{ "sgpu_build_info", "gauge", "The server's version.", "", "version", "version", NULL },
	{ "sgpu_uptime_seconds", "gauge", "Time since the server was started.", "", "uptime_ns",
	  NULL, NULL },
	{ "sgpu_turns", "gauge", "How many batches may run at once.", "", "running", NULL, NULL },
	{ "sgpu_workers", "gauge", "Worker processes by state.", "workers", "state", "state",
	  "starting" },
	{ "sgpu_workers", NULL, NULL, "workers", "state", "state", "spare" },
	{ "sgpu_workers", NULL, NULL, "workers", "state", "state", "serving" },
	{ "sgpu_workers", NULL, NULL, "workers", "state", "state", "draining" },
	{ "sgpu_leases", "gauge", "Leases that there are.", "workers", "leases", NULL, NULL },
	{ "sgpu_leased_bytes", "gauge", "Bytes of the pools that leases have.", "workers",
	  "leased_bytes", NULL, NULL },
	{ "sgpu_lease_pool_bytes", "gauge", "Bytes of the pools of leases.", "workers",
	  "pool_bytes", NULL, NULL },
	{ "sgpu_batches_total", "counter", "Batches that have ended, by what became of them.", NULL,
	  "done", "result", "done" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "some_failed", "result", "some_failed" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "refused", "result", "refused" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "replayed", "result", "replayed" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "over_quota", "result", "over_quota" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "cancelled", "result", "cancelled" },
	{ "sgpu_batches_total", NULL, NULL, NULL, "failed", "result", "failed" },
	{ "sgpu_bytes_total", "counter", "Bytes of payloads, as they travel.", NULL, "bytes_in",
	  "direction", "in" },
	{ "sgpu_bytes_total", NULL, NULL, NULL, "bytes_out", "direction", "out" },
	{ "sgpu_busy_seconds_total", "counter", "Time of turns, which the shares are counted in.",
	  NULL, "busy_ns", NULL, NULL },
	{ "sgpu_batches_waiting", "gauge", "Batches that wait for a turn.", NULL, "waiting", NULL,
	  NULL },
	{ "sgpu_batches_in_flight", "gauge", "Batches that a worker has.", NULL, "in_flight", NULL,
	  NULL },
	{ "sgpu_batches_stalled", "gauge", "Those of them that wait for their client.", NULL,
	  "stalled", NULL, NULL },
	{ "sgpu_sessions", "gauge", "Sessions of programs.", NULL, "sessions", NULL, NULL },
	{ "sgpu_memory_bytes", "gauge", "Memory that workers have.", NULL, "device_bytes", "of",
	  "device" },
	{ "sgpu_memory_bytes", NULL, NULL, NULL, "host_bytes", "of", "host" },
	{ "sgpu_memory_limit_bytes", "gauge", "The limit of it, if any.", NULL,
	  "limits.device_memory", "of", "device" },
	{ "sgpu_memory_limit_bytes", NULL, NULL, NULL, "limits.host_memory", "of", "host" },
	{ "sgpu_weight", "gauge", "The user's weight.", NULL, "weight", NULL, NULL },
	{ "sgpu_batch_duration_seconds", "histogram",
	  "Time from a batch's connection to its answer.", NULL, "latency.buckets", "le", NULL },
	{ "sgpu_batch_duration_seconds_sum", NULL, NULL, NULL, "latency.sum_ns", NULL, NULL },
	{ "sgpu_batch_duration_seconds_count", NULL, NULL, NULL, "latency.count", NULL, NULL },
};

/* What comes from the server is foreign: of a label's value nothing passes that would need an
 * escape, or moves a cursor. */
static void put_label(FILE *out, char *before, const char *name, const char *value)
{
	fprintf(out, "%c%s=\"", *before, name);
	for (; *value; value++) {
		fputc(*value < ' ' || *value > '~' || *value == '"' || *value == '\\' ? '?'
										      : *value,
		      out);
	}
	fputc('"', out);
	*before = ',';
}

static void put_sample(FILE *out, const struct row *row, const json_t *tenant, const char *label,
		       json_int_t number)
{
	const bool seconds = strstr(row->path, "_ns") != NULL;
	const char *user = json_string_value(json_object_get(tenant, "user"));
	char before = '{', uid[24];

	fprintf(out, "%s%s", row->name, strcmp(row->path, "latency.buckets") == 0 ? "_bucket" : "");
	if (tenant) {
		snprintf(uid, sizeof(uid), "%lld",
			 json_integer_value(json_object_get(tenant, "uid")));
		put_label(out, &before, "uid", uid);
		put_label(out, &before, "user", user ? user : "");
	}
	if (row->label) {
		put_label(out, &before, row->label, label ? label : "");
	}
	fprintf(out, "%s %.*g\n", before == ',' ? "}" : "", seconds ? 15 : 17,
		(double)number / (seconds ? 1e9 : 1));
}

static void put_buckets(FILE *out, const struct row *row, const json_t *tenant,
			const json_t *buckets)
{
	const json_t *one;
	char bound[32];
	size_t i;

	json_array_foreach (buckets, i, one) {
		const json_t *most = json_object_get(one, "le_ns");

		snprintf(bound, sizeof(bound), "%.15g", (double)json_integer_value(most) / 1e9);
		put_sample(out, row, tenant, json_is_integer(most) ? bound : "+Inf",
			   json_integer_value(json_object_get(one, "count")));
	}
}

static void put_row(FILE *out, const struct row *row, const json_t *status)
{
	const json_t *one, *value = status_find(status, row->path);
	uint64_t sum = 0;
	size_t i;

	if (row->type) {
		fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
			row->type);
	}
	if (!row->of) {
		json_array_foreach (json_object_get(status, "tenants"), i, one) {
			value = status_find(one, row->path);
			if (json_is_array(value)) {
				put_buckets(out, row, one, value);
			} else if (json_is_integer(value)) {
				put_sample(out, row, one, row->value, json_integer_value(value));
			}
		}
		return;
	}
	json_array_foreach (json_object_get(status, row->of), i, one) {
		const char *text = json_string_value(status_find(one, row->path));

		sum += text && row->value
			       ? strcmp(text, row->value) == 0
			       : (uint64_t)json_integer_value(status_find(one, row->path));
	}
	put_sample(out, row, NULL, row->value ? row->value : json_string_value(value),
		   *row->of		   ? (json_int_t)sum
		   : json_is_string(value) ? 1
					   : json_integer_value(value));
}

int prometheus_print(const json_t *status)
{
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int rc = SGPU_OK;

	for (size_t i = 0; out && i < SGPU_ARRAY_LENGTH(rows); i++) {
		put_row(out, &rows[i], status);
	}
	if (!out || fclose(out) != 0) {
		rc = sgpu_fail_nomem(&error);
	}
	if (rc == SGPU_OK) {
		rc = cli_write_text(NULL, 0666, text, size, &error);
	}
	free(text);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}
