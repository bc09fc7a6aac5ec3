/* SPDX-License-Identifier: Apache-2.0 */
#include "enclave_link.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

int link_start(struct link *link, int program, uint64_t submissions, int key,
	       struct sgpu_error *error)
{
	const struct wire_begin begin = { .submissions = submissions, .spool = 1 };
	char **arguments = NULL;
	int rc = runner_arguments(key, &arguments, error);

	return rc ? rc
		  : runner_spawn(program, arguments, &begin, key, &link->pid, &link->control, NULL,
				 error);
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

void link_end(struct link *link)
{
	sgpu_close(link->control);
	link->control = -1;
}

void link_wait(struct link *link)
{
	if (link->pid > 0) {
		(void)waitpid(link->pid, NULL, 0);
	}
	link->pid = 0;
}
