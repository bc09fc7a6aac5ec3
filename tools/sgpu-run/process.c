/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker processes: started as this program anew, so that nothing of the supervisor's memory is in
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/base.h"

#include "serve.h"
#include "tenants.h"
#include "wire.h"

/* The same on all architectures; the headers that this is built with may be older. */
enum { CLOSE_RANGE = 436 };

/* What a worker leaves to others where processors are short: a tenth or so of one is left to it. */
enum { GIVE_WAY_NICE = 10, NICE_MAX = 19 };

const uint64_t serve_latency_bounds_ns[SERVE_LATENCIES] = {
	1000000,    3000000,	10000000,    30000000,	  100000000,	300000000,
	1000000000, 3000000000, 10000000000, 30000000000, 100000000000, UINT64_MAX,
};

/* Its memory stays as large as it is, whatever the other side does. */
static int make_counters(struct process *process, int *fd, struct sgpu_error *error)
{
	int rc = sgpu_memory_file_create("sgpu-run counters", sizeof(struct serve_counters), true,
					 false, fd, error);
	void *memory;

	if (rc < 0) {
		return rc;
	}
	memory = mmap(NULL, sizeof(struct serve_counters), PROT_READ, MAP_SHARED, *fd, 0);
	if (memory == MAP_FAILED) {
		return sgpu_fail_errno(error, "cannot map memory for counters");
	}
	process->counters = memory;
	return SGPU_OK;
}

/* In the child. All that is open but what it gets closes with exec. */
static void become_worker(const struct server *server, int control, int counters)
{
	char **argv = calloc((size_t)server->argc + 4, sizeof(*argv));
	const int ends[] = { fcntl(control, F_DUPFD, 10), fcntl(counters, F_DUPFD, 10),
			     open("/dev/null", O_RDONLY) };
	sigset_t none;
	int count = 0;

	if (!argv || ends[0] < 0 || ends[1] < 0 || ends[2] < 0 ||
	    dup2(ends[0], SERVE_CONTROL_FD) < 0 || dup2(ends[1], SERVE_COUNTERS_FD) < 0 ||
	    dup2(ends[2], STDIN_FILENO) < 0) {
		return;
	}
	(void)syscall(CLOSE_RANGE, SERVE_COUNTERS_FD + 1, ~0U,
		      0); /* what a parent of ours left open */
	argv[count++] = (char *)(uintptr_t) "sgpu-run";
	argv[count++] = (char *)(uintptr_t) "serve";
	argv[count++] = (char *)(uintptr_t) "--as-worker";
	for (int i = 1; i < server->argc; i++) {
		argv[count++] = server->argv[i];
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv("/proc/self/exe", argv);
}

int process_start(const struct server *server, struct process *process, struct sgpu_error *error)
{
	int ends[2] = { -1, -1 }, counters = -1, rc;

	*process = (struct process){ .control = -1, .started_ns = sgpu_now_ns() };
	rc = make_counters(process, &counters, error);
	if (rc < 0) {
		goto out;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a socket");
		goto out;
	}
	process->pid = fork();
	if (process->pid == 0) {
		(void)setpgid(0, 0); /* so that all of its threads can be told apart from others */
		become_worker(server, ends[1], counters);
		_exit(sgpu_exit_status(SGPU_ESYSTEM));
	}
	if (process->pid < 0) {
		rc = sgpu_fail_errno(error, "cannot start a process");
		goto out;
	}
	process->control = ends[0];
	ends[0] = -1;
out:
	sgpu_close(ends[0]);
	sgpu_close(ends[1]);
	sgpu_close(counters);
	if (rc < 0) {
		process_bury(process);
	}
	return rc;
}

void process_give_way(const struct process *process)
{
	const int nice = getpriority(PRIO_PROCESS, 0) + GIVE_WAY_NICE;

	(void)setpriority(PRIO_PGRP, (id_t)process->pid, nice < NICE_MAX ? nice : NICE_MAX);
}

static uint64_t raised(uint64_t before, uint64_t now, uint64_t most)
{
	now = now < most ? now : most;
	return now > before ? now : before;
}

void process_look(struct process *p)
{
	const _Atomic uint64_t *from = (const void *)p->counters;
	_Atomic uint64_t *to = (void *)&p->said;

	for (size_t i = 0; i < sizeof(p->said) / sizeof(*to); i++) {
		to[i] = from[i];
	}
	p->ended = raised(p->ended, p->said.ended, p->handed);
	p->requests_ended = raised(p->requests_ended, p->said.requests_ended, p->requests);
}

uint64_t process_in_flight(const struct process *process)
{
	return process->handed - process->ended;
}

uint64_t process_requests(const struct process *process)
{
	return process->requests - process->requests_ended;
}

bool process_limit(const struct process *process, const struct tenant_rule *rule)
{
	struct wire_limits limits = { .device_memory = rule->device_memory,
				      .host_memory = rule->host_memory,
				      .sessions = rule->sessions };

	return process->control >= 0 &&
	       wire_send(process->control, WIRE_LIMITS, &limits, sizeof(limits), NULL, 0);
}

void process_drain(struct process *process, uint64_t deadline_ns)
{
	if (process->draining) {
		process->deadline_ns =
			deadline_ns < process->deadline_ns ? deadline_ns : process->deadline_ns;
		return;
	}
	process->draining = true;
	process->deadline_ns = deadline_ns;
	if (!wire_say(process->control, WIRE_DRAIN, -1)) {
		process->deadline_ns = 0; /* it does not read what it is sent */
	}
}

void process_bury(struct process *process)
{
	if (process->counters) {
		munmap((void *)(uintptr_t)process->counters, sizeof(*process->counters));
	}
	sgpu_close(process->control);
	*process = (struct process){ .control = -1 };
}
