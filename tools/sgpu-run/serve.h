/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-run serve: what its verb, the supervisor and the worker processes share.
 *
 * The supervisor has neither keys nor a device. It accepts connections, asks the kernel for their
 * users, and hands each to the worker process of its user, the tenant. Workers are the same
 * program, started anew. The only memory that they share with the supervisor is a page of counters,
 * which only workers write.
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
	SERVE_COUNTERS_FD = 4, /* a worker inherits these two descriptors */
	SERVE_WORKERS_MAX = 256,
	SERVE_SUBMISSIONS_MAX = 1024,
};

struct server {
	struct worker worker; /* of a worker process; the supervisor only checks its options */
	const char *socket;
	const char *tenants;			   /* file with the tenants' rules, or NULL */
	const char *attestation_key, *certificate; /* for quotes; both or neither */
	const char *sessions; /* "none" or "any"; NULL: "none" if there are owners, else "any" */
	bool everybody, as_worker;
	unsigned workers, ahead, submissions, running;
	uint64_t leases;   /* bytes of each worker's pool of leases; 0: no pool */
	uint64_t lease_ns; /* how long a lease that nobody holds stays; 0: the default */
	uint64_t drain_ns;
	uint64_t stall_ns; /* how long a lease may wait for its client, or a session be idle, while
			      others wait for a worker */
	uint64_t session_memory; /* bytes of device memory that a session may have; 0: all */
	int argc;		 /* the command line, for the workers */
	char **argv;
};

/* Upper bounds of the time from a batch's connection to its answer; the last is UINT64_MAX. */
enum { SERVE_LATENCIES = 12 };
extern const uint64_t serve_latency_bounds_ns[SERVE_LATENCIES];

/* Sums over batches. Those before SERVE_RESULTS count batches by outcome. Only SERVE_FAILED counts
 * faults of this machine; no user may be able to raise it. SERVE_LATENCY + i counts batches up to
 * bound i and above bound i - 1. */
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

/* Only the worker writes these; its values may be false. It sends WIRE_NOTE after it has changed
 * one of the first two. */
struct serve_counters {
	_Atomic uint64_t ended;		 /* connections with batches that it has closed */
	_Atomic uint64_t requests_ended; /* the same with requests */
	_Atomic uint64_t quoted_ns;	 /* when it gave its last quote, or 0 */
	_Atomic uint64_t leases, leased_bytes, pool_bytes;
	_Atomic uint64_t sums[SERVE_SUMS];
	_Atomic uint64_t sessions;		   /* open sessions of programs */
	_Atomic uint64_t device_bytes, host_bytes; /* memory in use, as base/base.h counts it */
};

/* serve_worker.c: shared by the files of a worker process. */
extern struct serving {
	struct server *server;
	struct serve_counters *counters;
	int wake_fd;		   /* an eventfd, written when a run or a request has ended */
	atomic_uint requests;	   /* requests that have not ended */
	_Atomic uint64_t press_ns; /* until then other users wait for a worker, so threads that wait
				      for a client give up soon */
	/* the key that quotes name and to which sessions are bound, or NULL */
	const struct sgpu_key *quote_key;
} serving;

/* requests.c: counts a batch that has ended. since_ns: when its client connected. run: NULL if it
 * was not started. */
void serve_count(const struct sgpu_run *run, int code, uint64_t since_ns,
		 const struct sgpu_run_progress *progress);

/* service.c: the server's socket. */
struct service_socket {
	int fd; /* listening, non-blocking; -1: closed */
	char path[sizeof(
		((struct sockaddr_un *)0)->sun_path)]; /* "": the service manager made it */
	dev_t device;
	ino_t inode;
};
#define SERVICE_SOCKET_INIT \
	{                   \
		.fd = -1    \
	}

/* Takes the socket that a service manager passed (LISTEN_FDS), or makes one at `path`, for all
 * users or for this one and root. Makes a missing directory, and replaces a socket at which no
 * server answers. Errors: SGPU_EUSAGE; SGPU_ESYSTEM, also if a server listens there; SGPU_EPOLICY:
 * others could replace the socket. */
SGPU_MUST_CHECK int service_listen(const struct sgpu_service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Closes the socket, and removes it if service_listen made it. */
void service_close(struct service_socket *socket);

/* Tells the service manager, if there is one, a state such as "READY=1". */
void service_notify(const char *state);

/* Limits and shares of a server's users: the file of sgpu-run serve --tenants. One user a line:
 *
 *   # name or uid, or * for all others     what differs from the default
 *   alice    weight=3 priority=high
 *   1001     in-flight=2 waiting=16 device-memory=8G
 *   *        waiting=8
 */

enum { TENANTS_NAMED_MAX = 1024, TENANT_BATCHES_MAX = 1024, TENANT_SESSIONS_MAX = 16 };
/* Bytes. With less, nothing could be staged. */
enum { TENANT_HOST_MEMORY_MIN = 128 << 20 };

struct tenant_rule {
	unsigned weight;
	bool high;
	unsigned in_flight, waiting, sessions; /* at most */
	uint64_t device_memory, host_memory;   /* bytes; 0: no limit */
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

/* Reads the file; path NULL: the default holds for everybody. again: the file was read before, so
 * the line of a user who no longer exists is skipped with a warning. Errors, which leave *rules
 * unchanged: SGPU_EINVALID, with the line; SGPU_EPOLICY: others may write to the file; errors of
 * reading. */
SGPU_MUST_CHECK int tenant_rules_load(const char *path, bool again, struct tenant_rules *rules,
				      struct sgpu_error *error);

const struct tenant_rule *tenant_rules_find(const struct tenant_rules *rules, uid_t uid);

/* Looks up the user's name in /etc/passwd alone, since other sources may be slow. "": not found. */
void tenant_user_name(uid_t uid, char *name, size_t size);

/* supervisor.c: runs until a signal, or until its first worker fails. Returns an exit status. */
int supervise(const struct server *server, struct service_socket *socket);

/* serve_worker.c: runs until the supervisor ends it or has ended itself. Returns an exit status. */
int serve_as_worker(struct server *server);

/* supervisor_workers.c: a worker process, as the supervisor sees it. */
struct process {
	pid_t pid;
	int control; /* its socket; when this is closed, the worker cancels its runs and ends */
	const struct serve_counters *counters;
	unsigned generation; /* key generation: which keys it has read */
	uint64_t started_ns;
	uint64_t given_ns; /* when it was given to its tenant */
	bool ready, draining;
	uint64_t deadline_ns;  /* when draining has to end: `control` is closed then, and later the
				  worker is killed */
	struct tenant *tenant; /* NULL: the worker is spare */
	uint64_t handed, requests; /* connections handed to it: with batches; with requests */
	/* how many of these ended, as the worker says; at most what it got, and never decreasing */
	uint64_t ended, requests_ended;
	struct serve_counters said; /* its counters at the last process_look */
};
SGPU_MUST_CHECK int process_start(const struct server *server, struct process *process,
				  struct sgpu_error *error);
/* Copies the worker's counters to `said`. All other code uses the copy, which the worker cannot
 * change. */
void process_look(struct process *process);
/* Batches that the worker has not ended; each has a turn. False counters cannot raise this. */
uint64_t process_in_flight(const struct process *process);
/* Sends the worker its tenant's limits. False: it does not read its messages. */
bool process_limit(const struct process *process, const struct tenant_rule *rule);
uint64_t process_requests(const struct process *process);
/* Tells the worker to take no more work, and to end after its work, by deadline_ns at latest. */
void process_drain(struct process *process, uint64_t deadline_ns);
/* Frees what belongs to a worker that has ended or could not be started. */
void process_bury(struct process *process);

/* Requests to a worker are not batches, so the supervisor hands their connections over without a
 * turn. Each kind has a function. */

struct request {
	int connection; /* the next message on it is of `kind` */
	enum wire_kind kind;
	uint64_t uid; /* of the client */
};

/* Starts a thread that serves the request on the connection and closes it. */
void requests_take(int connection, uint64_t uid);

/* serve_lease.c. Makes the pool that the options ask for, if any. Call before the worker is
 * confined. */
SGPU_MUST_CHECK int serve_lease_open(struct sgpu_error *error);
/* Frees the pool. All requests and runs must have ended. */
void serve_lease_close(void);
/* Replaces a pool of more than `most` bytes, which no run has used, by a smaller one. */
void serve_lease_shrink(uint64_t most);
/* Sets a run's options for the pool. results: results are left in a lease. Errors:
 * SGPU_EUNAVAILABLE: there is no pool. */
SGPU_MUST_CHECK int serve_lease_options(bool results, struct sgpu_run_options *options,
					struct sgpu_error *error);
SGPU_MUST_CHECK int serve_lease(const struct request *request, struct sgpu_error *error);

/* requests.c. Receives a WIRE_LIMITS and applies it. False: the next message is not one. */
bool serve_limits_take(void);

/* Quotes of a worker, for a server with an attestation key. The worker makes the key that they
 * name, which is in no file and is lost when the worker ends. A worker, and so its key, has one
 * tenant. */

/* Call serve_quote_begin before any thread or key exists, serve_quote_claim between worker_open and
 * worker_start. Both do nothing without an attestation key. */
SGPU_MUST_CHECK int serve_quote_begin(struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_claim(struct sgpu_error *error);

SGPU_MUST_CHECK int serve_quote(const struct request *request, struct sgpu_error *error);

/* Adds a hint to the error of a batch that no key of the worker opens. */
void serve_quote_explain(struct sgpu_error *error);

/* Ends sessions that have been idle for at least idle_ns; 0: all. Does not wait for their ends. */
void sessions_end(uint64_t idle_ns);

#endif
