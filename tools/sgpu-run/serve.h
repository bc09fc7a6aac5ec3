/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run serve: what its verb, the supervisor and the worker processes share.
 *
 * The supervisor has neither keys nor a device. It takes connections, asks the kernel whose they
 * are, and hands each to the worker process of that user, its tenant. Workers are the same program,
 * started anew: they share no memory with the supervisor but a page of counters, which they only
 * write.
 */
#ifndef SGPU_RUN_SERVE_H
#define SGPU_RUN_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "remote/greeting.h"
#include "wire.h"
#include "worker.h"

enum {
	SERVE_CONTROL_FD = 3,
	SERVE_COUNTERS_FD = 4, /* a worker starts with these two */
	SERVE_WORKERS_MAX = 256,
	SERVE_SUBMISSIONS_MAX = 1024,
};

struct server {
	struct worker worker; /* of a worker process; the supervisor only checks the options */
	const char *socket;
	const char *tenants;			   /* the file of their rules, or NULL */
	const char *attestation_key, *certificate; /* for quotes; both or neither */
	const char *sessions; /* whose sessions are taken: "none" or "any"; NULL: as owners imply */
	bool everybody, as_worker;
	unsigned workers, ahead, submissions, running;
	uint64_t leases;   /* bytes of each worker's pool of leases; 0: none */
	uint64_t lease_ns; /* how long a lease stays that nobody holds; 0: the default */
	uint64_t drain_ns;
	uint64_t stall_ns; /* how long a lease may wait for its client, or a session have nothing to
			      do, while others wait for a worker */
	uint64_t session_memory; /* bytes of the device that a session may have; 0: all */
	int argc;		 /* the command line, for the workers */
	char **argv;
};

/* Bounds of the time from connection to answer; the last is all time. */
enum { SERVE_LATENCIES = 12 };
extern const uint64_t serve_latency_bounds_ns[SERVE_LATENCIES];

/* Sums over batches. Those before SERVE_RESULTS count batches by outcome. Only SERVE_FAILED is a
 * fault of this machine; no user may be able to raise it. Each SERVE_LATENCY counts the batches up
 * to its bound and above the one before. */
enum serve_sum {
	SERVE_DONE,
	SERVE_SOME_FAILED,
	SERVE_REFUSED,
	SERVE_REPLAYED,
	SERVE_OVER_QUOTA,
	SERVE_CANCELLED,
	SERVE_FAILED,
	SERVE_RESULTS,
	SERVE_BYTES_IN = SERVE_RESULTS,
	SERVE_BYTES_OUT,
	SERVE_LATENCY_NS,
	SERVE_LATENCY,
	SERVE_SUMS = SERVE_LATENCY + SERVE_LATENCIES
};

/* Written by the worker alone, which sends WIRE_NOTE when one of the first two has changed. The
 * worker may lie. */
struct serve_counters {
	_Atomic uint64_t ended;		 /* connections that it has closed */
	_Atomic uint64_t requests_ended; /* connections of requests that it has closed */
	_Atomic uint64_t quoted_ns;	 /* when it gave its last quote, or 0 */
	_Atomic uint64_t leases, leased_bytes, pool_bytes;
	_Atomic uint64_t sums[SERVE_SUMS];
	_Atomic uint64_t sessions;		   /* open sessions of programs */
	_Atomic uint64_t device_bytes, host_bytes; /* memory counted by base/base.h */
};

/* serve_worker.c: what the files of a worker process share. */
extern struct serving {
	struct server *server;
	struct serve_counters *counters;
	int wake_fd;		   /* an eventfd: a run or a request has ended */
	atomic_uint requests;	   /* requests that have not ended */
	_Atomic uint64_t press_ns; /* until then other users wait for a worker, so threads that wait
				      for a client give up soon */
	/* the key that its quotes name and sessions are bound to, or NULL */
	const struct sgpu_key *quote_key;
} serving;

/* requests.c: counts a batch that has ended. since_ns: when its client connected. run: NULL if it
 * never began. */
void serve_count(const struct sgpu_run *run, int code, uint64_t since_ns,
		 const struct sgpu_run_progress *progress);

/* service.c: the server's socket. */
struct service_socket {
	int fd; /* listens, does not block; -1: closed */
	char path[sizeof(
		((struct sockaddr_un *)0)->sun_path)]; /* "": it came from the service manager */
	dev_t device;
	ino_t inode;
};
#define SERVICE_SOCKET_INIT \
	{                   \
		.fd = -1    \
	}

/* The socket that a service manager has passed on (LISTEN_FDS), or a new one at `path`, for all
 * users or for this one and root. Makes a directory that is missing, and replaces a socket that
 * nobody answers at. Errors: SGPU_ESYSTEM, also if another server lives there; SGPU_EPOLICY: others
 * could take its place. */
SGPU_MUST_CHECK int service_listen(const struct sgpu_service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Closes the socket, and removes it if service_listen made it. */
void service_close(struct service_socket *socket);

/* Tells the service manager, if there is one, a state such as "READY=1". */
void service_notify(const char *state);

/* What each user may have of a server: the file of sgpu-run serve --tenants. One user a line:
 *
 *   # name or uid, or * for all others     what differs from the default
 *   alice    weight=3 priority=high
 *   1001     in-flight=2 waiting=16 device-memory=8G
 *   *        waiting=8
 */

enum { TENANTS_NAMED_MAX = 1024, TENANT_BATCHES_MAX = 1024, TENANT_SESSIONS_MAX = 16 };
/* Less would leave no room to stage anything. */
enum { TENANT_HOST_MEMORY_MIN = 128 << 20 };

struct tenant_rule {
	unsigned weight;
	bool high;
	unsigned in_flight, waiting, sessions; /* at most */
	uint64_t device_memory, host_memory;   /* bytes, at most; 0: no limit */
};

struct tenant_rules {
	struct tenant_rule others;
	struct {
		uid_t uid;
		struct tenant_rule rule;
	} named[TENANTS_NAMED_MAX];
	unsigned count;
	bool any_high;
};

/* Reads the file. Without one (path NULL) the default holds for everybody. again: the file was read
 * before; a user who certainly no longer exists is left out, with a warning. Errors, with *rules as
 * it was: SGPU_EINVALID with the line; SGPU_EPOLICY: others may write to the file; errors of
 * reading. */
SGPU_MUST_CHECK int tenant_rules_load(const char *path, bool again, struct tenant_rules *rules,
				      struct sgpu_error *error);

const struct tenant_rule *tenant_rules_find(const struct tenant_rules *rules, uid_t uid);

/* Looks up a name in /etc/passwd alone, since other sources may be slow. "": it is not there. */
void tenant_user_name(uid_t uid, char *name, size_t size);

/* supervisor.c: runs until a signal ends it. Returns an exit status. */
int supervise(const struct server *server, struct service_socket *socket);

/* serve_worker.c: runs until the supervisor ends it, or has gone. Returns an exit status. */
int serve_as_worker(struct server *server);

/* supervisor_workers.c: a worker process, as the supervisor sees it. */
struct process {
	pid_t pid;
	int control; /* its socket; once this is closed, the worker gives up its runs and ends */
	const struct serve_counters *counters;
	unsigned generation; /* of the keys that it has read */
	uint64_t started_ns;
	uint64_t given_ns; /* when it became its tenant's */
	bool ready, draining;
	uint64_t deadline_ns;  /* when draining has to end: `control` is closed then, and later the
				  worker is killed */
	struct tenant *tenant; /* or NULL: it is spare */
	uint64_t handed, requests; /* connections with batches that it got; those with requests */
	/* how many of these ended, as the worker says, but never more than it got nor less than
	 * before */
	uint64_t ended, requests_ended;
	struct serve_counters said; /* as of the last process_look */
};
SGPU_MUST_CHECK int process_start(const struct server *server, struct process *process,
				  struct sgpu_error *error);
/* Reads the worker's counters, each once: everything else, here and in the supervisor, uses these
 * values. */
void process_look(struct process *process);
/* Batches that the worker has not ended, each with a turn. A lie of the worker cannot raise the
 * number. */
uint64_t process_in_flight(const struct process *process);
/* Tells the worker its tenant's limits; false: it does not read its messages. */
bool process_limit(const struct process *process, const struct tenant_rule *rule);
uint64_t process_requests(const struct process *process);
/* Has the worker take no more, and end when its work has, at the latest at deadline_ns. */
void process_drain(struct process *process, uint64_t deadline_ns);
/* Frees what belongs to a worker that has ended or could not be started. */
void process_bury(struct process *process);

/* Requests to a worker: no batches, so the supervisor hands their connections over without a turn.
 * A function for each kind deals with them. */

struct request {
	int connection; /* its next message is of `kind` */
	enum wire_kind kind;
	uint64_t uid; /* of the client */
};

/* A thread deals with the connection, and closes it. */
void requests_take(int connection, uint64_t uid);

/* serve_lease.c. Makes the pool that the options ask for, if any. Call before the worker is
 * confined. */
SGPU_MUST_CHECK int serve_lease_open(struct sgpu_error *error);
/* Frees the pool, once all requests and runs have ended. */
void serve_lease_close(void);
/* Replaces a pool that no run has used yet by one of at most `most` bytes, if it is larger. */
void serve_lease_shrink(uint64_t most);
/* Sets a run's options for the pool. results: results are left in a lease. Errors:
 * SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int serve_lease_options(bool results, struct sgpu_run_options *options,
					struct sgpu_error *error);
SGPU_MUST_CHECK int serve_lease(const struct request *request, struct sgpu_error *error);

/* requests.c. Takes a WIRE_LIMITS that has come; false: the message is none. */
bool serve_limits_take(void);

/* Quotes of a worker, for a server with an attestation key. The key that they name is made by the
 * worker, is in no file, and ends with it. A worker, and so the key, has one tenant. */

/* serve_quote_begin is called before there is any thread or key, serve_quote_claim once the worker
 * is open, before it is confined. Both do nothing without an attestation key. */
SGPU_MUST_CHECK int serve_quote_begin(struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_claim(struct sgpu_error *error);

SGPU_MUST_CHECK int serve_quote(const struct request *request, struct sgpu_error *error);

/* Adds a hint to the error of a batch that no key of the worker opens. */
void serve_quote_explain(struct sgpu_error *error);

/* Ends sessions that were idle for idle_ns; 0: all. Does not wait. */
void sessions_end(uint64_t idle_ns);

#endif
