/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

enum { DESCRIPTORS_MAX = 1 << 20, OPTIONS_ROOM = 24 };

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
	  CLI_INPUT(struct run_request, attestation_key) },
	{ "certificate", 0, "FILE", "certificate chain of that key, up to the authority",
	  CLI_INPUT(struct run_request, certificate) },
	{ "owner", 0, "KEY", "the owner's X25519 public key, to be bound into the quote",
	  CLI_INPUT(struct run_request, owner) },
	{ "plan", 0, NULL, "show the plan and run nothing; needs no key",
	  CLI_FLAG(struct run_request, plan) },
	{ "output", 'o', "FILE", "write the response there, not to standard output",
	  CLI_TEXT(struct run_request, output) },
	{ "socket", 0, "PATH", "let the server there run the batch (default: see SGPU_SOCKET)",
	  CLI_TEXT(struct run_request, socket) },
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
	{ "ops", 0, NULL, "list the operations, or the one that is named, and their devices",
	  CLI_FLAG(struct run_request, ops) },
	{ "serve", 0, "FD", "what sgpu-serve starts its workers with",
	  CLI_NUMBER(struct run_request, serve, STDERR_FILENO + 1, DESCRIPTORS_MAX) },
	CLI_END,
};

const char *run_local_option(const struct run_request *r)
{
	const struct {
		const char *name;
		bool given;
	} options[] = { { "--key", r->runner.keys.count > 0 },
			{ "--device", r->runner.device != NULL },
			{ "--jobs", r->runner.jobs > 0 },
			{ "--owners", r->runner.owners.count > 0 },
			{ "--state", r->runner.state != NULL },
			{ "--replay-window", r->runner.window_ns > 0 },
			{ "--files", r->runner.files.count > 0 },
			{ "--allow-modules", r->runner.allow_modules },
			{ "--quote", r->quote != NULL },
			{ "--nonce", r->nonce.size > 0 },
			{ "--attestation-key", r->attestation_key != NULL },
			{ "--certificate", r->certificate != NULL },
			{ "--owner", r->owner != NULL },
			{ "--trace", r->trace != NULL },
			{ "--plan", r->plan },
			{ "--local", r->local },
			{ "--session", r->session },
			{ "--memory", r->memory > 0 },
			{ "--info", r->info },
			{ "--ops", r->ops },
			{ "--serve", r->serve > 0 } };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(options); i++) {
		if (options[i].given) {
			return options[i].name;
		}
	}
	return NULL;
}

/* Adds "--name" and a value unless that is NULL. */
static void add(char **words, const char *name, const char *value)
{
	size_t count = 0;

	while (words[count]) {
		count++;
	}
	words[count] = (char *)(uintptr_t)name;
	words[count + 1] = (char *)(uintptr_t)value;
}

static void add_all(char **words, const char *name, const struct cli_list *values)
{
	for (int i = 0; i < values->count; i++) {
		add(words, name, values->items[i]);
	}
}

int runner_arguments(const struct runner_options *o, const char *const *more, char ***words,
		     struct sgpu_error *error)
{
	static char jobs[24], window[32];
	size_t count = 0;

	while (more[count]) {
		count++;
	}
	count += 2 * (size_t)(o->keys.count + o->owners.count + o->files.count);
	*words = calloc(count + OPTIONS_ROOM, sizeof(**words));
	if (!*words) {
		return sgpu_fail_nomem(error);
	}
	snprintf(jobs, sizeof(jobs), "%u", o->jobs);
	snprintf(window, sizeof(window), "%.6fms", (double)o->window_ns / 1e6);
	add(*words, "sgpu-enclave", NULL);
	add_all(*words, "--key", &o->keys);
	add_all(*words, "--owners", &o->owners);
	add_all(*words, "--files", &o->files);
	const struct {
		const char *name, *value;
		bool given;
	} rows[] = { { "--device", o->device, o->device != NULL },
		     { "--state", o->state, o->state != NULL },
		     { "--jobs", jobs, o->jobs > 0 },
		     { "--replay-window", window, o->window_ns > 0 },
		     { "--allow-modules", NULL, o->allow_modules },
		     { "--quiet", NULL, cli_quiet },
		     { "--verbose", NULL, cli_verbose },
		     { "--json", NULL, cli_json } };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(rows); i++) {
		if (rows[i].given) {
			add(*words, rows[i].name, rows[i].value);
		}
	}
	for (; *more; more++) {
		add(*words, *more, NULL);
	}
	return SGPU_OK;
}

int enclave_find(int *fd, struct sgpu_error *error)
{
	static const char *const places[] = { "sgpu-enclave", "../libexec/sgpu/sgpu-enclave" };
	char own[PATH_MAX], path[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	own[length > 0 ? length : 0] = '\0';
	slash = strrchr(own, '/');
	for (size_t i = 0; slash && i < SGPU_ARRAY_LENGTH(places); i++) {
		if (snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - own), own, places[i]) <
		    (int)sizeof(path)) {
			*fd = open(path, O_PATH | O_CLOEXEC);
			if (*fd >= 0) {
				return SGPU_OK;
			}
		}
	}
	*fd = -1;
	sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no 'sgpu-enclave' beside '%s'", own);
	return sgpu_hint(error, "install it there, or in ../libexec/sgpu");
}

int enclave_execute(int fd, char **argv, struct sgpu_error *error)
{
	signal(SIGUSR1, SIG_IGN); /* until the program catches it */
	(void)syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	return sgpu_fail_errno(error, "cannot execute 'sgpu-enclave'");
}
