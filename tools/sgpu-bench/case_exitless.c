/* SPDX-License-Identifier: Apache-2.0
 *
 * exitless: what an exit from an enclave costs a program that makes many system calls, and what a
 * queue to a thread outside saves, after SGXIO. Ways are measured in turns: the queue, direct
 * calls, and exits of the paper's cycles and of this machine's own.
 *
 * The parameter server is that of the example. Alone, it serves requests that are in its sockets
 * already, so that only it runs, and with the queue the thread outside. Then clients send over the
 * loopback interface, as fast as they get answers and at rates that are swept.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/rpc.h>

#include "../../examples/parameter-server/parameters.h"
#include "cases.h"

enum {
	WAYS = 4,
	/* Samples are short: where other programs run, too, some of them meet none. */
	EMPTY_CALLS = 100,
	CONNECTIONS = 8,
	/* What waits in a socket: also little enough for the system's buffers, with the answers. */
	WAITING_REQUESTS = 32,
	WAITING_BYTES = 16 << 10,
};

/* One of the ways, with a server of its own. */
struct way {
	const char *name;
	struct sgpu_rpc_config config;
	struct sgpu_rpc *rpc;
	struct parameters_model *model;
	int servers[CONNECTIONS], clients[CONNECTIONS];
	size_t connected;
	double sum;                 /* of the weights, as it must be */
	struct parameters_load load; /* of a sample */
	struct sgpu_bench *bench;
	pthread_t thread;           /* serves clients, when `serves` */
	bool serves;
	int code;
	struct sgpu_error error;
};

struct state {
	struct sgpu_bench *bench;
	struct way ways[WAYS];
	int count;
	unsigned processors;
	bool guest;
};

/* ---- empty calls ---- */

static int run_empty(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct way *way = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < EMPTY_CALLS; i++) {
		rc = sgpu_rpc_empty(way->rpc, error);
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
		const size_t size = parameters_make_request(request, way->load.items, &way->load.seed, &way->sum);

		if (send(way->clients[i % CONNECTIONS], request, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
			return sgpu_fail_errno(error, "cannot put a request into a socket");
		}
	}
	return SGPU_OK;
}

static int run_alone(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct way *way = argument;
	const struct parameters_service service = { .rpc = way->rpc, .model = way->model, .sockets = way->servers,
						    .count = CONNECTIONS, .read_max = request_size(way->load.items),
						    .requests_max = way->load.requests };
	uint64_t served;

	(void)ns;
	return parameters_serve(&service, &served, error);
}

/* All answers have come, and every change is in the model. */
static int verify_alone(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	double weights[PARAMETERS_ITEMS_MAX];
	const ssize_t size = (ssize_t)(way->load.items * sizeof(double));

	for (uint64_t i = 0; i < way->load.requests; i++) {
		if (recv(way->clients[i % CONNECTIONS], weights, (size_t)size, MSG_WAITALL) != size) {
			return sgpu_fail(error, SGPU_EDIFFERS, "an answer is missing");
		}
	}
	return parameters_sum(way->model) == way->sum ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "the model lacks changes");
}

/* ---- the server and clients ---- */

static void *serve(void *argument)
{
	struct way *way = argument;
	const struct parameters_service service = { .rpc = way->rpc, .model = way->model, .sockets = way->servers,
						    .count = CONNECTIONS };
	uint64_t served;

	way->code = parameters_serve(&service, &served, &way->error);
	/* Clients that wait learn of an error. */
	for (int i = 0; i < CONNECTIONS; i++) {
		(void)shutdown(way->servers[i], SHUT_RDWR);
	}
	return NULL;
}

static int start_server(struct way *way, struct sgpu_error *error)
{
	const int failed = pthread_create(&way->thread, NULL, serve, way);

	way->serves = !failed;
	return failed ? sgpu_fail(error, SGPU_ESYSTEM, "cannot start a server: %s", strerror(failed)) : SGPU_OK;
}

static int run_clients(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct way *way = argument;
	struct parameters_result result;
	int rc;

	way->load.seed++;
	rc = parameters_send_load(way->clients, CONNECTIONS, &way->load, &result, error);
	*ns = result.ns;
	way->sum += result.changes;
	sgpu_bench_give_latency(way->bench, (struct sgpu_bench_latency){ (double)result.p50_ns,
									 (double)result.p99_ns });
	return rc;
}

static int verify_clients(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	double sum;
	int rc = parameters_ask_sum(way->clients[0], &sum, error);

	return rc < 0 || sum == way->sum ? rc : sgpu_fail(error, SGPU_EDIFFERS, "the model lacks changes");
}

/* ---- points ---- */

/* The variants that this machine can have, and why it cannot have the others. */
static int measure(struct state *s, const struct sgpu_bench_point *point, struct sgpu_bench_variant model,
		   struct parameters_load load, struct sgpu_error *error)
{
	struct sgpu_bench_variant variants[WAYS];

	if (s->processors == 1) {
		sgpu_bench_waive(s->bench, point, "queue", "one processor: the thread outside would run in place of its "
				 "caller, not beside it");
	}
	if (!s->guest) {
		sgpu_bench_waive(s->bench, point, "exit, this VM's", "the processor says that this is no virtual machine");
	}
	for (int i = 0; i < s->count; i++) {
		struct way *way = &s->ways[i];

		way->load = load;
		variants[i] = model;
		variants[i].name = way->name;
		variants[i].argument = way;
		if (way->config.way == SGPU_RPC_EXIT && s->processors > 1 &&
		    way->config.exit_cycles == SGPU_RPC_EXIT_CYCLES && model.run != run_empty) {
			variants[i].reference_ratio = 3.7;
			variants[i].reference = "SGXIO, figure 1: up to";
		}
	}
	return sgpu_bench_measure(s->bench, point, variants, s->count, error);
}

static int measure_empty(struct state *s, struct sgpu_error *error)
{
	const struct sgpu_bench_point point = { .parameters = { { "what", "empty call", 0 },
								{ "exit_cycles", NULL, SGPU_RPC_EXIT_CYCLES },
								{ "processors", NULL, s->processors } },
						.operations = EMPTY_CALLS };

	return measure(s, &point, (struct sgpu_bench_variant){ .run = run_empty }, (struct parameters_load){ 0 }, error);
}

static int measure_alone(struct state *s, unsigned items, struct sgpu_error *error)
{
	uint64_t waiting = WAITING_BYTES / request_size(items);
	const struct sgpu_bench_variant model = { .prepare = prepare_alone, .run = run_alone, .verify = verify_alone };

	waiting = CONNECTIONS * (waiting < WAITING_REQUESTS ? waiting : WAITING_REQUESTS);
	const struct sgpu_bench_point point = { .parameters = { { "what", "server alone", 0 },
								{ "items", NULL, items },
								{ "exit_cycles", NULL, SGPU_RPC_EXIT_CYCLES },
								{ "processors", NULL, s->processors } },
						.operations = waiting };
	return measure(s, &point, model, (struct parameters_load){ .items = items, .requests = waiting }, error);
}

/* rate: requests a second, or 0: each connection sends when it has its answer. Threads of clients
 * take processors that servers do not need, if there are any. */
static int measure_clients(struct state *s, uint64_t rate, uint64_t requests, struct sgpu_error *error)
{
	const unsigned spare = s->processors > 3 ? s->processors - 2 : 1;
	const struct parameters_load load = { .threads = spare < 4 ? spare : 4, .items = 1, .requests = requests,
					      .rate = (double)rate, .seed = requests + rate };
	const struct sgpu_bench_variant model = { .run = run_clients, .verify = verify_clients };
	struct sgpu_bench_point point = { .parameters = { { "what", "clients", 0 },
							  { "items", NULL, 1 },
							  { "client_threads", NULL, load.threads },
							  { "exit_cycles", NULL, SGPU_RPC_EXIT_CYCLES },
							  { "processors", NULL, s->processors } },
					  .operations = requests };

	if (rate) {
		point.parameters[5] = (struct sgpu_bench_parameter){ "requests_per_second", NULL, rate };
	}
	return measure(s, &point, model, load, error);
}

/* ---- the case ---- */

static int open_way(struct way *way, struct sgpu_error *error)
{
	int listener = -1, rc = sgpu_rpc_open(&way->config, &way->rpc, error);
	uint16_t port;

	way->model = parameters_model_create();
	if (rc == SGPU_OK && !way->model) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		return rc;
	}
	rc = parameters_listen(&port, &listener, error);
	while (rc == SGPU_OK && way->connected < CONNECTIONS) {
		rc = parameters_connect(port, &way->clients[way->connected], error);
		if (rc < 0) {
			break;
		}
		rc = parameters_accept(listener, &way->servers[way->connected], error);
		if (rc < 0) {
			close(way->clients[way->connected]);
			break;
		}
		way->connected++;
	}
	if (listener >= 0) {
		close(listener);
	}
	return rc == SGPU_ESYSTEM ? SGPU_EUNAVAILABLE : rc;
}

/* A way's sockets, also those that are not there yet, its server and what that needs. */
static void end_way(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct way *way = (struct way *)what;

	(void)bench, (void)size;
	for (size_t i = 0; i < way->connected; i++) {
		close(way->clients[i]);
	}
	if (way->serves) {
		pthread_join(way->thread, NULL);
	}
	for (size_t i = 0; i < way->connected; i++) {
		close(way->servers[i]);
	}
	sgpu_rpc_close(&way->rpc);
	free(way->model);
}

/* The first variant is what the others are compared with. */
static int open_ways(struct sgpu_bench *bench, struct state *s, struct sgpu_error *error)
{
	struct sgpu_rpc_costs costs;
	int rc = sgpu_rpc_measure(&costs, error);

	if (rc < 0) {
		return rc;
	}
	s->bench = bench;
	s->processors = sgpu_cpu_count();
	s->guest = costs.guest_exit_cycles != 0;
	if (s->processors > 1) {
		s->ways[s->count++] = (struct way){ .name = "queue", .config.way = SGPU_RPC_QUEUE };
	}
	s->ways[s->count++] = (struct way){ .name = "direct", .config.way = SGPU_RPC_DIRECT };
	s->ways[s->count++] = (struct way){ .name = "exit, the paper's", .config.way = SGPU_RPC_EXIT,
					    .config.exit_cycles = SGPU_RPC_EXIT_CYCLES };
	if (s->guest) {
		s->ways[s->count++] = (struct way){ .name = "exit, this VM's", .config.way = SGPU_RPC_EXIT,
						    .config.exit_cycles = costs.guest_exit_cycles };
	}
	for (int i = 0; rc == SGPU_OK && i < s->count; i++) {
		s->ways[i].bench = bench;
		rc = sgpu_bench_keep(bench, end_way, (uintptr_t)&s->ways[i], 0, error);
		rc = rc ? rc : open_way(&s->ways[i], error);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static const uint64_t rates[] = { 1000, 3000, 10000, 30000, 100000 };
	const bool quick = bench->options.quick;
	void *state = NULL;
	int rc = sgpu_bench_new(bench, sizeof(struct state), &state, error);
	struct state *s = state;

	rc = rc ? rc : open_ways(bench, s, error);
	rc = rc ? rc : measure_empty(s, error);
	rc = rc ? rc : measure_alone(s, 1, error);
	rc = rc || quick ? rc : measure_alone(s, 64, error);
	for (int i = 0; rc == SGPU_OK && i < s->count; i++) {
		rc = start_server(&s->ways[i], error);
	}
	for (size_t i = 0; rc == SGPU_OK && i < (quick ? 1 : SGPU_ARRAY_LENGTH(rates)); i++) {
		rc = measure_clients(s, rates[i], rates[i] / 20, error);
	}
	rc = rc ? rc : measure_clients(s, 0, quick ? 500 : 4000, error);
	for (int i = 0; s && i < s->count; i++) {
		if (rc < 0 && rc != SGPU_ECANCELED && s->ways[i].serves && s->ways[i].code < 0) {
			*error = s->ways[i].error; /* why its clients have failed */
		}
	}
	return rc;
}

const struct sgpu_bench_case case_exitless = {
	.name = "exitless",
	.help = "system calls of an enclave: through a queue, directly, through exits",
	.unit = SGPU_BENCH_OPERATIONS_PER_SECOND,
	.run = run,
};
