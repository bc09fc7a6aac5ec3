/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run status: what the server tells of itself.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <sgpu/base.h>
#include <sgpu/json.h>

#include "ask.h"
#include "prometheus.h"
#include "verbs.h"

enum { PATIENCE_S = 10, CELL_MAX = 32 };

struct question {
	const char *socket;
	bool prometheus;
};

const struct cli_option status_options[] = {
	CLI_COMMON,
	{ "socket", 0, "PATH", "of the server (default: see SGPU_SOCKET)", CLI_TEXT(struct question, socket) },
	{ "prometheus", 0, NULL, "in the text format of Prometheus", CLI_FLAG(struct question, prometheus) },
	CLI_END,
};

/* The server's words are parsed strictly. */
static int ask_status(const char *socket, json_t **status, struct sgpu_error *error)
{
	struct wire_plain question;
	const struct ask ask = { .kind = WIRE_STATUS, .message = &question, .size = sizeof(question),
				 .expected = WIRE_STATUS_IS, .most = WIRE_TEXT_MAX, .patience_s = PATIENCE_S };
	char *text = NULL;
	size_t size = 0;
	int rc = ask_server(socket, &ask, &text, &size, error);

	if (rc == SGPU_OK) {
		rc = sgpu_json_parse(text, size, status, NULL, NULL, error);
	}
	free(text);
	return rc;
}

static const char *number_text(const json_t *object, const char *name, char text[CELL_MAX])
{
	const json_t *value = json_object_get(object, name);

	text[0] = '\0';
	if (json_is_integer(value)) {
		snprintf(text, CELL_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	}
	return text;
}

static int print_workers(const json_t *status)
{
	struct cli_table table = { .cells = NULL };
	char cells[6][CELL_MAX], pool[2 * CELL_MAX];
	const json_t *one;
	size_t i;

	cli_row(&table, "WORKER", "STATE", "USER", "IN FLIGHT", "DONE", "FAILED", "LEASES", "OF MIB");
	json_array_foreach(json_object_get(status, "workers"), i, one) {
		snprintf(pool, sizeof(pool), "%lld/%lld", json_integer_value(json_object_get(one, "leased_bytes")) >> 20,
			 json_integer_value(json_object_get(one, "pool_bytes")) >> 20);
		cli_row(&table, number_text(one, "pid", cells[0]), json_string_value(json_object_get(one, "state")),
			number_text(one, "uid", cells[1]), number_text(one, "in_flight", cells[2]),
			number_text(one, "done", cells[3]), number_text(one, "failed", cells[4]),
			number_text(one, "leases", cells[5]), pool);
	}
	return cli_table_print(&table);
}

/* "12/64" of a limit of 64, or "12". */
static const char *memory_text(const json_t *tenant, const char *used, const char *limit, char text[2 * CELL_MAX])
{
	const json_t *most = json_object_get(json_object_get(tenant, "limits"), limit);
	const json_int_t bytes = json_integer_value(json_object_get(tenant, used));

	if (json_is_integer(most)) {
		snprintf(text, 2 * CELL_MAX, "%lld/%lld", bytes >> 20, json_integer_value(most) >> 20);
	} else {
		snprintf(text, 2 * CELL_MAX, "%lld", bytes >> 20);
	}
	return text;
}

static int print_tenants(const json_t *status)
{
	struct cli_table table = { .cells = NULL };
	char cells[8][CELL_MAX], busy[CELL_MAX], memory[2][2 * CELL_MAX];
	const json_t *one;
	size_t i;

	cli_row(&table, "USER", "WAITING", "IN FLIGHT", "DONE", "FAILED", "REFUSED", "BUSY S", "WEIGHT", "PRIORITY",
		"DEVICE MIB", "HOST MIB", "SESSIONS");
	json_array_foreach(json_object_get(status, "tenants"), i, one) {
		snprintf(busy, sizeof(busy), "%.1f", (double)json_integer_value(json_object_get(one, "busy_ns")) / 1e9);
		cli_row(&table, number_text(one, "uid", cells[0]), number_text(one, "waiting", cells[1]),
			number_text(one, "in_flight", cells[2]), number_text(one, "done", cells[3]),
			number_text(one, "failed", cells[4]), number_text(one, "refused", cells[5]), busy,
			number_text(one, "weight", cells[6]), json_string_value(json_object_get(one, "priority")),
			memory_text(one, "device_bytes", "device_memory", memory[0]),
			memory_text(one, "host_bytes", "host_memory", memory[1]), number_text(one, "sessions", cells[7]));
	}
	return cli_table_print(&table);
}

static int print_status(const json_t *status)
{
	const json_t *version = json_object_get(status, "version");
	char pid[CELL_MAX];
	int exit_status;

	cli_print_line(stdout, "server %s, version %s, up %.0f s", number_text(status, "pid", pid),
		       json_is_string(version) ? json_string_value(version) : "unknown",
		       (double)json_integer_value(json_object_get(status, "uptime_ns")) / 1e9);
	printf("\n");
	exit_status = print_workers(status);
	printf("\n");
	return exit_status ? exit_status : print_tenants(status);
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
	exit_status = question.prometheus ? prometheus_print(json_object_get(status, "status")) :
		      print_status(json_object_get(status, "status"));
	json_decref(status);
	return exit_status;
}
