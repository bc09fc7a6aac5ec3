/* SPDX-License-Identifier: Apache-2.0
 *
 * exitless: what an exit from an enclave costs a program that makes many system calls, and what a
 * queue to a thread outside saves, after SGXIO. The ways are measured alternately: the queue,
 * direct calls, and exits that take the paper's cycles or this machine's own.
 *
 * The parameter server is that of the example. It serves requests that are already in its sockets,
 * so that nothing else runs but, with the queue, the thread outside.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/ring.h>

#include "base/io.h"
#include "../../examples/parameter-server/parameters.h"
#include "cases.h"

enum {
	WAYS = 4,
	/* Short samples: some are undisturbed even while other programs run. */
	EMPTY_CALLS = 100,
	CONNECTIONS = 8,
	/* The most in a socket; with the answers, this fits the system's buffers. */
	WAITING_REQUESTS = 32,
	WAITING_BYTES = 16 << 10,
};

struct way {
	const char *name, *lacks; /* lacks: why this machine has none, or NULL */
	enum sgpu_rpc_way by;
	uint64_t exit_cycles;
	struct sgpu_rpc *rpc;
	struct parameters_model *model;
	int servers[CONNECTIONS], clients[CONNECTIONS]; /* descriptors, or -1 */
	double sum;					/* of the weights, as expected */
	struct sgpu_bench *bench;
	/* Of a sample; items: of a request. */
	unsigned items;
	uint64_t requests, seed;
};

static int run_empty(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	struct sgpu_rpc_io empty = { 0 };
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < way->requests; i++) {
		rc = sgpu_rpc_call_all(way->rpc, SGPU_RPC_EMPTY, &empty, 1, error);
	}
	return rc;
}

static size_t request_size(unsigned items)
{
	return sizeof(uint64_t) + items * sizeof(struct parameters_item);
}

static int prepare_requests(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	unsigned char request[PARAMETERS_REQUEST_MAX];

	for (uint64_t i = 0; i < way->requests; i++) {
		const size_t size =
			parameters_make_request(request, way->items, &way->seed, &way->sum);

		if (send(way->clients[i % CONNECTIONS], request, size,
			 MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
			return sgpu_fail_errno(error, "cannot put a request into a socket");
		}
	}
	return SGPU_OK;
}

static int run_server(void *argument, struct sgpu_error *error)
{
	struct way *way = argument;
	const struct parameters_service service = { .rpc = way->rpc,
						    .model = way->model,
						    .sockets = way->servers,
						    .count = CONNECTIONS,
						    .read_max = request_size(way->items),
						    .requests_max = way->requests };
	uint64_t served;

	return parameters_serve(&service, &served, error);
}

static int verify_answers(void *argument, struct sgpu_error *error)
{
	const struct way *way = argument;
	double weights[PARAMETERS_ITEMS_MAX];
	const ssize_t size = (ssize_t)(way->items * sizeof(double));

	for (uint64_t i = 0; i < way->requests; i++) {
		if (recv(way->clients[i % CONNECTIONS], weights, (size_t)size, MSG_WAITALL) !=
		    size) {
			return sgpu_fail(error, SGPU_EDIFFERS, "an answer is missing");
		}
	}
	return parameters_sum(way->model) == way->sum
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EDIFFERS, "the model lacks changes");
}

/* items: of a request; 0: empty calls. */
static int measure(struct way ways[WAYS], unsigned items, struct sgpu_error *error)
{
	const uint64_t most = items ? WAITING_BYTES / request_size(items) : 0;
	const uint64_t requests =
		items ? CONNECTIONS * (most < WAITING_REQUESTS ? most : WAITING_REQUESTS)
		      : EMPTY_CALLS;
	const struct sgpu_bench_point point = {
		.parameters = { { "what", items ? "server alone" : "empty call", 0 },
				{ items ? "items" : NULL, NULL, items },
				{ "exit_cycles", NULL, SGPU_RPC_EXIT_CYCLES },
				{ "processors", NULL, sgpu_cpu_count() } },
		.operations = requests,
	};
	struct sgpu_bench_variant variants[WAYS];
	int count = 0;

	for (struct way *way = ways; way < ways + WAYS; way++) {
		if (way->lacks) {
			sgpu_bench_waive(way->bench, &point, way->name, "%s", way->lacks);
			continue;
		}
		way->items = items;
		way->requests = requests;
		variants[count++] =
			(struct sgpu_bench_variant){ way->name, items ? prepare_requests : NULL,
						     items ? run_server : run_empty,
						     items ? verify_answers : NULL, way };
	}
	return sgpu_bench_measure(ways[0].bench, &point, variants, count, error);
}

static void end_way(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct way *way = (struct way *)what;

	(void)bench, (void)size;
	for (int i = 0; i < CONNECTIONS; i++) {
		sgpu_close(way->clients[i]);
		sgpu_close(way->servers[i]);
	}
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

/* Opens this machine's ways. Ratios are to the first. */
static int open_ways(struct sgpu_bench *bench, struct way ways[WAYS], struct sgpu_error *error)
{
	const struct sgpu_bench_exit costs = sgpu_bench_measure_exit();
	int rc = SGPU_OK;

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
	struct way *ways = sgpu_bench_new(bench, WAYS * sizeof(*ways), NULL, error);
	int rc = ways ? open_ways(bench, ways, error) : SGPU_ENOMEM;

	rc = rc ? rc : measure(ways, 0, error);
	rc = rc ? rc : measure(ways, 1, error);
	return rc || bench->options.quick ? rc : measure(ways, 64, error);
}
