/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run status: what the server tells of itself.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

#include "wire.h"
#include "verbs.h"

enum { PATIENCE_S = 10, CELL_MAX = 48, COLUMNS_MAX = 16 };

struct question {
	const char *socket;
	bool prometheus;
};

const struct cli_option status_options[] = {
	CLI_COMMON,
	{ "socket", 0, "PATH", "of the server (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct question, socket) },
	{ "prometheus", 0, NULL, "in the text format of Prometheus",
	  CLI_FLAG(struct question, prometheus) },
	CLI_END,
};

/* The server's words are parsed strictly. */
static int ask_status(const char *socket, json_t **status, struct sgpu_error *error)
{
	struct wire_plain question;
	const struct ask ask = { .kind = WIRE_STATUS,
				 .message = &question,
				 .size = sizeof(question),
				 .expected = WIRE_STATUS_IS,
				 .most = WIRE_TEXT_MAX,
				 .patience_s = PATIENCE_S };
	char *text = NULL;
	size_t size = 0;
	int rc = ask_server(socket, &ask, &text, &size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_json_parse(text, size, status, NULL, NULL, error);
	}
	free(text);
	return rc;
}

const json_t *status_find(const json_t *object, const char *path)
{
	const char *dot = strchr(path, '.');
	char name[CELL_MAX];

	if (!dot) {
		return json_object_get(object, path);
	}
	snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
	return status_find(json_object_get(object, name), dot + 1);
}

/* A column of a table with a row for each object. A limit stands behind a slash. */
struct column {
	const char *title, *path, *limit;
	enum { PLAIN, SECONDS, MIB } unit;
};

static const struct column worker_columns[] = {
	{ "WORKER", "pid", NULL, PLAIN },
	{ "STATE", "state", NULL, PLAIN },
	{ "USER", "uid", NULL, PLAIN },
	{ "IN FLIGHT", "in_flight", NULL, PLAIN },
	{ "DONE", "done", NULL, PLAIN },
	{ "FAILED", "failed", NULL, PLAIN },
	{ "LEASES", "leases", NULL, PLAIN },
	{ "OF MIB", "leased_bytes", "pool_bytes", MIB },
	{ .title = NULL },
};
static const struct column tenant_columns[] = {
	{ "USER", "uid", NULL, PLAIN },
	{ "WAITING", "waiting", NULL, PLAIN },
	{ "IN FLIGHT", "in_flight", NULL, PLAIN },
	{ "DONE", "done", NULL, PLAIN },
	{ "FAILED", "failed", NULL, PLAIN },
	{ "PARTLY", "some_failed", NULL, PLAIN },
	{ "REFUSED", "refused", NULL, PLAIN },
	{ "REPLAYED", "replayed", NULL, PLAIN },
	{ "OVER QUOTA", "over_quota", NULL, PLAIN },
	{ "CANCELLED", "cancelled", NULL, PLAIN },
	{ "NAME", "user", NULL, PLAIN },
	{ .title = NULL },
};
static const struct column share_columns[] = {
	{ "USER", "uid", NULL, PLAIN },
	{ "BUSY S", "busy_ns", NULL, SECONDS },
	{ "WEIGHT", "weight", NULL, PLAIN },
	{ "PRIORITY", "priority", NULL, PLAIN },
	{ "DEVICE MIB", "device_bytes", "limits.device_memory", MIB },
	{ "HOST MIB", "host_bytes", "limits.host_memory", MIB },
	{ "SESSIONS", "sessions", NULL, PLAIN },
	{ .title = NULL },
};

static const char *cell_of(const json_t *row, const struct column *column, char text[CELL_MAX])
{
	const json_t *value = status_find(row, column->path),
		     *limit = column->limit ? status_find(row, column->limit) : NULL;
	const json_int_t number = json_integer_value(value);

	if (json_is_integer(limit)) {
		snprintf(text, CELL_MAX, "%lld/%lld", number >> 20,
			 json_integer_value(limit) >> 20);
	} else if (json_is_integer(value) && column->unit == SECONDS) {
		snprintf(text, CELL_MAX, "%.1f", (double)number / 1e9);
	} else if (json_is_integer(value)) {
		snprintf(text, CELL_MAX, "%lld", column->unit == MIB ? number >> 20 : number);
	} else {
		return json_string_value(value);
	}
	return text;
}

static int print_rows(const json_t *rows, const struct column *columns)
{
	struct cli_table table = { .cells = NULL };
	char texts[COLUMNS_MAX][CELL_MAX];
	const char *cells[COLUMNS_MAX];
	const json_t *row;
	size_t i, count;

	for (count = 0; columns[count].title; count++) {
		cells[count] = columns[count].title;
	}
	cli_table_row(&table, count, cells);
	json_array_foreach (rows, i, row) {
		for (size_t k = 0; k < count; k++) {
			cells[k] = cell_of(row, &columns[k], texts[k]);
		}
		cli_table_row(&table, count, cells);
	}
	printf("\n");
	return cli_table_print(&table);
}

static int print_status(const json_t *status)
{
	const char *version = json_string_value(json_object_get(status, "version"));
	const json_t *tenants = json_object_get(status, "tenants");
	int exit_status;

	cli_print_line(stdout, "server %lld, version %s, up %.0f s",
		       json_integer_value(json_object_get(status, "pid")),
		       version ? version : "unknown",
		       (double)json_integer_value(json_object_get(status, "uptime_ns")) / 1e9);
	exit_status = print_rows(json_object_get(status, "workers"), worker_columns);
	exit_status = exit_status ? exit_status : print_rows(tenants, tenant_columns);
	return exit_status ? exit_status : print_rows(tenants, share_columns);
}

int verb_status(int argc, char **argv)
{
	struct question question = { .socket = NULL };
	struct sgpu_error error = { 0 };
	json_t *status = NULL;
	char **none;
	int exit_status = cli_read(argc, argv, &question, &none);

	if (exit_status) {
		return exit_status;
	}
	if (question.prometheus && cli_json) {
		return cli_usage("--prometheus and --json are two formats");
	}
	if (ask_status(question.socket, &status, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	if (cli_json) {
		return cli_print_json(status, stdout, JSON_COMPACT);
	}
	exit_status = question.prometheus ? prometheus_print(json_object_get(status, "status"))
					  : print_status(json_object_get(status, "status"));
	json_decref(status);
	return exit_status;
}
