/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to a server that one answer ends; see requests.h for the other side.
 */
#ifndef SGPU_RUN_ASK_H
#define SGPU_RUN_ASK_H

#include "wire.h"

struct ask {
	enum wire_kind kind;
	void *message;
	size_t size;
	enum wire_kind expected; /* the answer, which brings a memory file */
	size_t most;		 /* bytes that are read of it */
	unsigned patience_s;	 /* for the answer */
};

/* Asks the server at `socket` (NULL: the usual one). *text is from malloc, with a NUL behind it.
 * Errors: those of finding the server; the one that it answers with; SGPU_ESYSTEM: it has ended, or
 * a worker of it. */
SGPU_MUST_CHECK int ask_server(const char *socket, const struct ask *question, char **text,
			       size_t *size, struct sgpu_error *error);

/* The parts of it, for who goes on with the connection: connects and sends, *connection is -1
 * before; and waits until the server has said something. An answer that is an error is the error
 * that is returned. */
SGPU_MUST_CHECK int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size,
			     int *connection, struct sgpu_error *error);
SGPU_MUST_CHECK int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error);

#endif
