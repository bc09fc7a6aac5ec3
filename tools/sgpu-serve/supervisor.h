/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's state.
 */
#ifndef SGPU_SUPERVISOR_H
#define SGPU_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "serve.h"

/* Chooses whose batch runs next, by weighted fair queueing of turns. A turn's length is known only
 * when it has ended.
 *
 * While a tenant has turns, its virtual time grows by the time that passes, times its turns,
 * divided by its weight. The next turn goes to the tenant with the least virtual time. When an idle
 * tenant gets work, its virtual time is raised to the clock, so that idleness earns nothing. */

enum { SHARES_MAX = 256, SHARE_WEIGHT_MAX = 1000, SHARE_PRIORITIES = 2 };

struct share {
	unsigned weight; /* from 1; 0: the entry is free */
	bool high;	 /* gets turns before all that are not high */
	/* Set by the caller. */
	bool barred;		 /* gets no turn now, though it waits */
	unsigned waiting, turns; /* batches that wait for a turn; turns that it has */
	bool held;		 /* holds a worker, not for batches, for which others wait; charged
				  * as one turn */
	bool lacks;		 /* waits for a worker */
	/* Not for the caller. */
	bool busy;	  /* had work when the shares were last settled */
	uint64_t used_ns; /* time of its turns since it was added */
	uint64_t pass;	  /* its virtual time; wraps around */
	uint64_t rest;	  /* remainder of the division by the weight */
	uint64_t granted; /* number of its last turn among all */
};

struct shares {
	unsigned count; /* of those ever used */
	struct share of[SHARES_MAX];
	uint64_t now_ns;
	uint64_t clock[SHARE_PRIORITIES]; /* virtual time; no busy tenant's `pass` is earlier */
	uint64_t granted;
};

void shares_add(struct shares *shares, unsigned i, unsigned weight, bool high);
void shares_change(struct shares *shares, unsigned i, unsigned weight, bool high);

/* Charges tenants for turns since the last call. Call before any member is set. */
void shares_advance(struct shares *shares, uint64_t now_ns);
/* Call after members have been set. */
void shares_settle(struct shares *shares);

/* Returns the tenant that gets the next turn; -1: nobody waits, or `running` turns are taken. For
 * tenants of high priority only turns of high priority count. */
int shares_next(const struct shares *shares, unsigned running);
void shares_grant(struct shares *shares, unsigned i);

bool share_is_before(const struct share *a, const struct share *b);

enum {
	SUPERVISOR_TENANTS_MAX = SHARES_MAX, /* the longest idle is forgotten, with its sums */
	SUPERVISOR_CALLERS_MAX = 512,	     /* connections without a worker */
	SUPERVISOR_SILENT_MAX = 64,	     /* connections of one user that have sent nothing */
	SUPERVISOR_ACCEPT_AT_ONCE = 64,	     /* accepted before other events are handled */
	SUPERVISOR_REQUESTS_MAX = 64,	     /* of one user at a time */
};

/* Its share has the same index in `shares` of struct supervisor. */
struct tenant {
	bool used;
	uid_t uid;
	char user[REPORT_USER_MAX]; /* its name; "": it has none */
	struct tenant_rule rule;
	uint64_t last_ns;	     /* when it last sent something */
	uint64_t lacks_ns;	     /* since when it has waited without a worker, or 0 */
	uint64_t start_ns;	     /* no worker before this time: its last one died */
	unsigned deaths;	     /* workers in a row that died soon once given */
	bool awaits;		     /* waits until its own worker ends, or for start_ns */
	uint64_t sums[SERVE_SUMS];   /* of dead workers, and of what a limit refused */
	unsigned waiting, in_flight; /* as last counted; so are the next four members */
	unsigned live;		     /* its workers, including draining ones */
	uint64_t sessions;	     /* of its workers, as these say */
	unsigned asking, requests;   /* requests that wait; those that workers have */
	struct process *process;     /* its worker, or NULL */
};

struct caller {
	int fd; /* -1: free */
	uid_t uid;
	uint64_t since_ns;
	uint64_t order;	       /* of arrival, if it waits */
	struct tenant *tenant; /* NULL: it has sent nothing yet */
	bool request;	       /* has a request, not a batch: needs a worker, but no turn */
	bool queued;	       /* knows that it waits */
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
	uint64_t spoken;   /* callers that have ever sent something */
	unsigned lacking;  /* tenants that wait and have no worker */
	unsigned awaiting; /* tenants whose `awaits` is set */
	uint64_t started_ns;
	uid_t unmapped;	     /* this uid stands for several users */
	unsigned generation; /* key generation of the workers that get new work */
	unsigned newest;     /* that of workers that start; differs during a reload */
	unsigned last;	     /* the highest generation so far */
	bool served;	     /* a worker was ready once */
	bool stopping;
	bool ending;	    /* no batch waits any more, and workers end */
	uint64_t stop_ns;   /* when runs that have not ended are given up */
	unsigned failures;  /* failed starts of workers in a row */
	uint64_t start_ns;  /* no worker is started before this time */
	uint64_t evict_ns;  /* no busy worker is taken away before this time */
	uint64_t press_ns;  /* no WIRE_PRESS is sent before this time */
	uint64_t accept_ns; /* no connection is accepted before this time: resources ran out */
	int status;	    /* exit status; not 0: the first worker did not start */
};

/* supervisor.c: the parts of supervise(). Returns an exit status. */
int supervisor_begin(struct supervisor *supervisor, const struct server *server,
		     struct service_socket *socket);
/* Handles events, for which it waits at most most_ms (-1: for ever). False: all has ended. */
bool supervisor_step(struct supervisor *supervisor, int most_ms);

/* Connections that no worker has yet. */
void callers_hang_up(struct caller *caller);
/* With SGPU_ERETRY the caller's tenant is over a limit, which is counted. */
void callers_refuse(struct caller *caller, int code, const char *format, ...) SGPU_PRINTF(3, 4);
/* Accepts a connection. *accepted: NULL if it was refused. False: none was accepted. */
bool callers_accept(struct supervisor *supervisor, struct caller **accepted);

/* workers.c. */
/* Starts the workers that are needed now, or dismisses one to make room. */
void workers_keep(struct supervisor *supervisor);
void workers_give(struct supervisor *supervisor);
/* Starts workers that read the keys again, and take over once one is ready. */
void workers_reload(struct supervisor *supervisor);
/* Tells a worker, which gets no new work, to end. */
void workers_dismiss(struct supervisor *supervisor, struct process *process);
void workers_hear(struct supervisor *supervisor, struct process *process);
void workers_reap(struct supervisor *supervisor);

/* turns.c: whose batches and requests go to workers, and when. */
/* Queues a caller for a turn (it has a batch) or a worker (it has a request), or refuses it. */
void turns_ask(struct supervisor *supervisor, struct caller *caller, bool request);
/* Gives free turns. New callers without one are told that they wait, or refused for a limit. */
void turns_give(struct supervisor *supervisor);
void turns_count(struct supervisor *supervisor);
void turns_apply_rules(struct supervisor *supervisor);

/* status.c: returns what the user may see, as JSON from malloc, or NULL. */
char *supervisor_status(struct supervisor *supervisor, uid_t uid);

/* Closes connections for the supervisor. Descriptors that a client sent and nobody received are
 * closed with the connection. The client can make that block for as long as it likes, such as by a
 * socket that lingers. So each connection is last closed by the end of a thread that has a
 * descriptor table of its own: that end does not block. */

enum { CLOSING_ROOM = 1024 };

void closing_take(int fd);
/* Closes the descriptors taken, if the first has waited for CLOSING_WAIT_NS, many wait, or `all` is
 * set. Without a thread or memory they still wait. */
#define CLOSING_WAIT_NS UINT64_C(20000000)
void closing_do(bool all);
/* When closing_do is to be called next; 0: never. */
uint64_t closing_due_ns(void);
unsigned closing_room(void);

#endif
