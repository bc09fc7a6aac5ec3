/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's state, for the files that it is made of.
 */
#ifndef SGPU_RUN_SUPERVISOR_H
#define SGPU_RUN_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "report.h"
#include "serve.h"

/* Whose batch runs next: weighted fair queueing of turns, whose length is only known when they have
 * ended.
 *
 * Each tenant has a virtual time, which goes on while it has turns: by the time that passes, times
 * its turns, divided by its weight. The next turn goes to the tenant whose virtual time is least.
 * One that had nothing to do begins again where the others are, so that idleness earns nothing.
 * There is no clock in here: the caller says what time it is. */

enum { SHARES_MAX = 256, SHARE_WEIGHT_MAX = 1000, SHARE_PRIORITIES = 2 };

struct share {
	unsigned weight;	 /* from 1; 0: nobody's */
	bool high;		 /* its turns come before all that are not high */
	bool barred;		 /* set by the caller: it gets no turn now, though it waits */
	unsigned waiting, turns; /* batches that may have a turn; turns that it has */
	bool held;		 /* it holds a worker others wait for, charged as a turn */
	bool lacks;		 /* it waits for a worker */
	uint64_t used_ns;	 /* by its turns, since it was added */
	uint64_t pass;		 /* its virtual time; goes round */
	uint64_t rest;		 /* of the division by the weight */
	uint64_t granted;	 /* which of all turns its last one was */
};

struct shares {
	struct share of[SHARES_MAX];
	uint64_t now_ns;
	uint64_t clock[SHARE_PRIORITIES]; /* no pass of one that has something to do is before it */
	uint64_t granted;
};

/* A new tenant, or another weight or priority for one. */
void shares_add(struct shares *shares, unsigned i, unsigned weight, bool high);
void shares_change(struct shares *shares, unsigned i, unsigned weight, bool high);

/* Charges the turns for the time that has passed, before counts change. */
void shares_advance(struct shares *shares, uint64_t now_ns);

/* What tenant `i` has now. */
void shares_set(struct shares *shares, unsigned i, unsigned waiting, unsigned turns);

/* Whether it has a worker for something else than batches, while others wait for one; whether it
 * waits for one. */
void shares_hold(struct shares *shares, unsigned i, bool held, bool lacks);

/* The tenant that gets the next turn; -1: nobody waits, or there are `running` turns. Those of high
 * priority do not wait for others' turns: they have as many of their own. */
int shares_next(const struct shares *shares, unsigned running);
/* It gets it. */
void shares_grant(struct shares *shares, unsigned i);

/* Whether `a` is served before `b`, were there but one turn. */
bool share_is_before(const struct share *a, const struct share *b);

enum {
	SUPERVISOR_TENANTS_MAX = SHARES_MAX, /* the oldest is forgotten first, with its sums */
	SUPERVISOR_CALLERS_MAX = 512,	     /* connections without a worker */
	SUPERVISOR_SILENT_MAX = 64,	     /* of one user, which have said nothing */
	SUPERVISOR_ACCEPT_AT_ONCE = 64,	     /* before others are heard */
	SUPERVISOR_REQUESTS_MAX = 64,	     /* of one user at a time */
};

/* Its share of the turns has the same number in struct supervisor. */
struct tenant {
	bool used;
	uid_t uid;
	char user[REPORT_USER_MAX]; /* its name; "": it has none */
	struct tenant_rule rule;
	uint64_t last_ns;	     /* when it last sent something */
	uint64_t lacks_ns;	     /* since when it waits and has no worker, or 0 */
	uint64_t start_ns;	     /* no worker before, since its last one died */
	unsigned deaths;	     /* of its workers in a row, soon after their start */
	bool awaits;		     /* it waits for its own worker to go, or for start_ns */
	uint64_t sums[SERVE_SUMS];   /* of buried workers, and of what was refused for a limit */
	unsigned waiting, in_flight; /* as counted last, like what follows */
	unsigned live;		     /* its workers, leaving ones too */
	bool in_session;	     /* one of these is */
	unsigned asking, requests;   /* requests that wait, and that workers have */
	struct process *process;     /* its worker, or NULL */
};

struct caller {
	int fd; /* -1: free */
	uid_t uid;
	uint64_t since_ns;
	uint64_t order;	       /* order of arrival of those that wait */
	struct tenant *tenant; /* it waits for a turn; NULL: it has said nothing */
	bool request;	       /* no batch: it needs a worker, but no turn */
	bool queued;	       /* and was told so */
};

struct supervisor {
	const struct server *server;
	struct service_socket *socket;
	int signal_fd;
	struct process processes[SERVE_WORKERS_MAX]; /* pid 0: free */
	struct tenant tenants[SUPERVISOR_TENANTS_MAX];
	struct caller callers[SUPERVISOR_CALLERS_MAX];
	struct tenant_rules rules;
	struct shares shares;
	uint64_t spoken;   /* how many callers ever have */
	unsigned lacking;  /* tenants that wait and have no worker */
	unsigned awaiting; /* those of them that await their own */
	uint64_t started_ns;
	uid_t unmapped;	     /* may be any of several users */
	unsigned generation; /* of those that get new work */
	unsigned newest;     /* of those that start; differs while keys are read again */
	unsigned last;	     /* that ever was */
	bool served;	     /* a worker was ready once */
	bool stopping;
	bool ending;	    /* no batch waits any more, and workers end */
	uint64_t stop_ns;   /* when what still runs is given up */
	unsigned failures;  /* starts of workers in a row that failed */
	uint64_t start_ns;  /* no worker is started before */
	uint64_t evict_ns;  /* no busy worker is taken from its tenant before */
	uint64_t press_ns;  /* nor is one told again that others wait */
	uint64_t accept_ns; /* no connection is taken before: descriptors ran out */
	int status;	    /* not 0: its first worker did not start */
};

/* supervisor.c: what supervise() is made of. */
/* An exit status. */
int supervisor_begin(struct supervisor *supervisor, const struct server *server,
		     struct service_socket *socket);
/* Waits for something to do, or for so long (-1: for ever), and does it; false: it has ended. */
bool supervisor_step(struct supervisor *supervisor, int most_ms);

/* Connections that no worker has yet. */
/* Whether a /proc/PID/uid_map maps all users. */
bool callers_are_mapped(const char *map);
void callers_hang_up(struct caller *caller);
void callers_refuse(struct caller *caller, int code, const char *format, ...) SGPU_PRINTF(3, 4);
/* Takes a connection; *accepted is NULL if it was refused. False: there is none, or it has to wait.
 */
bool callers_accept(struct supervisor *supervisor, struct caller **accepted);

/* supervisor_workers.c. */
/* Starts as many as are wanted now, or has one leave. */
void workers_keep(struct supervisor *supervisor);
/* Gives ready spare ones to tenants that wait and have none. */
void workers_give(struct supervisor *supervisor);
/* Starts some that read the keys again; they take over once one is ready. */
void workers_reload(struct supervisor *supervisor);
/* It gets no new work, and ends. */
void workers_dismiss(struct supervisor *supervisor, struct process *process);
/* It has sent something, or closed its end. */
void workers_hear(struct supervisor *supervisor, struct process *process);
/* Buries those that are dead. */
void workers_reap(struct supervisor *supervisor);

/* supervisor_turns.c: whose batches and requests go to workers, and when. */
/* The caller has a batch or a request: it waits for a turn or a worker, or is refused. */
void turns_ask(struct supervisor *supervisor, struct caller *caller, bool request);
/* Gives free turns; who gets none is told, or refused for a limit. */
void turns_give(struct supervisor *supervisor);
/* Has the rules hold for the tenants that are there. */
void turns_apply_rules(struct supervisor *supervisor);

/* supervisor_status.c: what the user may see, as JSON from malloc, or NULL. */
char *supervisor_status(struct supervisor *supervisor, uid_t uid);

/* Closes connections for the supervisor. A client can make the closing of descriptors that it sent,
 * and nobody received, block for as long as it likes, as by a socket that lingers. A thread that
 * ends does not block in it. So the last to have a connection is such a thread, with a table of
 * descriptors of its own. */

enum { CLOSING_ROOM = 1024 };

/* Takes a descriptor for one of the next calls of closing_do. */
void closing_take(int fd);
/* Closes those that were taken, once the first has waited for CLOSING_WAIT_NS, many wait, or `all`
 * are to go; false: not now, the machine lacks threads or memory. */
#define CLOSING_WAIT_NS UINT64_C(20000000)
bool closing_do(bool all);
/* When it is to be called next; 0: there is nothing to close. */
uint64_t closing_due_ns(void);
/* How many more it can take. */
unsigned closing_room(void);

#endif
