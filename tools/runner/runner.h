/* SPDX-License-Identifier: Apache-2.0
 *
 * Options about a runner.
 *
 * The files of this folder are what programs share that have batches run: these options, the start
 * of sgpu-enclave, messages between processes, reports.
 */
#ifndef SGPU_RUNNER_H
#define SGPU_RUNNER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli.h"

/* Options of every runner, which a server and a worker pass on. */
#define RUNNER_PASSED                                                                      \
	" key owners files device jobs state replay-window allow-modules attestation-key " \
	"certificate "
/* Returns the first option that was given and is not in `among`, names with a blank before and
 * after each; NULL: none. Skips common ones. */
const char *runner_given(const char *among);
/* Appends the given options that are in `among`, as words for another program. False: out of
 * memory. */
bool runner_pass_on(struct cli_list *list, const char *among);

struct runner_options {
	struct cli_list keys, files;
	const char *owners, *device, *state;
	const char *attestation_key, *certificate; /* for quotes; both or neither */
	unsigned jobs;				   /* 0: one a processor */
	uint64_t window_ns;			   /* 0: the default */
	bool allow_modules;
};

/* Their rows: the values of such a verb begin with a struct runner_options. */
extern const struct cli_option runner_rows[];

/* Values of batch_rows, for sgpu-run and sgpu-enclave. */
struct run_request {
	struct runner_options runner;
	uint64_t timeout_ns, wait_ns; /* 0: none */
	const char *trace, *output, *socket, *manifest;
	const char *results; /* a handle: where payloads of the response go; NULL: with it */
	const char *quote, *owner;
	struct cli_bytes nonce;
	uint64_t memory; /* bytes; 0: all that is free */
	unsigned serve;	 /* a descriptor; 0: none */
	bool stats, lease, local, session, info;
};
extern const struct cli_option batch_rows[];

/* Parses "cpu", "cuda:0,1", "cuda:0,cuda:1", "cpu,cpu" (NULL: "auto") into the names of devices of
 * one kind. *count is 0 for "cuda:all". Errors: SGPU_EUSAGE. */
enum { RUNNER_DEVICES_MAX = 16, RUNNER_DEVICE_NAME = 80 };
SGPU_MUST_CHECK int runner_devices(const char *text,
				   char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME], int *count,
				   struct sgpu_error *error);

/* Blocks signals, whose numbers end with 0, in this thread and those that it starts. Returns a
 * signalfd, or -1 with errno. */
int runner_signal_fd(const int *numbers);
/* Takes a signal from the descriptor, and returns its number; 0: none has come. */
int runner_take_signal(int fd);

/* Returns the path of a name beside the running program; "" if it is too long. */
const char *runner_beside(const char *name, char path[PATH_MAX]);

#endif
