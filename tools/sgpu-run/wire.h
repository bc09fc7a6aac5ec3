/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of sgpu-run serve: one packet of a SOCK_SEQPACKET socket each, of a fixed size, in
 * the byte order of the machine. Client and server are programs of one machine; a client of another
 * version is refused.
 *
 *   client -> server    WIRE_STATUS, answered with WIRE_STATUS_IS; or WIRE_SUBMIT, which the
 *                       server does not read:
 *   server -> client    WIRE_QUEUED, if there is no turn for it yet
 *   server -> worker    WIRE_TAKE with the connection, whose next message is that WIRE_SUBMIT
 *   client -> worker    WIRE_SUBMIT with two descriptors, then WIRE_PROGRESS as often as it likes
 *   worker -> client    WIRE_TAKEN, WIRE_PROGRESS_IS for each WIRE_PROGRESS, WIRE_ANSWER at the end
 *   client -> worker    WIRE_LEASE, WIRE_SESSION, WIRE_QUOTE: requests, which come to the worker
 *                       as WIRE_SUBMIT does, but need no turn; requests.c
 *   worker -> client    WIRE_QUOTE_IS; any other end of a request is a WIRE_ANSWER
 *   worker -> client    WIRE_LEASE_IS, with the pool; the client then says WIRE_LEASE_DONE, and
 *                       hears it
 *   worker -> server    WIRE_READY once it can take work; WIRE_NOTE: its counters say something new
 *   server -> worker    WIRE_DRAIN, take no more and end; WIRE_PRESS: others wait for a worker,
 *                       so end what waits for a client; WIRE_LIMITS, what its tenant may have:
 *                       before anything else when it becomes a tenant's
 *
 * Whoever closes a connection ends what it was for: a client its run, the server its workers.
 */
#ifndef SGPU_RUN_WIRE_H
#define SGPU_RUN_WIRE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/error.h>

#include "remote/greeting.h"
#include "stage/lease.h"
#include "report.h"

enum wire_kind {
	WIRE_STATUS = 1,
	WIRE_SUBMIT,
	WIRE_PROGRESS,
	WIRE_STATUS_IS,
	WIRE_TAKEN = SGPU_GREETING_TAKEN,
	WIRE_ANSWER = SGPU_GREETING_REFUSED,
	WIRE_PROGRESS_IS,
	WIRE_READY,
	WIRE_TAKE,
	WIRE_DRAIN,
	WIRE_QUEUED,
	WIRE_NOTE,
	WIRE_PRESS,
	WIRE_LEASE,
	WIRE_SESSION = SGPU_GREETING_SESSION,
	WIRE_QUOTE,
	WIRE_QUOTE_IS,
	WIRE_CLAIMS,
	WIRE_LEASE_IS,
	WIRE_LEASE_DONE,
	WIRE_LIMITS,
	WIRE_KINDS
};

enum { WIRE_TEXT_MAX = 1 << 20 };

/* Comes with two descriptors: the batch, the response. */
struct wire_submit {
	struct sgpu_greeting header;
	uint64_t timeout_ns;			  /* 0: none */
	uint64_t lease;				  /* 1: results are to be left in a lease */
	uint64_t replaced_device, replaced_inode; /* the file that the response replaces; 0: none */
	char in_name[PATH_MAX], out_name[PATH_MAX]; /* for messages */
};

/* id "": asks for a lease of this size for the payloads of a batch. Else: for the lease with its
 * results. */
struct wire_lease {
	struct sgpu_greeting header;
	uint64_t size;
	uint8_t batch_id[SGPU_BATCH_ID_SIZE];
	char id[SGPU_REGION_ID_TEXT + 8];
};

/* Comes with the descriptor of the pool. */
struct wire_lease_is {
	struct sgpu_greeting header;
	struct sgpu_lease lease;
	uint64_t pool_size;
};

struct wire_answer {
	struct sgpu_greeting header;
	struct sgpu_error error; /* code SGPU_OK: done */
	struct report report;
};

struct wire_progress {
	struct sgpu_greeting header;
	struct sgpu_run_progress progress;
	uint64_t bytes_in_all;
};

struct wire_take {
	struct sgpu_greeting header;
	uint64_t uid;		    /* of the client, as the kernel says */
	uint64_t since_ns;	    /* when it connected */
	uint64_t request;	    /* 1: it is counted as a request; 0: as a batch */
	char user[REPORT_USER_MAX]; /* the client's name, for the log; "": it has none */
};

/* Bytes; 0: no limit. */
struct wire_limits {
	struct sgpu_greeting header;
	uint64_t device_memory, host_memory;
	uint64_t sessions; /* most sessions; 0 allows none */
};

/* Sent to the worker, which passes it on to the process that signs. */
struct wire_quote {
	struct sgpu_greeting header;
	uint32_t nonce_size; /* bytes of `nonce` */
	uint32_t debugged;   /* set by the worker: 1 if others may look into its memory */
	uint8_t nonce[64];
};

/* All other messages are a header alone. WIRE_STATUS_IS and WIRE_QUOTE_IS have a memory file as
 * descriptor, of at most WIRE_TEXT_MAX bytes of JSON; and so has WIRE_CLAIMS, from the worker to
 * the process that signs. */

/* Receives one message of that kind and size with exactly `count` descriptors, which the caller
 * closes. Does not block. Errors: SGPU_ECANCELED: the peer has gone; SGPU_ETIMEOUT: nothing is
 * there; SGPU_EINVALID for anything else, of which no descriptor is left. */
SGPU_MUST_CHECK int wire_receive(int socket, enum wire_kind kind, void *message, size_t size,
				 int *fds, int count, struct sgpu_error *error);

/* The same for a header alone, with the descriptor `fd`, or none: -1, NULL. */
bool wire_say(int socket, enum wire_kind kind, int fd);
SGPU_MUST_CHECK int wire_hear(int socket, enum wire_kind kind, int *fd, struct sgpu_error *error);

/* Sends a text in a memory file. Errors: SGPU_ESYSTEM. */
SGPU_MUST_CHECK int wire_say_text(int socket, enum wire_kind kind, const char *text, size_t size,
				  struct sgpu_error *error);
/* Reads the text in such a file, at most `most` bytes, into memory from malloc, with a NUL behind
 * it. Closes the file. It must be a memory file: another file system may never answer. */
SGPU_MUST_CHECK int wire_take_text(int file, const char *name, size_t most, char **text,
				   size_t *size, struct sgpu_error *error);

/* The kind of the next message, which stays where it is with its descriptors. Errors as those of
 * wire_receive. */
SGPU_MUST_CHECK int wire_peek(int socket, enum wire_kind *kind, struct sgpu_error *error);

/* Whether such a message is a request to a worker. */
bool wire_is_request(enum wire_kind kind);

/* Sends an answer that is an error. */
void wire_refuse(int socket, const struct sgpu_error *error);

/* Whether the server takes the descriptor of a batch, or of the place of a response: files in
 * memory and on a disk, on which no call can block for ever. Not pipes, network file systems, FUSE,
 * overlays, and files that show the kernel or another process: a client copies those through
 * memory. Never blocks, either. */
bool wire_takes_batch(int fd);
bool wire_takes_response(int fd);

/* Makes an answer from another process fit to be printed. */
void wire_clean(struct wire_answer *answer);

/* A request to a server that one answer ends; see requests.c for the other side. */

/* Asks the server at `socket` (NULL: the usual one) for an answer with a memory file; *text is from
 * malloc, with a NUL behind it. Errors: those of finding the server; the one that it answers with;
 * SGPU_ESYSTEM: it, or its worker, has ended. */
SGPU_MUST_CHECK int ask_server(const char *socket, enum wire_kind kind, void *message,
			       size_t message_size, enum wire_kind expected, unsigned patience_s,
			       char **text, size_t *size, struct sgpu_error *error);

/* The parts of ask_server, for callers that go on with the connection. ask_open connects and sends;
 * *connection is -1 on an error. ask_wait waits until the server has sent something; if that is an
 * error, returns it. */
SGPU_MUST_CHECK int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size,
			     int *connection, struct sgpu_error *error);
SGPU_MUST_CHECK int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error);
/* Receives a WIRE_ANSWER, which has come, and returns the error in it. */
SGPU_MUST_CHECK int ask_error(int connection, struct sgpu_error *error);

/* Leases of a server, as its clients have them; sgpu-seal has this, too. */

/* A lease, which this process holds as long as the connection is open. */
struct lease_client {
	int connection; /* -1: none */
	int pool;	/* the pool's file */
	struct sgpu_lease lease;
};
#define LEASE_CLIENT_INIT                    \
	{                                    \
		.connection = -1, .pool = -1 \
	}

/* Asks the server at `socket` (see sgpu_service_find) for a lease of `size` bytes for the payloads
 * of a batch, or, with an id, for that of its results. Errors: the server's (SGPU_ERETRY: no room;
 * SGPU_EUNAVAILABLE: it gives none), and those of sgpu_service_connect. */
SGPU_MUST_CHECK int lease_client_open(const char *socket,
				      const uint8_t batch_id[SGPU_BATCH_ID_SIZE], const char *id,
				      uint64_t size, struct lease_client *client,
				      struct sgpu_error *error);
/* Says that the lease is filled, for its batch to take, or has been read, and ends. Errors:
 * SGPU_ESYSTEM. */
SGPU_MUST_CHECK int lease_client_done(struct lease_client *client, struct sgpu_error *error);
/* Gives the lease up. If it is not done, one to be filled ends, and one to be read stays for its
 * time. */
void lease_client_close(struct lease_client *client);

#endif
