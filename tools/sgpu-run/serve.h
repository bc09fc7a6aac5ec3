/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run serve: what its verb, the supervisor and the worker processes share.
 *
 * The supervisor has neither keys nor a device. It takes connections, asks the kernel whose they are, and hands each to
 * the worker process of that user, its tenant. Workers are the same program, started anew: they share no memory with the
 * supervisor but a page of counters, which they only write.
 */
#ifndef SGPU_RUN_SERVE_H
#define SGPU_RUN_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "service.h"
#include "worker.h"

enum {
	SERVE_CONTROL_FD = 3, SERVE_COUNTERS_FD = 4, /* a worker's, when it starts */
	SERVE_WORKERS_MAX = 256, SERVE_SUBMISSIONS_MAX = 1024,
};

struct server {
	struct worker worker;    /* of a worker process; the supervisor only checks the options */
	const char *socket;
	bool everybody, as_worker;
	unsigned workers, ahead, submissions;
	uint64_t drain_ns;
	int argc;                /* as given, for the workers */
	char **argv;
};

/* Written by the worker. `ended` counts connections that it has closed. */
struct serve_counters {
	_Atomic uint64_t ended, done, failed;
};

/* supervisor.c: until a signal ends it. An exit status. */
int supervise(const struct server *server, struct service_socket *socket);

/* serve_worker.c: until the supervisor ends it, or has gone. An exit status. */
int serve_as_worker(struct server *server);

/* process.c: a worker process, as the supervisor sees it. */
struct process {
	pid_t pid;
	int control;             /* closed by us: it gives up what it runs, and ends */
	const struct serve_counters *counters;
	unsigned generation;     /* of keys: goes up with each reload */
	uint64_t started_ns;
	bool ready, draining;
	uint64_t deadline_ns;    /* while it drains: when `control` is closed; then: when it is killed */
	struct tenant *tenant;   /* or NULL: it is spare */
	uint64_t handed;         /* connections */
};
SGPU_MUST_CHECK int process_start(const struct server *server, struct process *process, struct sgpu_error *error);
/* Connections that it has not closed yet. */
uint64_t process_in_flight(const struct process *process);
/* It takes no more, and ends when its work has, at the latest then. */
void process_drain(struct process *process, uint64_t deadline_ns);
/* Once the kernel has told that it is dead. */
void process_bury(struct process *process);

#endif
