/* SPDX-License-Identifier: Apache-2.0
 *
 * Load for a parameter server on this machine. usage: parameter-client PORT CONNECTIONS REQUESTS
 * ITEMS RATE RATE, in requests a second, 0: as many as are answered. Prints the rate that was
 * reached, the median and the 99th percentile of the times, and whether the model has all changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "parameters.h"

static int send_load(uint16_t port, size_t count, const struct parameters_load *load,
		     struct sgpu_error *error)
{
	int sockets[PARAMETERS_CONNECTIONS_MAX], rc = SGPU_OK;
	struct parameters_result result;
	double before = 0, after = 0;
	size_t connected = 0;

	while (rc == SGPU_OK && connected < count) {
		rc = parameters_connect(port, &sockets[connected], error);
		connected += rc == SGPU_OK;
	}
	if (rc == SGPU_OK) {
		rc = parameters_ask_sum(sockets[0], &before, error);
	}
	if (rc == SGPU_OK) {
		rc = parameters_send_load(sockets, count, load, &result, error);
	}
	if (rc == SGPU_OK) {
		rc = parameters_ask_sum(sockets[0], &after, error);
	}
	if (rc == SGPU_OK && after != before + result.changes) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "the weights sum up to %.0f, not to %.0f",
			       after, before + result.changes);
	}
	if (rc == SGPU_OK) {
		printf("%.0f requests/s, p50 %.1f us, p99 %.1f us, sum %.0f is right\n",
		       (double)load->requests * 1e9 / (double)result.ns,
		       (double)result.p50_ns / 1000, (double)result.p99_ns / 1000, after);
	}
	while (connected) {
		close(sockets[--connected]);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct parameters_load load = { .threads = 1, .seed = 1 };
	struct sgpu_error error = { .text = "" };
	long port, count;
	int rc;

	if (argc != 6) {
		fprintf(stderr, "usage: parameter-client PORT CONNECTIONS REQUESTS ITEMS RATE\n");
		return 2;
	}
	port = strtol(argv[1], NULL, 10);
	count = strtol(argv[2], NULL, 10);
	load.requests = strtoull(argv[3], NULL, 10);
	load.items = (unsigned)strtoul(argv[4], NULL, 10);
	load.rate = strtod(argv[5], NULL);
	rc = port < 1 || port > UINT16_MAX || count < 1 || count > PARAMETERS_CONNECTIONS_MAX
		     ? sgpu_fail(&error, SGPU_EUSAGE, "port %ld, %ld connections", port, count)
		     : send_load((uint16_t)port, (size_t)count, &load, &error);
	if (rc < 0) {
		fprintf(stderr, "parameter-client: %s\n", error.text);
	}
	return sgpu_exit_status(rc);
}
