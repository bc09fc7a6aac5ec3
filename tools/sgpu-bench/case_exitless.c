/* SPDX-License-Identifier: Apache-2.0
 *
 * exitless: what an exit from an enclave costs a program that makes many system calls, and what a
 * queue to a thread outside saves, after SGXIO. The ways are measured alternately: the queue,
 * direct calls, and exits that take the paper's cycles or this machine's own.
 *
 * The parameter server is that of the example. Alone, it serves requests that are already in its
 * sockets, so that nothing else runs but, with the queue, the thread outside. Then clients send
 * over the loopback interface, as fast as they get answers.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/ring.h>

#include "base/io.h"
#include "../../examples/parameter-server/parameters.h"
#include "cases.h"
#include "setup.h"

enum {
	WAYS = 4,
	/* Samples are short, so that some are undisturbed even while other programs run. */
	EMPTY_CALLS = 100,
	CONNECTIONS = 8,
	/* The most that waits in a socket. With the answers, this fits the system's buffers. */
	WAITING_REQUESTS = 32,
	WAITING_BYTES = 16 << 10,
};

/* One of the ways, with a server of its own. */
struct way {
	const char *name, *lacks; /* lacks: why this machine cannot have it, or NULL */
	enum sgpu_rpc_way by;
	uint64_t exit_cycles;
	struct sgpu_rpc *rpc;
	struct parameters_model *model;
	int servers[CONNECTIONS], clients[CONNECTIONS]; /* descriptors, or -1 */
	double sum;					/* of the weights, as expected */
	struct parameters_load load;			/* of a sample */
	struct sgpu_bench *bench;
	pthread_t thread; /* serves clients, when `serves` */
	bool serves;
	int code;
	struct sgpu_error error;
};

/* ---- empty calls ---- */
static int run_empty(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	struct sgpu_rpc_io empty = { 0 };
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < way->load.requests; i++) {
		rc = sgpu_rpc_call_all(way->rpc, SGPU_RPC_EMPTY, &empty, 1, error);
	}
	return rc;
}

/* ---- the server alone ---- */
static size_t request_size(unsigned items)
{
	return sizeof(uint64_t) + items * sizeof(struct parameters_item);
}

static int prepare_alone(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	unsigned char request[PARAMETERS_REQUEST_MAX];

	for (uint64_t i = 0; i < way->load.requests; i++) {
		const size_t size = parameters_make_request(request, way->load.items,
							    &way->load.seed, &way->sum);

		if (send(way->clients[i % CONNECTIONS], request, size,
			 MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
			return sgpu_fail_errno(error, "cannot put a request into a socket");
		}
	}
	return SGPU_OK;
}

/* read_max, requests_max: 0 for no limit. */
static int serve(struct way *way, size_t read_max, uint64_t requests_max, struct sgpu_error *error)
{
	const struct parameters_service service = { .rpc = way->rpc,
						    .model = way->model,
						    .sockets = way->servers,
						    .count = CONNECTIONS,
						    .read_max = read_max,
						    .requests_max = requests_max };
	uint64_t served;

	return parameters_serve(&service, &served, error);
}

static int run_alone(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;

	return serve(way, request_size(way->load.items), way->load.requests, error);
}

static int check_sum(const struct way *way, double sum, struct sgpu_error *error)
{
	return sum == way->sum ? SGPU_OK
			       : sgpu_fail(error, SGPU_EDIFFERS, "the model lacks changes");
}

/* Checks that all answers have come, and that the model has every change. */
static int verify_alone(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	double weights[PARAMETERS_ITEMS_MAX];
	const ssize_t size = (ssize_t)(way->load.items * sizeof(double));

	for (uint64_t i = 0; i < way->load.requests; i++) {
		if (recv(way->clients[i % CONNECTIONS], weights, (size_t)size, MSG_WAITALL) !=
		    size) {
			return sgpu_fail(error, SGPU_EDIFFERS, "an answer is missing");
		}
	}
	return check_sum(way, parameters_sum(way->model), error);
}

/* ---- the server and clients ---- */
static void *run_server(void *argument)
{
	struct way *way = argument;

	way->code = serve(way, 0, 0, &way->error);
	/* Shows waiting clients that the server has ended. */
	for (int i = 0; i < CONNECTIONS; i++) {
		(void)shutdown(way->servers[i], SHUT_RDWR);
	}
	return NULL;
}

static int run_clients(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	struct parameters_result result;
	int rc;

	way->load.seed++;
	rc = parameters_send_load(way->clients, CONNECTIONS, &way->load, &result, error);
	sgpu_bench_give_ns(way->bench, result.ns);
	way->sum += result.changes;
	return rc;
}

static int verify_clients(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	double sum;
	int rc = parameters_ask_sum(way->clients[0], &sum, error);

	return rc ? rc : check_sum(way, sum, error);
}

/* ---- points ---- */
static int measure(struct way ways[WAYS], const char *what, struct sgpu_bench_variant work,
		   struct parameters_load load, struct sgpu_error *error)
{
	/* Only quantities that the load has are parameters of the point. */
	const struct sgpu_bench_point point = {
		.parameters = { { "what", what, 0 },
				{ load.items ? "items" : NULL, NULL, load.items },
				{ load.threads ? "client_threads" : NULL, NULL, load.threads },
				{ "exit_cycles", NULL, SGPU_RPC_EXIT_CYCLES },
				{ "processors", NULL, sgpu_cpu_count() } },
		.operations = load.requests,
	};
	struct sgpu_bench_variant variants[WAYS];
	int count = 0;

	for (struct way *way = ways; way < ways + WAYS; way++) {
		if (way->lacks) {
			sgpu_bench_waive(way->bench, &point, way->name, "%s", way->lacks);
			continue;
		}
		way->load = load;
		variants[count] = work;
		variants[count].name = way->name;
		variants[count].argument = way;
		count++;
	}
	return sgpu_bench_measure(ways[0].bench, &point, variants, count, error);
}

static int measure_alone(struct way ways[WAYS], unsigned items, struct sgpu_error *error)
{
	const struct sgpu_bench_variant alone =
		BENCH_VARIANT(NULL, prepare_alone, run_alone, verify_alone, NULL);
	const uint64_t most = WAITING_BYTES / request_size(items);
	const struct parameters_load load = {
		.items = items,
		.requests = CONNECTIONS * (most < WAITING_REQUESTS ? most : WAITING_REQUESTS),
	};

	return measure(ways, "server alone", alone, load, error);
}

/* Clients have a thread for each spare processor, up to 4. */
static int measure_clients(struct way ways[WAYS], uint64_t requests, struct sgpu_error *error)
{
	const struct sgpu_bench_variant work = { .work = run_clients, .verify = verify_clients };
	const unsigned processors = sgpu_cpu_count(), spare = processors > 3 ? processors - 2 : 1;
	const struct parameters_load load = {
		.threads = spare < 4 ? spare : 4, .items = 1, .requests = requests, .seed = requests
	};

	return measure(ways, "clients", work, load, error);
}

/* ---- the case ---- */
static void close_sockets(const int sockets[CONNECTIONS])
{
	for (int i = 0; i < CONNECTIONS; i++) {
		sgpu_close(sockets[i]);
	}
}

/* A server ends when its clients have gone. */
static void end_way(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct way *way = (struct way *)what;

	(void)bench, (void)size;
	close_sockets(way->clients);
	if (way->serves) {
		pthread_join(way->thread, NULL);
	}
	close_sockets(way->servers);
	sgpu_rpc_close(&way->rpc);
	free(way->model);
}

static int open_way(struct way *way, struct sgpu_error *error)
{
	int listener = -1, rc;
	uint16_t port;

	for (int i = 0; i < CONNECTIONS; i++) {
		way->servers[i] = way->clients[i] = -1;
	}
	rc = sgpu_bench_keep(way->bench, end_way, (uintptr_t)way, 0, error);
	rc = rc ? rc : sgpu_rpc_open(way->by, way->exit_cycles, &way->rpc, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	way->model = parameters_model_create();
	rc = way->model ? parameters_listen(&port, &listener, error) : sgpu_fail_nomem(error);
	for (int i = 0; rc == SGPU_OK && i < CONNECTIONS; i++) {
		rc = parameters_connect(port, &way->clients[i], error);
		rc = rc ? rc : parameters_accept(listener, &way->servers[i], error);
	}
	sgpu_close(listener);
	return rc == SGPU_ESYSTEM ? SGPU_EUNAVAILABLE : rc;
}

/* Opens the ways that this machine has. Ratios are to the first of them. */
static int open_ways(struct sgpu_bench *bench, struct way ways[WAYS], struct sgpu_error *error)
{
	struct sgpu_bench_exit costs;
	int rc = SGPU_OK;

	if (!sgpu_bench_measure_exit(&costs)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "this processor has no time-stamp counter");
	}
	ways[0] = (struct way){ .name = "queue", .by = SGPU_RPC_QUEUE };
	ways[1] = (struct way){ .name = "direct", .by = SGPU_RPC_DIRECT };
	ways[2] = (struct way){ .name = "exit, the paper's",
				.by = SGPU_RPC_EXIT,
				.exit_cycles = SGPU_RPC_EXIT_CYCLES };
	ways[3] = (struct way){ .name = "exit, this VM's",
				.by = SGPU_RPC_EXIT,
				.exit_cycles = costs.guest_exit_cycles };
	if (sgpu_cpu_count() == 1) {
		ways[0].lacks = "one processor: the thread outside would run in place of its "
				"caller, not beside it";
	}
	if (costs.guest_exit_cycles == 0) {
		ways[3].lacks = "the processor says that this is no virtual machine";
	}
	for (int i = 0; rc == SGPU_OK && i < WAYS; i++) {
		ways[i].bench = bench;
		rc = ways[i].lacks ? SGPU_OK : open_way(&ways[i], error);
	}
	return rc;
}

int bench_exitless(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const bool quick = bench->options.quick;
	struct way *ways = sgpu_bench_new(bench, WAYS * sizeof(*ways), NULL, error);
	int rc = ways ? open_ways(bench, ways, error) : SGPU_ENOMEM;

	rc = rc ? rc
		: measure(ways, "empty call", (struct sgpu_bench_variant){ .work = run_empty },
			  (struct parameters_load){ .requests = EMPTY_CALLS }, error);
	rc = rc ? rc : measure_alone(ways, 1, error);
	rc = rc || quick ? rc : measure_alone(ways, 64, error);
	for (int i = 0; rc == SGPU_OK && i < WAYS; i++) {
		const int failed =
			ways[i].lacks ? 0
				      : pthread_create(&ways[i].thread, NULL, run_server, &ways[i]);

		ways[i].serves = !ways[i].lacks && !failed;
		rc = failed ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start a server: %s",
					strerror(failed))
			    : SGPU_OK;
	}
	rc = rc ? rc : measure_clients(ways, quick ? 500 : 4000, error);
	for (int i = 0; ways && i < WAYS; i++) {
		if (rc < 0 && rc != SGPU_ECANCELED && ways[i].serves && ways[i].code < 0) {
			*error = ways[i].error; /* why its clients have failed */
		}
	}
	return rc;
}
