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
	struct server *server;
	struct serve_counters *counters; /* the worker's */
	int connection;			 /* its next message is of `kind` */
	enum wire_kind kind;
	uint64_t uid, since_ns; /* of the client, and when it connected */
};

/* counters: the worker's. wake_fd: an eventfd that is written when a request has ended. */
void requests_open(struct serve_counters *counters, int wake_fd);
/* Has serve_lease, serve_quote or session_take deal with it, in the worker's loop, which nothing
 * may hold up: what takes long gets a thread. They own the connection, and call requests_end or
 * requests_refuse once, from any thread. */
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
void serve_lease(const struct request *request);

/* requests.c, of what the worker may take of the machine's memory for its tenant. Before
 * anything is taken: the counters tell from now on what is. */
void serve_limits_open(struct serve_counters *counters);
/* Takes a WIRE_LIMITS, which has come: the worker becomes its tenant's, or the limits have changed.
 * False: it is none. */
bool serve_limits_take(const struct worker *worker);

/* The worker cannot do all that it is for any more: it takes no more work, and another takes its
 * place. Any thread. */
void requests_wear_out(void);
bool requests_worn_out(void);

/* The process that signs the quotes of a worker of sgpu-run serve: a child of the worker, which has
 * the attestation key and nothing else of it. Once, before the worker takes what clients send, it
 * is told the claims; from then on it is told nonces. So a worker that a batch has taken over gets
 * no quote but of the key that it has anyway, and no attestation key. */

/* Starts it, and waits until it has read the key and the certificate. Before any thread and any
 * secret. *fd: of the worker's end; the other ends when that is closed. Errors: those of reading
 * them, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int quoter_start(const char *key, const char *certificate, int *fd,
				 struct sgpu_error *error);
/* Tells it the claims: nonce, time, machine and records are its own business. */
SGPU_MUST_CHECK int quoter_claim(int fd, const json_t *claims, struct sgpu_error *error);
/* Waits for a quote, in a memory file that is the caller's. One call at a time. Errors:
 * SGPU_ESYSTEM: the other has ended; those of making a quote. */
SGPU_MUST_CHECK int quoter_quote(int fd, struct wire_quote *question, int *quote,
				 struct sgpu_error *error);

/* Quotes of a worker process of sgpu-run serve, for a server with an attestation key. The key that
 * they name is made by the worker, is in no file, and ends with it. A worker has one tenant for its
 * life, and so has that key. */

/* In this order, each in its place: before any thread and any key; once the worker is open, before
 * it is confined; once the counters are there. All do nothing for a server without an attestation
 * key. */
SGPU_MUST_CHECK int serve_quote_begin(const struct server *server, struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_claim(struct server *server, struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_start(struct serve_counters *counters, struct sgpu_error *error);

void serve_quote(const struct request *request);

/* The key that its quotes name, or NULL: sessions are bound to it. */
const struct sgpu_key *serve_quote_key(void);
/* What a client is told besides, of a batch that none of the worker's keys opens. */
void serve_quote_explain(struct sgpu_error *error);

/* Sessions of programs (sgpu/session.h) in a worker process of sgpu-run serve: a thread each. */

void session_take(const struct request *request);
/* As many as that at a time, from now on; those that are there stay. By the thread that takes them.
 */
void sessions_limit(unsigned count);
/* Ends those that have had nothing to do for so long. 0: all of them. Does not wait. */
void sessions_end(uint64_t idle_ns);

#endif
