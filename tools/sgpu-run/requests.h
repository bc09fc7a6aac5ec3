/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to a worker process of sgpu-run serve that are no batches: its tenant's clients send
 * them, the supervisor hands their connections over without a turn, and a function for each kind
 * deals with them.
 */
#ifndef SGPU_RUN_REQUESTS_H
#define SGPU_RUN_REQUESTS_H

#include <jansson.h>
#include <sgpu/attest.h>

#include "serve.h"
#include "wire.h"

struct request {
	const struct server *server;
	struct serve_counters *counters; /* the worker's */
	int connection;			 /* its next message is of `kind` */
	enum wire_kind kind;
	uint64_t uid; /* of the client */
};

/* Before anything is taken of the machine: the counters tell from now on what is. wake_fd: an
 * eventfd that is written when a request has ended. */
void requests_open(const struct server *server, struct serve_counters *counters, int wake_fd);
/* A thread deals with what comes on the connection, and closes that. */
void requests_take(int connection, uint64_t uid);
/* Until then other users wait for a worker, so that who waits for a client is to give up soon;
 * whether they do now. */
void requests_press(uint64_t until_ns);
bool requests_pressed(void);
/* Requests that have not ended. */
unsigned requests_under_way(void);

/* A thread of the worker that nobody waits for. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int requests_start_thread(void *(*function)(void *), void *argument,
					  struct sgpu_error *error);

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
SGPU_MUST_CHECK int serve_lease(const struct request *request, struct sgpu_error *error);

/* requests.c. Takes a WIRE_LIMITS, which has come: the worker becomes its tenant's, or the limits
 * have changed. False: it is none. */
bool serve_limits_take(const struct worker *worker);

/* Quotes of a worker process of sgpu-run serve, for a server with an attestation key. The key that
 * they name is made by the worker, is in no file, and ends with it. A worker has one tenant for its
 * life, and so has that key. */

/* In this order, each in its place: before any thread and any key; once the worker is open, before
 * it is confined. Both do nothing for a server without an attestation key. */
SGPU_MUST_CHECK int serve_quote_begin(const struct server *server, struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_claim(struct server *server, struct sgpu_error *error);

SGPU_MUST_CHECK int serve_quote(const struct request *request, struct sgpu_error *error);

/* The key that its quotes name, or NULL: sessions are bound to it. */
const struct sgpu_key *serve_quote_key(void);
/* What a client is told besides, of a batch that none of the worker's keys opens. */
void serve_quote_explain(struct sgpu_error *error);

/* A session of a program (sgpu/session.h), to its end. */
SGPU_MUST_CHECK int serve_session(const struct request *request, struct sgpu_error *error);
/* As many as that at a time, from now on; those that are there stay. */
void sessions_limit(unsigned count);
/* Ends those that have had nothing to do for so long. 0: all of them. Does not wait. */
void sessions_end(uint64_t idle_ns);

#endif
