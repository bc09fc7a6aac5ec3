/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's status for Prometheus, in its text format 0.0.4. All samples of a metric come in a
 * row, after its HELP and TYPE; times are in seconds.
 */
#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "verbs.h"

/* For each of the fields a sample of the server (of ""), of the sum over its workers, or of each
 * tenant. A field is a path, with the value of the label behind a colon unless both are the same.
 * Of a text, how often it is that value is counted. */
static const struct metric {
	const char *name, *help, *type, *of, *label, *fields;
} metrics[] = {
	{ "uptime_seconds", "Time since the server was started.", "gauge", "", NULL, "uptime_ns" },
	{ "turns", "How many batches may run at once.", "gauge", "", NULL, "running" },
	{ "workers", "Worker processes by state.", "gauge", "workers", "state",
	  "state:starting state:spare state:serving state:draining" },
	{ "leases", "Leases that there are.", "gauge", "workers", NULL, "leases" },
	{ "leased_bytes", "Bytes that leases have.", "gauge", "workers", NULL, "leased_bytes" },
	{ "lease_pool_bytes", "Bytes of the pools.", "gauge", "workers", NULL, "pool_bytes" },
	{ "batches_total", "Batches that have ended.", "counter", "tenants", "result",
	  "done some_failed refused replayed over_quota cancelled failed" },
	{ "bytes_total", "Bytes of payloads, as they travel.", "counter", "tenants", "direction",
	  "bytes_in:in bytes_out:out" },
	{ "busy_seconds_total", "Time of turns.", "counter", "tenants", NULL, "busy_ns" },
	{ "batches_waiting", "Batches that wait for a turn.", "gauge", "tenants", NULL, "waiting" },
	{ "batches_in_flight", "Batches of workers.", "gauge", "tenants", NULL, "in_flight" },
	{ "sessions", "Sessions of programs.", "gauge", "tenants", NULL, "sessions" },
	{ "memory_bytes", "Memory that workers have.", "gauge", "tenants", "of",
	  "device_bytes:device host_bytes:host" },
	{ "memory_limit_bytes", "The limit of it, if any.", "gauge", "tenants", "of",
	  "limits.device_memory:device limits.host_memory:host" },
	{ "weight", "The user's weight.", "gauge", "tenants", NULL, "weight" },
	{ "batch_duration_seconds", "Time from a batch's connection to its answer.", "histogram",
	  "tenants", "le", "latency.buckets" },
	{ "batch_duration_seconds_sum", NULL, NULL, "tenants", NULL, "latency.sum_ns" },
	{ "batch_duration_seconds_count", NULL, NULL, "tenants", NULL, "latency.count" },
};

static void put_label(char before, const char *name, const char *value)
{
	printf("%c%s=\"", before, name);
	for (; value && *value; value++) { /* what a server says is foreign: no escape, no cursor */
		putchar(*value < ' ' || *value > '~' || strchr("\"\\", *value) ? '?' : *value);
	}
	putchar('"');
}

static void put(const struct metric *m, const json_t *tenant, const char *value, json_int_t number)
{
	char uid[24];

	printf("sgpu_%s%s", m->name, strcmp(m->fields, "latency.buckets") ? "" : "_bucket");
	if (tenant) {
		snprintf(uid, sizeof(uid), "%lld",
			 json_integer_value(json_object_get(tenant, "uid")));
		put_label('{', "uid", uid);
		put_label(',', "user", json_string_value(json_object_get(tenant, "user")));
	}
	if (m->label) {
		put_label(tenant ? ',' : '{', m->label, value);
	}
	printf("%s %.15g\n", tenant || m->label ? "}" : "",
	       (double)number / (strstr(m->fields, "_ns") ? 1e9 : 1));
}

static void put_buckets(const struct metric *m, const json_t *tenant, const json_t *buckets)
{
	const json_t *one;
	char bound[32];
	size_t i;

	json_array_foreach (buckets, i, one) {
		const json_t *most = json_object_get(one, "le_ns");

		snprintf(bound, sizeof(bound), "%.15g", (double)json_integer_value(most) / 1e9);
		put(m, tenant, json_is_integer(most) ? bound : "+Inf",
		    json_integer_value(json_object_get(one, "count")));
	}
}

static void put_field(const struct metric *m, const json_t *status, const char *path,
		      const char *value)
{
	const json_t *one, *found = status_find(status, path);
	uint64_t sum = 0;
	size_t i;

	json_array_foreach (json_object_get(status, m->of), i, one) {
		found = status_find(one, path);
		sum += json_is_string(found) ? !strcmp(json_string_value(found), value)
					     : (uint64_t)json_integer_value(found);
		if (*m->of == 't' && json_is_array(found)) {
			put_buckets(m, one, found);
		} else if (*m->of == 't' && json_is_integer(found)) {
			put(m, one, value, json_integer_value(found));
		}
	}
	if (*m->of != 't') {
		put(m, NULL, value, *m->of ? (json_int_t)sum : json_integer_value(found));
	}
}

int prometheus_print(const json_t *status)
{
	const struct metric version = { .name = "build_info", .label = "version", .fields = "" };

	printf("# HELP sgpu_build_info The server's version.\n# TYPE sgpu_build_info gauge\n");
	put(&version, NULL, json_string_value(json_object_get(status, "version")), 1);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(metrics); i++) {
		const struct metric *m = &metrics[i];
		char fields[128], *rest = fields, *path, *value;

		if (m->help) {
			printf("# HELP sgpu_%s %s\n# TYPE sgpu_%s %s\n", m->name, m->help, m->name,
			       m->type);
		}
		snprintf(fields, sizeof(fields), "%s", m->fields);
		while ((value = strsep(&rest, " "))) {
			path = strsep(&value, ":");
			put_field(m, status, path, value ? value : path);
		}
	}
	return 0;
}
