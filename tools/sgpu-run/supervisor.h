/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's state, for the files that it is made of.
 */
#ifndef SGPU_RUN_SUPERVISOR_H
#define SGPU_RUN_SUPERVISOR_H

#include "serve.h"

enum {
	SUPERVISOR_TENANTS_MAX = 256,   /* remembered with their sums; the one that was here longest ago goes first */
	SUPERVISOR_CALLERS_MAX = 256,   /* connections that no worker has yet */
	SUPERVISOR_CALLERS_OF_ONE = 64, /* of one user */
};

struct tenant {
	bool used;
	uid_t uid;
	uint64_t last_ns;        /* when it last sent something */
	uint64_t done, failed;   /* by workers that are buried */
	struct process *process; /* takes its work, or NULL */
};

struct caller {
	int fd;                  /* -1: free */
	uid_t uid;
	uint64_t since_ns;
	bool waits;              /* it has spoken, and waits for a worker */
};

struct supervisor {
	const struct server *server;
	struct service_socket *socket;
	struct process processes[SERVE_WORKERS_MAX]; /* pid 0: free */
	struct tenant tenants[SUPERVISOR_TENANTS_MAX];
	struct caller callers[SUPERVISOR_CALLERS_MAX];
	uint64_t started_ns;
	unsigned generation;     /* of those that get new work */
	unsigned newest;         /* of those that start; another one while keys are read again */
	unsigned last;           /* that ever was */
	bool served;             /* a worker was ready once */
	bool stopping;
	uint64_t stop_ns;        /* when what still runs is given up */
	unsigned failures;       /* starts of workers in a row that failed */
	uint64_t start_ns;       /* no worker is started before */
	uint64_t accept_ns;      /* no connection is taken before: descriptors ran out */
	int status;              /* of the server: not 0 once its first worker did not start */
};

/* supervisor_workers.c. */
/* Starts as many as are wanted now, or has one leave. */
void workers_keep(struct supervisor *supervisor);
/* One that is ready and nobody's, or NULL. */
struct process *workers_find_spare(struct supervisor *supervisor);
/* Starts some that read the keys again, and take over once one of them is ready. */
void workers_reload(struct supervisor *supervisor);
/* It gets no new work, and ends. */
void workers_dismiss(struct supervisor *supervisor, struct process *process);
/* It has sent something, or its end of the connection has closed. */
void workers_hear(struct supervisor *supervisor, struct process *process);
/* Buries those that are dead. */
void workers_reap(struct supervisor *supervisor);

/* supervisor_status.c: what user `uid` may see, as JSON; from malloc, or NULL. */
char *supervisor_status(const struct supervisor *supervisor, uid_t uid);

#endif
