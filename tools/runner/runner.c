/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <sgpu/attest.h>

#include "host/host.h"

enum { DESCRIPTORS_MAX = 1 << 20 };

static bool is_among(const char *option, const char *names)
{
	char name[64];

	snprintf(name, sizeof(name), " %s ", option);
	return strstr(names, name);
}

const char *runner_given(const char *among)
{
	for (int i = 0; i < cli_given.count; i += 2) {
		if (!is_among(cli_given.items[i], among)) {
			return cli_given.items[i];
		}
	}
	return NULL;
}

bool runner_pass_on(struct cli_list *list, const char *among)
{
	for (int i = 0; i < cli_given.count; i += 2) {
		const char *name = cli_given.items[i], *value = cli_given.items[i + 1];
		char *word;

		if (is_among(name, among) &&
		    (asprintf(&word, value ? "--%s=%s" : "--%s", name, value) < 0 ||
		     !cli_list_add(list, word))) {
			return false;
		}
	}
	return true;
}

/* A handle goes to `results`. */
static int take_output(void *request, const char *value)
{
	struct run_request *r = request;
	const bool is_handle = strncmp(value, "sgpu:", 5) == 0;

	r->results = is_handle ? value : NULL;
	r->output = is_handle ? NULL : value;
	return 0;
}

const struct cli_option runner_rows[] = {
	{ "key", 'k', "KEY", "a key that opens the batch; may be given several times",
	  CLI_LIST(struct runner_options, keys) },
	{ "device", 0, "DEVICE", "cpu, cuda, cuda:N, cuda:N,M or auto (the default)",
	  CLI_TEXT(struct runner_options, device) },
	{ "jobs", 'j', "N", "workers of the CPU device (default: one a processor)",
	  CLI_NUMBER(struct runner_options, jobs, 1, SGPU_POOL_JOBS_MAX) },
	{ "owners", 0, "FILE",
	  "take only batches that one of these keys signed: thumbprints, one a line",
	  CLI_INPUT(struct runner_options, owners) },
	{ "state", 0, "DIR", "record the batches there, so that none runs twice",
	  CLI_TEXT(struct runner_options, state) },
	{ "replay-window", 0, "DURATION", "how old a batch may be (default: 7d)",
	  CLI_DURATION(struct runner_options, window_ns, 0) },
	{ "files", 0, "DIR",
	  "let batches name payloads in files of this directory; may be repeated",
	  CLI_LIST(struct runner_options, files) },
	{ "allow-modules", 0, NULL, "run kernels that the batch brings along",
	  CLI_FLAG(struct runner_options, allow_modules) },
	CLI_END,
};

const struct cli_option batch_rows[] = {
	{ CLI_ROWS(runner_rows) },
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

int runner_signal_fd(const int *numbers)
{
	sigset_t set;

	sigemptyset(&set);
	for (; *numbers; numbers++) {
		sigaddset(&set, *numbers);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int runner_take_signal(int fd)
{
	struct signalfd_siginfo signal;

	return read(fd, &signal, sizeof(signal)) == (ssize_t)sizeof(signal) ? (int)signal.ssi_signo
									    : 0;
}

const char *runner_beside(const char *name, char path[PATH_MAX])
{
	char folder[PATH_MAX];

	if (!sgpu_host_folder(folder) ||
	    snprintf(path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX) {
		path[0] = '\0';
	}
	return path;
}

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
