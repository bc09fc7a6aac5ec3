/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a worker process of sgpu-run serve that are no batches: its tenant's clients send
 * them, the supervisor hands their connections over without a turn, and a function for each kind
 * deals with them.
 */
#ifndef SGPU_RUN_REQUESTS_H
#define SGPU_RUN_REQUESTS_H

#include "serve.h"
#include "wire.h"

struct request {
	struct server *server;
	struct serve_counters *counters; /* the worker's */
	int connection;			 /* its next message is of `kind` */
	enum wire_kind kind;
	uint64_t uid, since_ns; /* of the client, and when it connected */
};

/* Runs in the worker's loop, which nothing may hold up: what takes long gets a thread. It owns the
 * connection, and calls requests_end or requests_refuse once, from any thread. */
typedef void (*request_fn)(const struct request *request);

/* counters: the worker's. wake_fd: an eventfd that is written when a request has ended. */
void requests_open(struct serve_counters *counters, int wake_fd);
void requests_take(const struct request *request);
/* Until then other users wait for a worker, so that who waits for a client is to give up soon;
 * whether they do now. */
void requests_press(uint64_t until_ns);
bool requests_pressed(void);
/* Requests that have not ended. */
unsigned requests_under_way(void);
/* Closes the connection. */
void requests_end(int connection);
/* The same, after an answer that is an error. */
void requests_refuse(int connection, const struct sgpu_error *error);

/* ---- the requests, each in a file of its own ---- */
/* serve_lease.c. Before the worker is confined: makes the pool that `server` asks for, if it does.
 */
SGPU_MUST_CHECK int serve_lease_open(const struct server *server, struct serve_counters *counters,
				     struct sgpu_error *error);
/* All requests and runs have ended. */
void serve_lease_close(void);
/* A pool that nobody has used yet has at most so many bytes from now on. */
void serve_lease_shrink(uint64_t most);
/* What a run has to know. results: of one whose client wants its results in a lease. Errors:
 * SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int serve_lease_options(bool results, struct sgpu_run_options *options,
					struct sgpu_error *error);
void serve_lease(const struct request *request);

/* serve_limits.c, of what the worker may take of the machine's memory for its tenant. Before
 * anything is taken: the counters tell from now on what is. */
void serve_limits_open(struct serve_counters *counters);
/* Takes a WIRE_LIMITS, which has come: the worker becomes its tenant's, or the limits have changed.
 * False: it is none. */
bool serve_limits_take(const struct worker *worker);

/* The worker cannot do all that it is for any more: it takes no more work, and another takes its
 * place. Any thread. */
void requests_wear_out(void);
bool requests_worn_out(void);

#endif
