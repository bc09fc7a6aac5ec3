/* SPDX-License-Identifier: Apache-2.0
 *
 * How a program asks `sgpu-run serve` for a session: a packet of a SOCK_SEQPACKET socket, with the
 * ring's memory and the area as descriptors, and what is answered. These are messages of
 * tools/sgpu-run/wire.h, of which this is all that the library knows.
 */
#ifndef SGPU_REMOTE_GREETING_H
#define SGPU_REMOTE_GREETING_H

#include <stdint.h>

#include <sgpu/error.h>

enum {
	SGPU_GREETING_MAGIC = 0x53475055,
	SGPU_GREETING_VERSION = 5,
	SGPU_GREETING_TAKEN = 5,
	SGPU_GREETING_REFUSED = 6,
	SGPU_GREETING_SESSION = 15,
};

/* The head of each message, and all of the request and of SGPU_GREETING_TAKEN. */
struct sgpu_greeting {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t size;
	uint32_t zero;
};

/* What SGPU_GREETING_REFUSED begins with. */
struct sgpu_refusal_of_session {
	struct sgpu_greeting greeting;
	struct sgpu_error error;
};

#endif
