/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that signs the quotes of a worker of sgpu-run serve: a child of the worker, which has
 * the attestation key and nothing else of it. Once, before the worker takes what clients send, it
 * is told the claims; from then on it is told nonces. So a worker that a batch has taken over gets
 * no quote but of the key that it has anyway, and no attestation key.
 */
#ifndef SGPU_RUN_QUOTER_H
#define SGPU_RUN_QUOTER_H

#include <jansson.h>

#include <sgpu/attest.h>

#include "wire.h"

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

#endif
