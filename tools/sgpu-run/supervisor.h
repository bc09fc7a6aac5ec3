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
	bool held;  /* it has something else that others wait for, which is charged as a turn */
	bool lacks; /* it waits for such a thing */
	uint64_t used_ns; /* by its turns, since it was added */
	uint64_t pass;	  /* its virtual time; goes round */
	uint64_t rest;	  /* of the division by the weight */
	uint64_t granted; /* which of all turns its last one was */
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

/* Charges the turns for the time since the last call. To be called before counts change. */
void shares_advance(struct shares *shares, uint64_t now_ns);

/* What tenant `i` has now. */
void shares_set(struct shares *shares, unsigned i, unsigned waiting, unsigned turns);

/* Whether it has, from now on, what others wait for, which is a worker for something else than
 * batches; and whether it is one that waits for a worker. */
void shares_hold(struct shares *shares, unsigned i, bool held, bool lacks);

/* The tenant that gets the next turn, or -1: nobody waits, or there are `running` turns. Those of
 * high priority do not wait for turns of the others: they have as many of their own. */
int shares_next(const struct shares *shares, unsigned running);
/* It gets it. */
void shares_grant(struct shares *shares, unsigned i);

/* Whether `a` is served before `b`, were there but one turn. */
bool share_is_before(const struct share *a, const struct share *b);

enum {
	SUPERVISOR_TENANTS_MAX = SHARES_MAX, /* remembered with their sums; the one that was here
						longest ago goes first */
	SUPERVISOR_CALLERS_MAX = 512,	     /* connections that no worker has yet */
	SUPERVISOR_SILENT_MAX = 64,	     /* of one user, that have not said what they want */
	SUPERVISOR_ACCEPT_AT_ONCE = 64,	     /* before others are heard */
	SUPERVISOR_REQUESTS_MAX = 64,	     /* of one user at a time */
};

/* Its share of the turns is the one of the same number in struct supervisor. */
struct tenant {
	bool used;
	uid_t uid;
	char user[REPORT_USER_MAX]; /* its name; "": it has none */
	struct tenant_rule rule;
	uint64_t last_ns;  /* when it last sent something */
	uint64_t lacks_ns; /* since when it waits and has no worker; 0: it does not */
	uint64_t start_ns; /* it gets no worker before, its last one having died */
	unsigned deaths;   /* of its workers in a row, soon after it got them */
	bool awaits; /* it waits for a worker, and gets none yet: its own that leaves has not gone,
			or start_ns */
	uint64_t sums[SERVE_SUMS]; /* by workers that are buried, and of those that were refused for
				      a limit */
	unsigned waiting, in_flight; /* as turns_give counted them last, as those that follow */
	unsigned live;		     /* its workers, also those that leave */
	bool in_session;	     /* one of these is */
	unsigned asking, requests;   /* requests that wait for a worker, and that workers have */
	struct process *process;     /* takes its work, or NULL */
};

struct caller {
	int fd; /* -1: free */
	uid_t uid;
	uint64_t since_ns;
	uint64_t order;	       /* in which those that wait have come */
	struct tenant *tenant; /* it has spoken, and waits for a turn; NULL: it has not */
	bool request;	       /* what waits is no batch, and needs a worker, but no turn */
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
	unsigned awaiting; /* those that wait for their own to go */
	uint64_t started_ns;
	uid_t unmapped;	     /* whoever has this one may be any of several users */
	unsigned generation; /* of those that get new work */
	unsigned newest;     /* of those that start; another one while keys are read again */
	unsigned last;	     /* that ever was */
	bool served;	     /* a worker was ready once */
	bool stopping;
	bool ending;	    /* and no batch waits any more: workers end with what they have */
	uint64_t stop_ns;   /* when what still runs is given up */
	unsigned failures;  /* starts of workers in a row that failed */
	uint64_t start_ns;  /* no worker is started before */
	uint64_t evict_ns;  /* no worker that is busy is taken from its tenant before */
	uint64_t press_ns;  /* nor is one told again that others wait */
	uint64_t accept_ns; /* no connection is taken before: descriptors ran out */
	int status;	    /* of the server: not 0 once its first worker did not start */
};

/* supervisor.c: what supervise() is made of. */
/* An exit status. */
int supervisor_begin(struct supervisor *supervisor, const struct server *server,
		     struct service_socket *socket);
/* Waits for something to do, or for so long (-1: for ever), and does it; false: it has come to its
 * end. */
bool supervisor_step(struct supervisor *supervisor, int most_ms);

/* Connections that no worker has yet. */
/* Whether a /proc/PID/uid_map maps all users. */
bool callers_are_mapped(const char *map);
void callers_hang_up(struct caller *caller);
void callers_refuse(struct caller *caller, int code, const char *format, ...) SGPU_PRINTF(3, 4);
/* Takes a connection; *accepted: its caller, or NULL if it was refused. false: there is none, or it
 * has to wait. */
bool callers_accept(struct supervisor *supervisor, struct caller **accepted);

/* supervisor_workers.c. */
/* Starts as many as are wanted now, or has one leave. */
void workers_keep(struct supervisor *supervisor);
/* Gives those that are ready and nobody's to tenants that wait and have none, whose they are from
 * then on. */
void workers_give(struct supervisor *supervisor);
/* Starts some that read the keys again, and take over once one of them is ready. */
void workers_reload(struct supervisor *supervisor);
/* It gets no new work, and ends. */
void workers_dismiss(struct supervisor *supervisor, struct process *process);
/* It has sent something, or its end of the connection has closed. */
void workers_hear(struct supervisor *supervisor, struct process *process);
/* Buries those that are dead. */
void workers_reap(struct supervisor *supervisor);

/* supervisor_turns.c: whose batches and requests go to workers, and when. */
/* The caller wants to submit a batch, or has a request: it waits for a turn or for a worker, or is
 * refused. */
void turns_ask(struct supervisor *supervisor, struct caller *caller, bool request);
/* Gives the turns that are free; who gets none is told, or refused for a limit. */
void turns_give(struct supervisor *supervisor);
/* Has the rules that were read hold for the tenants that are there. */
void turns_apply_rules(struct supervisor *supervisor);

/* supervisor_status.c: what user `uid` may see, as JSON; from malloc, or NULL. */
char *supervisor_status(struct supervisor *supervisor, uid_t uid);

/* Closes connections for the supervisor. Descriptors that a client sent and nobody received are
 * closed with its connection, and closing some of them blocks for as long as the client likes, as
 * that of a socket that lingers. It does not block in a thread that ends. So the last to have a
 * connection is always such a thread, with a table of descriptors of its own. */

enum { CLOSING_ROOM = 1024 };

/* Takes a descriptor, which one of the next calls of closing_do closes. */
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
