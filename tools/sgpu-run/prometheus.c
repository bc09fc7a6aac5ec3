/* SPDX-License-Identifier: Apache-2.0
 *
 * See prometheus.h. All samples of a metric come in a row, after its HELP and TYPE; times are in seconds.
 */
#include "prometheus.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "cli.h"

static void begin_metric(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value, in its quotes. */
static void put_quoted(FILE *out, const char *text)
{
	char *shown = cli_shown(text);

	fputc('"', out);
	for (const char *c = shown; c && *c; c++) {
		fprintf(out, *c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
	}
	fputc('"', out);
	free(shown);
}

static void put_user(FILE *out, const json_t *tenant)
{
	const json_int_t uid = json_integer_value(json_object_get(tenant, "uid"));
	const struct passwd *user = getpwuid((uid_t)uid);

	fprintf(out, "uid=\"%" JSON_INTEGER_FORMAT "\",user=", uid);
	put_quoted(out, user ? user->pw_name : "");
}

/* As a decimal fraction, without zeros at its end. */
static void put_seconds(FILE *out, json_int_t ns)
{
	char text[48];
	int size = snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT ".%09" JSON_INTEGER_FORMAT, ns / 1000000000,
			    ns % 1000000000);

	while (text[size - 1] == '0' && text[size - 2] != '.') {
		size--;
	}
	fprintf(out, "%.*s", size, text);
}

static json_int_t get(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* Of a member that is one of the tenant's limits. */
#define LIMIT "limits."

static const json_t *find_member(const json_t *tenant, const char *member)
{
	const size_t prefix = sizeof(LIMIT) - 1;

	if (strncmp(member, LIMIT, prefix) == 0) {
		return json_object_get(json_object_get(tenant, "limits"), member + prefix);
	}
	return json_object_get(tenant, member);
}

/* One metric with a sample a tenant, or several that differ in the label `label`. */
struct metric {
	const char *name, *type, *help, *label;
	struct { const char *member, *value; } samples[3];
	bool seconds;
};

static const struct metric metrics[] = {
	{ "sgpu_batches_total", "counter", "Batches that have ended: done, failed, or refused for a limit.", "result",
	  { { "done", "done" }, { "failed", "failed" }, { "refused", "refused" } }, false },
	{ "sgpu_bytes_total", "counter", "Bytes of payloads, as they travel.", "direction",
	  { { "bytes_in", "in" }, { "bytes_out", "out" } }, false },
	{ "sgpu_busy_seconds_total", "counter", "Time of turns, which the shares are counted in.", NULL,
	  { { "busy_ns", NULL } }, true },
	{ "sgpu_batches_waiting", "gauge", "Batches that wait for a turn.", NULL, { { "waiting", NULL } }, false },
	{ "sgpu_batches_in_flight", "gauge", "Batches that a worker has.", NULL, { { "in_flight", NULL } }, false },
	{ "sgpu_batches_stalled", "gauge", "Those of them that wait for their client.", NULL, { { "stalled", NULL } }, false },
	{ "sgpu_sessions", "gauge", "Sessions of programs.", NULL, { { "sessions", NULL } }, false },
	{ "sgpu_memory_bytes", "gauge", "Memory of the device and of the host that workers have.", "of",
	  { { "device_bytes", "device" }, { "host_bytes", "host" } }, false },
	{ "sgpu_memory_limit_bytes", "gauge", "The user's limits of it; without a limit there is no sample.", "of",
	  { { LIMIT "device_memory", "device" }, { LIMIT "host_memory", "host" } }, false },
	{ "sgpu_weight", "gauge", "The user's weight.", NULL, { { "weight", NULL } }, false },
};

static void put_metric(FILE *out, const struct metric *m, const json_t *tenants)
{
	const json_t *one;
	size_t i;

	begin_metric(out, m->name, m->type, m->help);
	json_array_foreach(tenants, i, one) {
		for (size_t k = 0; k < SGPU_ARRAY_LENGTH(m->samples) && m->samples[k].member; k++) {
			const json_t *value = find_member(one, m->samples[k].member);

			if (!json_is_integer(value)) {
				continue;
			}
			fprintf(out, "%s{", m->name);
			put_user(out, one);
			if (m->label) {
				fprintf(out, ",%s=\"%s\"", m->label, m->samples[k].value);
			}
			fputs("} ", out);
			if (m->seconds) {
				put_seconds(out, json_integer_value(value));
			} else {
				fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
			}
			fputc('\n', out);
		}
	}
}

static void put_latency(FILE *out, const json_t *tenants)
{
	static const char name[] = "sgpu_batch_duration_seconds";
	const json_t *one, *bucket;
	size_t i, k;

	begin_metric(out, name, "histogram", "Time from a batch's connection to its answer.");
	json_array_foreach(tenants, i, one) {
		const json_t *latency = json_object_get(one, "latency");

		json_array_foreach(json_object_get(latency, "buckets"), k, bucket) {
			const json_t *bound = json_object_get(bucket, "le_ns");

			fprintf(out, "%s_bucket{", name);
			put_user(out, one);
			fputs(",le=\"", out);
			if (json_is_integer(bound)) {
				put_seconds(out, json_integer_value(bound));
			} else {
				fputs("+Inf", out);
			}
			fprintf(out, "\"} %" JSON_INTEGER_FORMAT "\n", get(bucket, "count"));
		}
		fprintf(out, "%s_sum{", name);
		put_user(out, one);
		fputs("} ", out);
		put_seconds(out, get(latency, "sum_ns"));
		fprintf(out, "\n%s_count{", name);
		put_user(out, one);
		fprintf(out, "} %" JSON_INTEGER_FORMAT "\n", get(latency, "count"));
	}
}

static void put_server(FILE *out, const json_t *status)
{
	static const char *const states[] = { "starting", "spare", "serving", "draining" };
	const char *version = json_string_value(json_object_get(status, "version"));
	const json_t *one;
	size_t i;

	begin_metric(out, "sgpu_build_info", "gauge", "The server's version.");
	fputs("sgpu_build_info{version=", out);
	put_quoted(out, version ? version : "");
	fputs("} 1\n", out);
	begin_metric(out, "sgpu_uptime_seconds", "gauge", "Time since the server was started.");
	fputs("sgpu_uptime_seconds ", out);
	put_seconds(out, get(status, "uptime_ns"));
	fputc('\n', out);
	begin_metric(out, "sgpu_turns", "gauge", "How many batches may run at once.");
	fprintf(out, "sgpu_turns %" JSON_INTEGER_FORMAT "\n", get(status, "running"));
	begin_metric(out, "sgpu_workers", "gauge", "Worker processes by state.");
	for (size_t k = 0; k < SGPU_ARRAY_LENGTH(states); k++) {
		unsigned count = 0;

		json_array_foreach(json_object_get(status, "workers"), i, one) {
			const char *state = json_string_value(json_object_get(one, "state"));

			count += state && strcmp(state, states[k]) == 0;
		}
		fprintf(out, "sgpu_workers{state=\"%s\"} %u\n", states[k], count);
	}
}

/* Over all workers. */
static void put_leases(FILE *out, const json_t *workers)
{
	static const struct {
		const char *name, *help, *member;
	} gauges[] = {
		{ "sgpu_leases", "Leases that there are.", "leases" },
		{ "sgpu_leased_bytes", "Bytes of the pools that leases have.", "leased_bytes" },
		{ "sgpu_lease_pool_bytes", "Bytes of the pools of leases.", "pool_bytes" },
	};
	const json_t *one;
	size_t i;

	for (size_t k = 0; k < SGPU_ARRAY_LENGTH(gauges); k++) {
		json_int_t sum = 0;

		json_array_foreach(workers, i, one) {
			sum += get(one, gauges[k].member);
		}
		begin_metric(out, gauges[k].name, "gauge", gauges[k].help);
		fprintf(out, "%s %" JSON_INTEGER_FORMAT "\n", gauges[k].name, sum);
	}
}

int prometheus_print(const json_t *status)
{
	const json_t *tenants = json_object_get(status, "tenants");
	struct sgpu_error error = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int rc;

	if (!out) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	put_server(out, status);
	put_leases(out, json_object_get(status, "workers"));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(metrics); i++) {
		put_metric(out, &metrics[i], tenants);
	}
	put_latency(out, tenants);
	rc = ferror(out) ? sgpu_fail_nomem(&error) : SGPU_OK;
	if (fclose(out) != 0 && rc == SGPU_OK) {
		rc = sgpu_fail_nomem(&error);
	}
	if (rc == SGPU_OK) {
		rc = cli_write_text(NULL, 0666, text, size, &error);
	}
	free(text);
	return rc == SGPU_OK ? 0 : cli_error(&error);
}
