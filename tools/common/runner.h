/* SPDX-License-Identifier: Apache-2.0
 *
 * Options about a runner.
 */
#ifndef SGPU_RUNNER_H
#define SGPU_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pool.h"
#include "cli.h"

/* Options of every runner, which a server and a worker pass on. */
#define RUNNER_PASSED                                                                      \
	" key owners files device jobs state replay-window allow-modules attestation-key " \
	"certificate "
struct runner_options {
	struct cli_list keys, files;
	const char *owners, *device, *state;
	const char *attestation_key, *certificate; /* for quotes; both or neither */
	unsigned jobs;				   /* 0: one a processor */
	uint64_t window_ns;			   /* 0: the default */
	bool allow_modules;
};

/* Rows for the member `member` of a verb's values, a struct `type`. */
#define RUNNER_OPTIONS(type, member)                                                          \
	{ "key", 'k', "KEY", "a key that opens the batch; may be given several times",        \
	  CLI_LIST(type, member.keys) },                                                      \
		{ "device", 0, "DEVICE", "cpu, cuda, cuda:N, cuda:N,M or auto (the default)", \
		  CLI_TEXT(type, member.device) },                                            \
		{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",   \
		  CLI_NUMBER(type, member.jobs, 1, SGPU_POOL_JOBS_MAX) },                     \
		{ "owners", 0, "FILE",                                                        \
		  "take only batches that one of these keys signed: thumbprints, one a line", \
		  CLI_INPUT(type, member.owners) },                                           \
		{ "state", 0, "DIR", "record the batches there, so that none runs twice",     \
		  CLI_TEXT(type, member.state) },                                             \
		{ "replay-window", 0, "DURATION", "how old a batch may be (default: 7d)",     \
		  CLI_DURATION(type, member.window_ns, 0) },                                  \
		{ "files", 0, "DIR",                                                          \
		  "let batches name payloads in files of this directory; may be repeated",    \
		  CLI_LIST(type, member.files) },                                             \
	{                                                                                     \
		"allow-modules", 0, NULL, "run kernels that the batch brings along",          \
			CLI_FLAG(type, member.allow_modules)                                  \
	}

/* Values of `run_options`, for sgpu-run and sgpu-enclave. */
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
extern const struct cli_option run_options[];

/* Parses "cpu", "cuda:0,1", "cuda:0,cuda:1", "cpu,cpu" (NULL: "auto") into the names of devices of
 * one kind. *count is 0 for "cuda:all". Errors: SGPU_EUSAGE. */
enum { RUNNER_DEVICES_MAX = 16, RUNNER_DEVICE_NAME = 80 };
SGPU_MUST_CHECK int runner_devices(const char *text,
				   char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME], int *count,
				   struct sgpu_error *error);

#endif
