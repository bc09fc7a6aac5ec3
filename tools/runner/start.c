/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include "base/base.h"
#include "base/io.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

enum { PROGRAM_FD = RUNNER_CONTROL_FD + 1 }; /* of a worker's program */

int runner_arguments(int key, char ***words, struct sgpu_error *error)
{
	static struct cli_list all;
	const bool added = cli_list_add(&all, "sgpu-enclave") &&
			   cli_list_add(&all, "--serve=3") &&		    /* RUNNER_CONTROL_FD */
			   (key < 0 || cli_list_add(&all, "--key=fd:5")) && /* RUNNER_KEY_FD */
			   (!cli_quiet || cli_list_add(&all, "--quiet")) &&
			   (!cli_verbose || cli_list_add(&all, "--verbose")) &&
			   (!cli_json || cli_list_add(&all, "--json")) &&
			   runner_pass_on(&all, RUNNER_PASSED) && cli_list_add(&all, NULL);

	*words = (char **)(uintptr_t)all.items;
	return added ? SGPU_OK : sgpu_fail_nomem(error);
}

int runner_find(int *fd, struct sgpu_error *error)
{
	char path[PATH_MAX];

	*fd = open(runner_beside("sgpu-enclave", path), O_PATH | O_CLOEXEC);
	return *fd >= 0 ? SGPU_OK
			: sgpu_fail(error, SGPU_EUNAVAILABLE,
				    "there is no '%s', which has to be beside this program", path);
}

int runner_execute(int fd, char **argv, struct sgpu_error *error)
{
	signal(SIGUSR1, SIG_IGN); /* a scheduler may send it to all of a job */
	(void)execveat(fd, "", argv, environ, AT_EMPTY_PATH);
	return sgpu_fail_errno(error, "cannot execute 'sgpu-enclave'");
}

/* In the child: returns only on failure. Descriptors not for the worker close here or by exec. */
static void become_worker(int program, int control, int key, char **arguments,
			  struct sgpu_error *error)
{
	const int ends[] = { fcntl(control, F_DUPFD, 10), fcntl(program, F_DUPFD, 10),
			     open("/dev/null", O_RDONLY), key < 0 ? 0 : fcntl(key, F_DUPFD, 10) };
	sigset_t none;

	if (ends[0] < 0 || ends[1] < 0 || ends[2] < 0 || ends[3] < 0 ||
	    dup2(ends[0], RUNNER_CONTROL_FD) < 0 || dup3(ends[1], PROGRAM_FD, O_CLOEXEC) < 0 ||
	    dup2(ends[2], STDIN_FILENO) < 0 || (key >= 0 && dup2(ends[3], RUNNER_KEY_FD) < 0)) {
		sgpu_fail_errno(error, "cannot start a worker");
		return;
	}
	/* inherited descriptors */
	(void)close_range(key < 0 ? RUNNER_KEY_FD : RUNNER_KEY_FD + 1, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	(void)runner_execute(PROGRAM_FD, arguments, error);
}

int runner_spawn(int program, char **arguments, const struct wire_begin *begin, int key, pid_t *pid,
		 int *control, const struct serve_counters **counters, struct sgpu_error *error)
{
	int ends[2] = { -1, -1 }, file = -1, rc;
	struct wire_begin message = *begin;
	void *memory = MAP_FAILED;

	/* The size is sealed, so that the worker cannot shrink the file beneath our mapping. */
	rc = sgpu_memory_file_create("sgpu counters", sizeof(struct serve_counters), true, &file,
				     error);
	if (rc == SGPU_OK && counters) {
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
		become_worker(program, ends[1], key, arguments, error);
		_exit(cli_error(error));
	}
	if (rc == SGPU_OK && *pid < 0) {
		rc = sgpu_fail_errno(error, "cannot start a process");
	}
	sgpu_close(ends[1]);
	sgpu_close(file);
	if (rc == SGPU_OK) {
		*control = ends[0];
		if (counters) {
			*counters = memory;
		}
		return SGPU_OK;
	}
	*pid = 0;
	sgpu_close(ends[0]);
	if (memory != MAP_FAILED) {
		munmap(memory, sizeof(struct serve_counters));
	}
	return rc;
}

/* ---- a link ---- */
int link_start(struct link *link, uint64_t submissions, int key, struct sgpu_error *error)
{
	const struct wire_begin begin = { .submissions = submissions, .spool = 1 };
	char **arguments = NULL;
	int program, rc = runner_find(&program, error);

	rc = rc ? rc : runner_arguments(key, &arguments, error);
	rc = rc ? rc
		: runner_spawn(program, arguments, &begin, key, &link->pid, &link->control, NULL,
			       error);
	sgpu_close(program);
	return rc;
}

int link_ready(struct link *link, struct wire_ready *ready)
{
	struct pollfd control = { .fd = link->control, .events = POLLIN };
	int status = 0;

	while (poll(&control, 1, -1) <= 0) {
	}
	if (wire_receive(link->control, WIRE_READY, ready, sizeof(*ready), NULL, 0, NULL) !=
	    SGPU_OK) {
		(void)waitpid(link->pid, &status, 0);
		link->pid = 0;
		return WIFEXITED(status) && WEXITSTATUS(status)
			       ? WEXITSTATUS(status)
			       : cli_fail(SGPU_ESYSTEM, "sgpu-enclave did not start");
	}
	ready->kid_count = ready->kid_count < WIRE_KIDS_MAX ? ready->kid_count : WIRE_KIDS_MAX;
	return 0;
}

/* Only an enclave that ends closes a client's socket without answer. One that goes on is killed. */
static int fail_ended(struct link *link, struct sgpu_error *error)
{
	if (link->pid > 0) {
		(void)kill(link->pid, SIGKILL); /* leaves the status of one that has ended */
		(void)waitpid(link->pid, &link->status, 0);
		link->pid = 0;
	}
	return sgpu_fail(error, SGPU_EDEVICE,
			 WIFSIGNALED(link->status) ? "sgpu-enclave was ended by signal %d"
						   : "sgpu-enclave has ended with status %d",
			 WIFSIGNALED(link->status) ? WTERMSIG(link->status)
						   : WEXITSTATUS(link->status));
}

int link_submit(struct link *link, struct wire_submit *message, int batch, int response,
		int *connection, struct sgpu_error *error)
{
	const int fds[] = { batch, response, batch };
	struct wire_take take = { .uid = geteuid(), .since_ns = sgpu_now_ns() };
	const bool is_new = *connection < 0;
	int ends[2] = { -1, -1 };
	bool sent;

	if (is_new && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make a socket");
	}
	*connection = is_new ? ends[0] : *connection;
	sent = sgpu_wire_send(*connection, WIRE_SUBMIT, message, sizeof(*message), fds, 3) &&
	       (!is_new ||
		sgpu_wire_send(link->control, WIRE_TAKE, &take, sizeof(take), &ends[1], 1));
	sgpu_close(ends[1]);
	if (!sent) {
		close(*connection);
		*connection = -1;
		return fail_ended(link, error);
	}
	return SGPU_OK;
}

bool link_hear(struct link *link, struct wire_answer *answer, int *connection,
	       struct sgpu_error *error)
{
	const int rc =
		wire_receive(*connection, WIRE_ANSWER, answer, sizeof(*answer), NULL, 0, error);

	if (rc == SGPU_ETIMEOUT) {
		return false;
	}
	if (rc == SGPU_OK) {
		wire_clean(answer);
		*error = answer->error;
	} else {
		(void)fail_ended(link, error);
		close(*connection);
		*connection = -1;
	}
	return true;
}

void link_close(struct link *link)
{
	sgpu_close(link->control);
	if (link->pid > 0) {
		(void)waitpid(link->pid, NULL, 0);
	}
}
