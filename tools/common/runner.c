/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <stdio.h>
#include <string.h>

#include <sgpu/attest.h>

enum { DESCRIPTORS_MAX = 1 << 20 };

/* A handle goes to `results`. */
static int take_output(void *request, const char *value)
{
	struct run_request *r = request;
	const bool is_handle = strncmp(value, "sgpu:", 5) == 0;

	r->results = is_handle ? value : NULL;
	r->output = is_handle ? NULL : value;
	return 0;
}

const struct cli_option run_options[] = {
	CLI_COMMON,
	RUNNER_OPTIONS(struct run_request, runner),
	{ "timeout", 0, "DURATION", "fail unfinished work after this time: 90, 500ms, 5m",
	  CLI_DURATION(struct run_request, timeout_ns, 0) },
	{ "trace", 0, "FILE", "write a trace that Perfetto and Chrome open",
	  CLI_TEXT(struct run_request, trace) },
	{ "stats", 0, NULL, "times and bytes by stage, on standard error",
	  CLI_FLAG(struct run_request, stats) },
	{ "quote", 0, "FILE",
	  "first write evidence of this run or session there, with a key of its own",
	  CLI_TEXT(struct run_request, quote) },
	{ "nonce", 0, "HEX", "what the verifier sent for the quote: 8 to 64 bytes",
	  CLI_BYTES(struct run_request, nonce, SGPU_NONCE_MIN, SGPU_NONCE_MAX) },
	{ "attestation-key", 0, "KEY", "the key that signs the quote",
	  CLI_INPUT(struct run_request, runner.attestation_key) },
	{ "certificate", 0, "FILE", "certificate chain of that key, up to the authority",
	  CLI_INPUT(struct run_request, runner.certificate) },
	{ "owner", 0, "KEY", "the owner's X25519 public key, to be bound into the quote",
	  CLI_INPUT(struct run_request, owner) },
	{ "manifest", 0, "FILE", "the manifest of a batch that names it by its hash",
	  CLI_INPUT(struct run_request, manifest) },
	{ "output", 'o', "FILE",
	  "write the response there, not to standard output; or its payloads to a handle",
	  CLI_TAKE(take_output) },
	{ "socket", 0, "PATH", "let the server there run the batch (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct run_request, socket) },
	{ "wait", 0, "DURATION", "how long to try again if the server is not there, or busy",
	  CLI_DURATION(struct run_request, wait_ns, 0) },
	{ "lease", 0, NULL, "leave results in memory of the server, for 'sgpu-seal open'",
	  CLI_FLAG(struct run_request, lease) },
	{ "local", 0, NULL, "run the batch without a server, even where there is one",
	  CLI_FLAG(struct run_request, local) },
	{ "session", 0, NULL, "serve a session of a program, on standard input and output",
	  CLI_FLAG(struct run_request, session) },
	{ "memory", 0, "SIZE",
	  "device memory that the session may have (default: all that is free)",
	  CLI_SIZE(struct run_request, memory, 1, UINT64_MAX) },
	{ "info", 0, NULL, "show devices, what is missing, and what this platform protects",
	  CLI_FLAG(struct run_request, info) },
	{ "serve", 0, "FD", "what sgpu-serve and sgpu-worker start it with",
	  CLI_NUMBER(struct run_request, serve, STDERR_FILENO + 1, DESCRIPTORS_MAX) },
	CLI_END,
};

int runner_devices(const char *text, char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME], int *count,
		   struct sgpu_error *error)
{
	const char *from = text ? text : "auto", *const first = from;
	const size_t kind = strcspn(from, ":,");

	*count = 0;
	if (strcmp(from, "cuda:all") == 0) {
		return SGPU_OK;
	}
	for (;; from++) {
		const size_t length = strcspn(from, ",");
		char *name = names[*count];
		/* All are of the first one's kind, such as the "1" of "cuda:0,1". */
		const bool whole = *count == 0 ||
				   (strcspn(from, ":,") == kind && strncmp(from, first, kind) == 0);

		if (*count == RUNNER_DEVICES_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: more than %d devices",
					 RUNNER_DEVICES_MAX);
		}
		if (length == 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "--device: '%s' names no device at one place", text);
		}
		if (snprintf(name, RUNNER_DEVICE_NAME, "%.*s%s%.*s", whole ? 0 : (int)kind, first,
			     whole ? "" : ":", (int)length, from) >= RUNNER_DEVICE_NAME) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: a name in '%s' is too long",
					 text);
		}
		/* The CPU device can be opened several times: for tests. */
		for (int k = 0; k < *count && strcmp(name, "cpu") != 0; k++) {
			if (strcmp(names[k], name) == 0) {
				return sgpu_fail(error, SGPU_EUSAGE,
						 "--device: '%s' is named twice", name);
			}
		}
		++*count;
		from += length;
		if (!*from) {
			return SGPU_OK;
		}
	}
}
