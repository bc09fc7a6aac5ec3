/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter server whose loop is as in an enclave. usage: parameter-server WAY CONNECTIONS
 * [CYCLES] WAY is direct, exit or queue; CYCLES, of an exit, are 7110 by default. Prints its port,
 * waits for so many connections, serves them to their end, and says what it did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parameters.h"

static const char *const ways[] = { "direct", "exit", "queue" };

static int serve(enum sgpu_rpc_way way, uint64_t exit_cycles, size_t count,
		 struct sgpu_error *error)
{
	struct parameters_model *model = parameters_model_create();
	int sockets[PARAMETERS_CONNECTIONS_MAX], listener = -1, rc;
	struct sgpu_rpc *rpc = NULL;
	uint64_t requests = 0;
	size_t accepted = 0;
	uint16_t port;

	rc = model ? parameters_listen(&port, &listener, error) : SGPU_ENOMEM;
	if (rc == SGPU_OK) {
		printf("%u\n", port);
		fflush(stdout);
		rc = sgpu_rpc_open(way, exit_cycles, &rpc, error);
	}
	while (rc == SGPU_OK && accepted < count) {
		rc = parameters_accept(listener, &sockets[accepted], error);
		accepted += rc == SGPU_OK;
	}
	if (rc == SGPU_OK) {
		const struct parameters_service service = {
			.rpc = rpc, .model = model, .sockets = sockets, .count = count
		};

		rc = parameters_serve(&service, &requests, error);
	}
	if (rc == SGPU_OK) {
		printf("%llu requests, %.2f calls a request\n", (unsigned long long)requests,
		       requests ? (double)sgpu_rpc_count(rpc) / (double)requests : 0);
	}
	sgpu_rpc_close(&rpc);
	while (accepted) {
		close(sockets[--accepted]);
	}
	if (listener >= 0) {
		close(listener);
	}
	free(model);
	return rc;
}

int main(int argc, char **argv)
{
	uint64_t exit_cycles = SGPU_RPC_EXIT_CYCLES;
	struct sgpu_error error = { .text = "no memory" };
	const int count = argc > 2 ? atoi(argv[2]) : 0;
	unsigned way = 0;
	int rc;

	while (way < 3 && (argc < 2 || strcmp(argv[1], ways[way]) != 0)) {
		way++;
	}
	if (argc < 3 || argc > 4 || way == 3 || count < 1 || count > PARAMETERS_CONNECTIONS_MAX) {
		fprintf(stderr, "usage: parameter-server direct|exit|queue CONNECTIONS [CYCLES]\n");
		return 2;
	}
	exit_cycles = argc > 3 ? strtoull(argv[3], NULL, 10) : exit_cycles;
	rc = serve((enum sgpu_rpc_way)way, exit_cycles, (size_t)count, &error);
	if (rc < 0) {
		fprintf(stderr, "parameter-server: %s\n", error.text);
	}
	return sgpu_exit_status(rc);
}
