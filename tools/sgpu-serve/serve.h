/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-serve: what its verb and its supervisor share.
 *
 * The supervisor has neither keys nor a device. It accepts connections, asks the kernel for their
 * users, and hands each to the worker of its user, the tenant. A worker is a sgpu-enclave, and
 * shares no memory with the supervisor but a page of counters, which only the worker writes.
 */
#ifndef SGPU_SERVE_H
#define SGPU_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include "remote/greeting.h"
#include "runner/start.h"

CLI_VERB(serve);
CLI_VERB(status);
CLI_VERB(quote);
CLI_VERB(reload);

enum { SERVE_WORKERS_MAX = 256 };

struct server {
	struct runner_options runner;
	const char *socket;
	const char *tenants;	 /* or NULL */
	const char *sessions;	 /* a word; NULL: the default */
	struct wire_begin begin; /* of each worker */
	bool everybody;
	unsigned workers, ahead, submissions, running;
	uint64_t drain_ns;
	int enclave_fd;	  /* the program that workers are */
	char **arguments; /* of workers */
};

/* service.c. */
struct service_socket {
	int fd; /* listening, non-blocking; -1: closed */
	char path[sizeof(
		((struct sockaddr_un *)0)->sun_path)]; /* "": the service manager made it */
	dev_t device;
	ino_t inode;
};

/* Takes the socket that a service manager passed (LISTEN_FDS), or makes one at `path`, for all
 * users or for this one and root. Makes a missing directory, and replaces a socket at which no
 * server answers. Errors: SGPU_EUSAGE; SGPU_ESYSTEM, also if a server listens there; SGPU_EPOLICY:
 * others could replace the socket. */
SGPU_MUST_CHECK int service_listen(const struct sgpu_service_path *path, bool everybody,
				   struct service_socket *socket, struct sgpu_error *error);
/* Removes the socket if service_listen made it. */
void service_close(struct service_socket *socket);

/* Tells the service manager, if any, a state such as "READY=1". */
void service_notify(const char *state);

/* Limits and shares of a server's users: the file of sgpu-serve --tenants. One user a line:
 *
 *   # name or uid, or * for all others     what differs from the default
 *   alice    weight=3 priority=high
 *   1001     in-flight=2 waiting=16 device-memory=8G
 *   *        waiting=8
 */

enum { TENANTS_NAMED_MAX = 1024, TENANT_BATCHES_MAX = 1024 };
/* Bytes; with less, nothing could be staged. */
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

/* path NULL: the default for everybody. Errors, which leave *rules unchanged: SGPU_EINVALID, with
 * the line; SGPU_EPOLICY: others may write to the file; errors of reading. */
SGPU_MUST_CHECK int tenant_rules_load(const char *path, struct tenant_rules *rules,
				      struct sgpu_error *error);

const struct tenant_rule *tenant_rules_find(const struct tenant_rules *rules, uid_t uid);

/* Looks in /etc/passwd alone, since other sources may be slow. "": not found. */
void tenant_user_name(uid_t uid, char *name, size_t size);

/* supervisor.c: runs until a signal, or until its first worker fails. Returns an exit status. */
int supervise(const struct server *server, struct service_socket *socket);

/* workers.c: a worker, as the supervisor sees it. */
struct process {
	pid_t pid;
	int control; /* when this socket is closed, the worker cancels its runs and ends */
	const struct serve_counters *counters;
	unsigned generation; /* of the keys that it has read */
	uint64_t started_ns;
	uint64_t given_ns; /* when it was given to its tenant */
	bool ready, draining;
	uint64_t deadline_ns;  /* end of draining: `control` is closed then, and later the worker is
				* killed */
	struct tenant *tenant; /* NULL: spare */
	uint64_t handed, requests; /* connections handed to it: with batches; with requests */
	/* how many of these ended, as the worker says; at most what it got, and never decreasing */
	uint64_t ended, requests_ended;
	struct serve_counters said; /* its counters at the last process_look */
};
SGPU_MUST_CHECK int process_start(const struct server *server, struct process *process,
				  struct sgpu_error *error);
/* Copies the worker's counters to `said`, which all other code uses and the worker cannot
 * change. */
void process_look(struct process *process);
/* Batches that the worker has not ended, a turn each. False counters cannot raise this. */
uint64_t process_in_flight(const struct process *process);
/* Tells a worker its limits; false: it does not read its messages. */
bool process_limit(const struct process *process, const struct tenant_rule *rule);
uint64_t process_requests(const struct process *process);
/* Has a worker end with its last batch, by deadline_ns at latest. */
void process_drain(struct process *process, uint64_t deadline_ns);
/* Frees a worker that has ended or could not be started. */
void process_bury(struct process *process);

#endif
