/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the worker of the case session, another sgpu-bench with the verb `open`.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "secure/group.h"

#include "cases.h"

enum { GIVEN_MAX = 5 };

/* The child process, and this process's descriptors to talk to it; -1: none. */
struct worker {
	pid_t pid;
	int held[3];
};

static void close_all(const int *descriptors, int count)
{
	for (int i = 0; i < count; i++) {
		sgpu_close(descriptors[i]);
	}
}

/* The worker ends when these descriptors are closed. */
static void end_worker(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	const struct worker *worker = (const struct worker *)what;

	(void)bench, (void)size;
	close_all(worker->held, SGPU_ARRAY_LENGTH(worker->held));
	if (worker->pid > 0) {
		(void)waitpid(worker->pid, NULL, 0);
	}
}

static struct worker *new_worker(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct worker *worker = sgpu_bench_new(bench, sizeof(*worker), end_worker, error);

	if (worker) {
		*worker = (struct worker){ .held = { -1, -1, -1 } };
	}
	return worker;
}

/* given[i] becomes the child's i, by way of higher numbers, so that none overwrites another. */
static int spawn(const char *const *words, const int *given, int count, pid_t *child,
		 struct sgpu_error *error)
{
	posix_spawn_file_actions_t actions;
	int high[GIVEN_MAX], failed = posix_spawn_file_actions_init(&actions);

	for (int i = 0; i < count; i++) {
		high[i] = fcntl(given[i], F_DUPFD_CLOEXEC, count);
		failed = high[i] < 0 ? errno : failed;
		failed = failed ? failed : posix_spawn_file_actions_adddup2(&actions, high[i], i);
	}
	failed = failed ? failed
			: posix_spawn(child, "/proc/self/exe", &actions, NULL, (char *const *)words,
				      environ);
	*child = failed ? 0 : *child;
	close_all(high, count);
	posix_spawn_file_actions_destroy(&actions);
	return failed == 0 ? SGPU_OK
			   : sgpu_fail(error, SGPU_ESYSTEM, "cannot start another sgpu-bench: %s",
				       strerror(failed));
}

int bench_session_key(struct sgpu_key *key, struct sgpu_error *error)
{
	static const char text[] =
		"{\"crv\":\"X25519\",\"d\":\"mHEZPYEaOW6VVr6xM1f9Kp-INeNqHCKVU_Vlz02pg0k\","
		"\"kty\":\"OKP\",\"x\":\"UnrpKPNGbS15uXWrmzoIFGFo_XmVPqYB-YzWjZrkfS0\"}";

	return sgpu_key_parse(text, sizeof(text) - 1, "the worker's key", key, error);
}

int bench_start_open(struct sgpu_bench *bench, bool secure, int *from, struct sgpu_error *error)
{
	const char *const words[] = {
		"sgpu-bench", "open", "--device", bench->info.selector, secure ? "--secure" : NULL,
		NULL
	};
	struct worker *worker = new_worker(bench, error);
	int ends[2] = { -1, -1 }, rc = SGPU_OK;

	if (!worker) {
		return SGPU_ENOMEM;
	}
	if (pipe2(ends, O_CLOEXEC) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a pipe");
	}
	worker->held[0] = *from = ends[0];
	rc = rc ? rc : spawn(words, (const int[]){ STDIN_FILENO, ends[1] }, 2, &worker->pid, error);
	sgpu_close(ends[1]);
	return rc;
}

int bench_start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring,
		     struct sgpu_error *error)
{
	const char *const words[] = { "sgpu-bench",	    "open",    "--device",
				      bench->info.selector, "--serve", NULL };
	struct worker *worker = new_worker(bench, error);
	int bells[2] = { -1, -1 }, rc;

	if (!worker) {
		return SGPU_ENOMEM;
	}
	rc = sgpu_link_create(&worker->held[0], &worker->held[1], error);
	if (rc == SGPU_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a pair of sockets");
	}
	worker->held[2] = bells[0];
	*ring = (struct sgpu_remote_ring){ .memory = worker->held[0],
					   .area = worker->held[1],
					   .bell = bells[0] };
	rc = rc ? rc
		: spawn(words,
			(const int[]){ bells[1], STDOUT_FILENO, STDERR_FILENO, ring->memory,
				       ring->area },
			GIVEN_MAX, &worker->pid, error);
	sgpu_close(bells[1]);
	return rc;
}
