/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "base/base.h"
#include "base/io.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

enum { DESCRIPTORS_MAX = 1 << 20, OPTIONS_ROOM = 24 };
/* RUNNER_CONTROL_FD as an argument; the descriptor of a worker's program. */
static char control_argument[] = "3";
enum { PROGRAM_FD = RUNNER_CONTROL_FD + 1 };
/* The call's number, the same on all architectures; headers may lack it. */
enum { CLOSE_RANGE = 436 };

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
	{ "manifest", 0, "FILE", "the manifest of a batch that names it by its hash",
	  CLI_INPUT(struct run_request, manifest) },
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
	{ "serve", 0, "FD", "what sgpu-serve and sgpu-worker start it with",
	  CLI_NUMBER(struct run_request, serve, STDERR_FILENO + 1, DESCRIPTORS_MAX) },
	CLI_END,
};

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
	add(*words, "--serve", control_argument);
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

const char *runner_path(char path[RUNNER_PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX);

	path[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(path, '/');
	snprintf(slash ? slash + 1 : path, sizeof("sgpu-enclave"), "sgpu-enclave");
	return path;
}

int runner_find(int *fd, struct sgpu_error *error)
{
	char path[RUNNER_PATH_MAX];

	*fd = open(runner_path(path), O_PATH | O_CLOEXEC);
	return *fd >= 0 ? SGPU_OK
			: sgpu_fail(error, SGPU_EUNAVAILABLE,
				    "there is no '%s', which has to be beside this program", path);
}

int runner_execute(int fd, char **argv, struct sgpu_error *error)
{
	signal(SIGUSR1, SIG_IGN); /* until the program catches it */
	(void)syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	return sgpu_fail_errno(error, "cannot execute 'sgpu-enclave'");
}

/* In the child: becomes the worker, or returns on failure. Descriptors that the worker does not get
 * are closed here or by exec. */
static void become_worker(int program, int control, char **arguments, struct sgpu_error *error)
{
	const int ends[] = { fcntl(control, F_DUPFD, 10), fcntl(program, F_DUPFD, 10),
			     open("/dev/null", O_RDONLY) };
	sigset_t none;

	if (ends[0] < 0 || ends[1] < 0 || ends[2] < 0 || dup2(ends[0], RUNNER_CONTROL_FD) < 0 ||
	    dup3(ends[1], PROGRAM_FD, O_CLOEXEC) < 0 || dup2(ends[2], STDIN_FILENO) < 0) {
		sgpu_fail_errno(error, "cannot start a worker");
		return;
	}
	/* descriptors that this process inherited */
	(void)syscall(CLOSE_RANGE, PROGRAM_FD + 1, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void)runner_execute(PROGRAM_FD, arguments, error);
}

int runner_spawn(int program, char **arguments, const struct wire_begin *begin, pid_t *pid,
		 int *control, const struct serve_counters **counters, struct sgpu_error *error)
{
	int ends[2] = { -1, -1 }, file = -1, rc;
	struct wire_begin message = *begin;
	void *memory = MAP_FAILED;

	/* The file's size is sealed, so that the worker cannot shrink it beneath our mapping. */
	rc = sgpu_memory_file_create("sgpu counters", sizeof(struct serve_counters), true, false,
				     &file, error);
	if (rc == SGPU_OK) {
		memory = mmap(NULL, sizeof(struct serve_counters), PROT_READ, MAP_SHARED, file, 0);
		rc = memory != MAP_FAILED
			     ? SGPU_OK
			     : sgpu_fail_errno(error, "cannot map memory for counters");
	}
	if (rc == SGPU_OK &&
	    (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ||
	     !sgpu_wire_send(ends[0], WIRE_BEGIN, &message, sizeof(message), &file, 1))) {
		rc = sgpu_fail_errno(error, "cannot make a socket");
	}
	*pid = rc == SGPU_OK ? fork() : -1;
	if (*pid == 0) {
		(void)setpgid(
			0, 0); /* a group of its own, for setpriority() and a terminal's signals */
		become_worker(program, ends[1], arguments, error);
		_exit(cli_error(error));
	}
	if (rc == SGPU_OK && *pid < 0) {
		rc = sgpu_fail_errno(error, "cannot start a process");
	}
	sgpu_close(ends[1]);
	sgpu_close(file);
	if (rc == SGPU_OK) {
		*control = ends[0];
		*counters = memory;
		return SGPU_OK;
	}
	*pid = 0;
	sgpu_close(ends[0]);
	if (memory != MAP_FAILED) {
		munmap(memory, sizeof(struct serve_counters));
	}
	return rc;
}

/* ---- names of devices ---- */
static size_t kind_length(const char *name)
{
	return strcspn(name, ":");
}

static int check_names(char names[][RUNNER_DEVICE_NAME], int count, struct sgpu_error *error)
{
	const char *first = names[0];

	for (int i = 1; i < count; i++) {
		const char *name = names[i];

		if (kind_length(name) != kind_length(first) ||
		    strncmp(name, first, kind_length(first)) != 0 || strcmp(name, "auto") == 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "--device: '%s' and '%s' are not of one kind", first,
					 name);
		}
		for (int k = 0; k < i; k++) {
			/* The CPU device can be opened several times: for tests. */
			if (strcmp(names[k], name) == 0 && strcmp(name, "cpu") != 0) {
				return sgpu_fail(error, SGPU_EUSAGE,
						 "--device: '%s' is named twice", name);
			}
		}
	}
	return SGPU_OK;
}

int runner_devices(const char *text, char names[RUNNER_DEVICES_MAX][RUNNER_DEVICE_NAME], int *count,
		   struct sgpu_error *error)
{
	const char *from = text ? text : "auto";

	*count = 0;
	if (strcmp(from, "cuda:all") == 0) {
		return SGPU_OK;
	}
	for (;; from++) {
		const size_t length = strcspn(from, ",");
		/* A name without a kind has the first one's, such as the "1" of "cuda:0,1". */
		const bool is_number =
			*count > 0 && strncmp(names[0], "cuda:", 5) == 0 &&
			(strncmp(from, "GPU-", 4) == 0 || (*from >= '0' && *from <= '9'));

		if (*count == RUNNER_DEVICES_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: more than %d devices",
					 RUNNER_DEVICES_MAX);
		}
		if (length == 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "--device: '%s' names no device at one place", text);
		}
		if (snprintf(names[(*count)++], RUNNER_DEVICE_NAME, "%s%.*s",
			     is_number ? "cuda:" : "", (int)length, from) >= RUNNER_DEVICE_NAME) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: a name in '%s' is too long",
					 text);
		}
		from += length;
		if (!*from) {
			return check_names(names, *count, error);
		}
	}
}
