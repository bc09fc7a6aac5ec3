/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that ask a server for its status, for a quote, or to read its keys again.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/json.h"
#include "host/host.h"
#include "serve.h"

enum { PATIENCE_S = 10 };

struct question {
	const char *socket, *output;
	struct cli_bytes nonce;
	bool prometheus;
};

const struct cli_option reload_options[] = {
	{ "socket", 0, "PATH", "of the server (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct question, socket) },
	CLI_END,
};

const struct cli_option status_options[] = {
	{ CLI_ROWS(reload_options) },
	{ "prometheus", 0, NULL, "in the text format of Prometheus",
	  CLI_FLAG(struct question, prometheus) },
	CLI_END,
};

/* Status in Prometheus's text format 0.0.4: all samples of a metric follow its type; times are in
 * seconds. */

/* Each field gives a sample: of the server (`of` is ""), of the sum over its workers, of each
 * tenant, or of a tenant's "limits". A field is a member's name, and after a colon the label's
 * value, unless that is the same. If the member is text, the sample of workers counts those equal
 * to the label's value. */
static const struct metric {
	const char *name, *type, *of, *label, *fields;
} metrics[] = {
	{ "build_info", "gauge", "", "version", "version" },
	{ "uptime_seconds", "gauge", "", NULL, "uptime_ns" },
	{ "turns", "gauge", "", NULL, "running" },
	{ "workers", "gauge", "workers", "state",
	  "state:starting state:spare state:serving state:draining" },
	{ "leases", "gauge", "workers", NULL, "leases" },
	{ "leased_bytes", "gauge", "workers", NULL, "leased_bytes" },
	{ "lease_pool_bytes", "gauge", "workers", NULL, "pool_bytes" },
	{ "batches_total", "counter", "tenants", "result",
	  "done some_failed refused replayed over_quota cancelled failed" },
	{ "bytes_total", "counter", "tenants", "direction", "bytes_in:in bytes_out:out" },
	{ "busy_seconds_total", "counter", "tenants", NULL, "busy_ns" },
	{ "batches_waiting", "gauge", "tenants", NULL, "waiting" },
	{ "batches_in_flight", "gauge", "tenants", NULL, "in_flight" },
	{ "sessions", "gauge", "tenants", NULL, "sessions" },
	{ "memory_bytes", "gauge", "tenants", "of", "device_bytes:device host_bytes:host" },
	{ "memory_limit_bytes", "gauge", "tenants", "of", "device_memory:device host_memory:host" },
	{ "weight", "gauge", "tenants", NULL, "weight" },
	{ "latency_seconds_total", "counter", "tenants", NULL, "latency_ns" },
};

static void put_label(char before, const char *name, const char *value)
{
	printf("%c%s=\"", before, name);
	for (; value && *value; value++) { /* not trusted: no escapes */
		putchar(*value < ' ' || *value > '~' || strchr("\"\\", *value) ? '?' : *value);
	}
	putchar('"');
}

static void put(const struct metric *m, const json_t *tenant, const char *value, json_int_t number)
{
	char uid[24];

	printf("sgpu_%s", m->name);
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

static void put_field(const struct metric *m, const json_t *status, const char *name,
		      const char *value)
{
	const json_t *one, *found = json_object_get(status, name);
	uint64_t sum = 0;
	size_t i;

	if (!*m->of) {
		put(m, NULL, json_string_value(found),
		    json_is_string(found) ? 1 : json_integer_value(found));
	}
	json_array_foreach (json_object_get(status, m->of), i, one) {
		found = json_object_get(one, name);
		found = found ? found : json_object_get(json_object_get(one, "limits"), name);
		sum += json_is_string(found) ? !strcmp(json_string_value(found), value)
					     : (uint64_t)json_integer_value(found);
		if (*m->of == 't' && json_is_integer(found)) {
			put(m, one, value, json_integer_value(found));
		}
	}
	if (*m->of == 'w') {
		put(m, NULL, value, (json_int_t)sum);
	}
}

static void print_metrics(const json_t *status)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(metrics); i++) {
		const struct metric *m = &metrics[i];
		char fields[128], *rest = fields, *name, *value;

		printf("# TYPE sgpu_%s %s\n", m->name, m->type);
		snprintf(fields, sizeof(fields), "%s", m->fields);
		while ((value = strsep(&rest, " "))) {
			name = strsep(&value, ":");
			put_field(m, status, name, value ? value : name);
		}
	}
}

static int fetch_status(int argc, char **argv, struct question *question, json_t **status)
{
	struct sgpu_error error = { 0 };
	struct sgpu_greeting asked;
	char **none, *text = NULL;
	size_t size = 0;
	int rc = cli_read(argc, argv, question, &none);

	if (rc) {
		return rc;
	}
	if (question->prometheus && cli_json) {
		return cli_usage("--prometheus and --json are two formats");
	}
	rc = ask_server(question->socket, WIRE_STATUS, &asked, sizeof(asked), WIRE_STATUS_IS,
			PATIENCE_S, &text, &size, &error);
	rc = rc ? rc : sgpu_json_parse(text, size, NULL, status, &error);
	free(text);
	return rc ? cli_error(&error) : 0;
}

int verb_status(int argc, char **argv)
{
	static const char *const lists[][2] = {
		{ "workers", "pid state uid in_flight done failed leases leased_bytes pool_bytes" },
		{ "tenants", "uid waiting in_flight done failed some_failed refused replayed "
			     "over_quota cancelled user" },
		{ "tenants",
		  "uid busy_ns weight priority device_bytes host_bytes limits sessions" },
		{ NULL, NULL },
	};
	static struct question question;
	json_t *status = NULL;
	int exit_status = fetch_status(argc, argv, &question, &status);

	if (exit_status) {
		return exit_status;
	}
	if (cli_json) {
		return cli_print_json(status, stdout, JSON_COMPACT);
	}
	if (question.prometheus) {
		print_metrics(json_object_get(status, "status"));
	} else {
		cli_lists(stdout, json_object_get(status, "status"), lists);
	}
	json_decref(status);
	return exit_status;
}

/* The kernel lets only root and the server's user send it a signal. */
int verb_reload(int argc, char **argv)
{
	static struct question question;
	char path[32], name[32];
	json_t *status = NULL;
	const int exit_status = fetch_status(argc, argv, &question, &status);

	if (exit_status) {
		return exit_status;
	}
	const json_int_t pid =
		json_integer_value(json_object_get(json_object_get(status, "status"), "pid"));

	json_decref(status);
	/* A lying server must not have another process ended. */
	snprintf(path, sizeof(path), "/proc/%lld/comm", pid);
	if (!sgpu_peek_line(path, name, sizeof(name)) || strcmp(name, "sgpu-serve") != 0) {
		return cli_fail(SGPU_ESYSTEM, "the server names process %lld, which is no server",
				pid);
	}
	return kill((pid_t)pid, SIGHUP) == 0
		       ? 0
		       : cli_fail(SGPU_ESYSTEM,
				  "cannot tell server %lld to read its keys again: %s", pid,
				  strerror(errno));
}

/* A worker may have to be started, after those of others. */
enum { QUOTE_PATIENCE_S = 180 };

const struct cli_option quote_options[] = {
	{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",
	  CLI_BYTES(struct question, nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },
	{ "output", 'o', "FILE", "write the quote there, not to standard output",
	  CLI_TEXT(struct question, output) },
	{ CLI_ROWS(reload_options) },
	CLI_END,
};

static int fetch_quote(const struct question *v, struct sgpu_error *error)
{
	struct wire_quote message = { .nonce_size = (uint32_t)v->nonce.size };
	json_t *object = NULL;
	char *quote = NULL;
	size_t size = 0;
	int rc;

	memcpy(message.nonce, v->nonce.data, v->nonce.size);
	rc = ask_server(v->socket, WIRE_QUOTE, &message, sizeof(message), WIRE_QUOTE_IS,
			QUOTE_PATIENCE_S, &quote, &size, error);
	/* The owner judges the quote; only JSON is passed on. */
	rc = rc ? rc : sgpu_json_parse(quote, size, NULL, &object, error);
	rc = rc ? rc : cli_write_text(v->output, 0666, quote, size, error);
	json_decref(object);
	free(quote);
	return rc;
}

int verb_quote(int argc, char **argv)
{
	struct question v = { .socket = NULL };
	struct sgpu_error error = { 0 };
	char **none;
	int status = cli_read(argc, argv, &v, &none);

	if (status == 0 && v.nonce.size == 0) {
		status = cli_usage("the verifier's nonce is missing, with --nonce");
	}
	if (status == 0) {
		cli_signals(NULL);
		status = cli_output_prepare(v.output, 0666, false);
	}
	if (status == 0 && fetch_quote(&v, &error) != SGPU_OK) {
		status = cli_error(&error);
	}
	return cli_finish(status);
}
