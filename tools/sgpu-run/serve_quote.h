/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotes of a worker process of sgpu-run serve, for a server with an attestation key. The key that
 * they name is made by the worker, is in no file, and ends with it. A worker has one tenant for its
 * life, and so has that key.
 */
#ifndef SGPU_RUN_SERVE_QUOTE_H
#define SGPU_RUN_SERVE_QUOTE_H

#include "requests.h"

/* In this order, each in its place: before any thread and any key; once the worker is open, before
 * it is confined; once the counters are there. All do nothing for a server without an attestation
 * key. */
SGPU_MUST_CHECK int serve_quote_begin(const struct server *server, struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_claim(struct server *server, struct sgpu_error *error);
SGPU_MUST_CHECK int serve_quote_start(struct serve_counters *counters, struct sgpu_error *error);

/* WIRE_QUOTE; see requests.h. */
void serve_quote(const struct request *request);

/* The key that its quotes name, or NULL: sessions are bound to it. */
const struct sgpu_key *serve_quote_key(void);
/* What a client is told besides, of a batch that none of the worker's keys opens. */
void serve_quote_explain(struct sgpu_error *error);

#endif
