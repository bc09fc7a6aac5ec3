/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting the worker of the case session, another sgpu-bench with the verb `open`.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "channel/group.h"

#include "cases.h"
#include "sizes.h"

enum { HELD = 3 };

/* The child process, and this process's descriptors to talk to it; -1: none. */
struct worker {
	pid_t pid;
	int held[HELD];
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
	close_all(worker->held, HELD);
	if (worker->pid > 0) {
		(void)waitpid(worker->pid, NULL, 0);
	}
}

/* Starts `sgpu-bench open` with an option or NULL. Takes over `held`. */
static int start(struct sgpu_bench *bench, const char *option, const int *given, int count,
		 const int held[HELD], struct sgpu_error *error)
{
	const char *const words[] = { "sgpu-bench",	    "open", "--device",
				      bench->info.selector, option, NULL };
	const struct program program = {
		.words = words, .path = "/proc/self/exe", .given = given, .count = count
	};
	struct worker *worker = sgpu_bench_new(bench, sizeof(*worker), end_worker, error);

	if (!worker) {
		close_all(held, HELD);
		return SGPU_ENOMEM;
	}
	memcpy(worker->held, held, sizeof(worker->held));
	return program_start(&program, &worker->pid, error);
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
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) != 0) {
		return sgpu_fail_errno(error, "cannot make a pipe");
	}
	*from = ends[0];
	rc = start(bench, secure ? "--secure" : NULL, (const int[]){ STDIN_FILENO, ends[1] }, 2,
		   (const int[HELD]){ ends[0], -1, -1 }, error);
	sgpu_close(ends[1]);
	return rc;
}

int bench_start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring,
		     struct sgpu_error *error)
{
	int held[HELD] = { -1, -1, -1 }, bells[2], rc;

	rc = sgpu_link_create(&held[0], &held[1], error);
	if (rc == SGPU_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a pair of sockets");
	}
	if (rc != SGPU_OK) {
		close_all(held, HELD);
		return rc;
	}
	held[2] = bells[0];
	*ring = (struct sgpu_remote_ring){ .memory = held[0], .area = held[1], .bell = held[2] };
	rc = start(bench, "--serve",
		   (const int[]){ bells[1], STDOUT_FILENO, STDERR_FILENO, held[0], held[1] }, 5,
		   held, error);
	sgpu_close(bells[1]);
	return rc;
}
