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
#include "worker.h"

enum {
	SERVE_CONTROL_FD = 3,
	SERVE_COUNTERS_FD = 4, /* a worker's, when it starts */
	SERVE_WORKERS_MAX = 256,
	SERVE_SUBMISSIONS_MAX = 1024,
};

struct server {
	struct worker worker; /* of a worker process; the supervisor only checks the options */
	const char *socket;
	const char *tenants;			   /* the file of their rules, or NULL */
	const char *attestation_key, *certificate; /* for quotes; both or neither */
	const char *sessions; /* whose are taken: "none" or "any"; NULL: as owners say */
	bool everybody, as_worker;
	unsigned workers, ahead, submissions, running;
	uint64_t leases;   /* bytes of each worker's pool of leases; 0: none */
	uint64_t lease_ns; /* how long a lease stays that nobody holds; 0: the default */
	uint64_t drain_ns;
	uint64_t stall_ns; /* how long a lease may wait for its client, or a session have nothing to
			      do, while others wait for a worker */
	uint64_t session_memory; /* bytes of the device that a session may have; 0: all */
	int argc;		 /* as given, for the workers */
	char **argv;
};

/* How long batches took, from the connection to the answer: the last bound is all time. */
enum { SERVE_LATENCIES = 12 };
extern const uint64_t serve_latency_bounds_ns[SERVE_LATENCIES];

/* Sums over batches. The first ones count what became of them: only SERVE_FAILED is a fault of this
 * machine, and no user may be able to raise it. The latencies count those up to each bound that are
 * above the one before. */
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

/* Written by the worker alone, which sends WIRE_NOTE when one of the first two has changed. A
 * worker may lie. */
struct serve_counters {
	_Atomic uint64_t ended; /* connections that it has closed */
	_Atomic uint64_t
		requests_ended;	    /* connections of requests that it has closed; requests.h */
	_Atomic uint64_t quoted_ns; /* when it gave its last quote, or 0 */
	_Atomic uint64_t leases, leased_bytes,
		pool_bytes; /* leases that there are, and of how much */
	_Atomic uint64_t sums[SERVE_SUMS];
	_Atomic uint64_t sessions;		   /* that programs have now */
	_Atomic uint64_t device_bytes, host_bytes; /* that it has of what base/limit.h counts */
};

/* requests.c: counts a batch of a client that connected then. run: NULL if it never began. */
void serve_count(struct serve_counters *counters, const struct sgpu_run *run, int code,
		 uint64_t since_ns, const struct sgpu_run_progress *progress);

/* service.c: the socket, where it is, and who may make it. */
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

/* The socket that a service manager has passed on (LISTEN_FDS), or a new one at `path`;
 * `everybody`: all users may connect, else this one and root. The directory is made if it is
 * missing. A socket that nobody answers at is replaced. Errors: SGPU_ESYSTEM, also if another
 * server lives there; SGPU_EPOLICY: others could take its place. */
SGPU_MUST_CHECK int service_listen(const struct sgpu_service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Closes it, and removes it if it is still the one that was made. */
void service_close(struct service_socket *socket);

/* Tells the service manager, if there is one: "READY=1". */
void service_notify(const char *state);

/* supervisor.c: until a signal ends it. An exit status. */
int supervise(const struct server *server, struct service_socket *socket);

/* serve_worker.c: until the supervisor ends it, or has gone. An exit status. */
int serve_as_worker(struct server *server);

/* process.c: a worker process, as the supervisor sees it. */
struct process {
	pid_t pid;
	int control; /* closed by us: it gives up what it runs, and ends */
	const struct serve_counters *counters;
	unsigned generation; /* of keys: goes up with each reload */
	uint64_t started_ns;
	uint64_t given_ns; /* when it became its tenant's */
	bool ready, draining;
	uint64_t deadline_ns;  /* while it drains: when `control` is closed; then: when it is killed
				*/
	struct tenant *tenant; /* or NULL: it is spare */
	uint64_t handed, requests; /* connections that it got: of batches and of requests */
	/* Of these, what the worker says has ended: no more than there was, and what has ended once
	 * stays so. */
	uint64_t ended, requests_ended;
	struct serve_counters said; /* what it said when it was last looked at */
};
SGPU_MUST_CHECK int process_start(const struct server *server, struct process *process,
				  struct sgpu_error *error);
/* Takes what the worker says now, each counter once: all else here, and in the supervisor, goes by
 * that. */
void process_look(struct process *process);
/* Batches that it has not ended yet, each of which has a turn. No lie makes these more. */
uint64_t process_in_flight(const struct process *process);
/* Tells it what its tenant may have; false: it does not read what it is sent. */
struct tenant_rule;
bool process_limit(const struct process *process, const struct tenant_rule *rule);
/* Requests that it has not ended yet. */
uint64_t process_requests(const struct process *process);
/* For its whole life, the kernel prefers other processes to it. Once it is ready: threads that it
 * starts later do so, too. */
void process_give_way(const struct process *process);
/* It takes no more, and ends when its work has, at the latest then. */
void process_drain(struct process *process, uint64_t deadline_ns);
/* Once the kernel has told that it is dead. */
void process_bury(struct process *process);

#endif
