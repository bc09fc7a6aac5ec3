/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of sgpu-serve, its clients and its workers. sgpu-serve(5) says who sends which,
 * when, of which length and with how many descriptors.
 */
#ifndef SGPU_WIRE_H
#define SGPU_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>
#include <sgpu/keys.h>

#include "remote/greeting.h"
#include "stage/lease.h"
#include "run/run.h"

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
	WIRE_BEGIN,
	WIRE_KINDS
};

enum { WIRE_TEXT_MAX = 1 << 20 };

/* The worker's keys, and the first device's memory. */
enum { WIRE_KIDS_MAX = 64 };
struct wire_ready {
	struct sgpu_greeting header;
	uint64_t memory_free; /* bytes */
	uint64_t kid_count;
	char kids[WIRE_KIDS_MAX][SGPU_KID_SIZE + 1];
};

/* Comes with three descriptors: the batch, the response, and the manifest of a batch that names it
 * by its hash, or again the batch. */
struct wire_submit {
	struct sgpu_greeting header;
	uint64_t timeout_ns; /* 0: none */
	uint64_t lease;	     /* 1: results are to be left in a lease */
	uint64_t manifest;   /* 1: the third descriptor is a manifest */
	/* for messages, which hold no longer ones */
	char in_name[SGPU_ERROR_TEXT_MAX], out_name[SGPU_ERROR_TEXT_MAX];
	char results[SGPU_HANDLE_TEXT]; /* where results go; "": with the response */
};

/* id "": a lease of `size` bytes for a batch's payloads; else that of its results. */
struct wire_lease {
	struct sgpu_greeting header;
	uint64_t size;
	uint8_t batch_id[SGPU_BATCH_ID_SIZE];
	char id[SGPU_REGION_ID_TEXT + 8];
};

struct wire_lease_is {
	struct sgpu_greeting header;
	struct sgpu_lease lease;
	uint64_t pool_size;
};

/* The outcome of a run, without pointers, since it may come from another process. */
enum { REPORT_NAME_MAX = 256, REPORT_USER_MAX = 33 };
struct report {
	char batch_id[REPORT_NAME_MAX]; /* "": the input is no batch */
	char manifest_id[REPORT_NAME_MAX], kid[REPORT_NAME_MAX], owner[REPORT_NAME_MAX],
		aead[REPORT_NAME_MAX];
	struct sgpu_run_progress progress;
	struct sgpu_run_total totals[SGPU_SPAN_KINDS];
	struct sgpu_run_paths paths;
	struct sgpu_device_info device; /* the first device */
	int devices;
};

struct wire_answer {
	struct sgpu_greeting header;
	struct sgpu_error error; /* code SGPU_OK: done */
	struct report report;
	uint64_t response_full; /* 1: the response found no space */
	uint64_t response_size; /* least bytes that it needs; 0: not known */
};

struct wire_progress {
	struct sgpu_greeting header;
	struct sgpu_run_progress progress;
};

/* Whose sessions a worker takes. */
enum wire_sessions { WIRE_SESSIONS_NONE, WIRE_SESSIONS_OWNERS, WIRE_SESSIONS_ANY, WIRE_SESSIONS };
extern const char *const wire_sessions[WIRE_SESSIONS];

/* How a worker serves; comes with the descriptor of a struct serve_counters. */
struct wire_begin {
	struct sgpu_greeting header;
	uint64_t submissions;	   /* most batches at a time */
	uint64_t leases, lease_ns; /* bytes of the pool, 0: none; how long a lease without holder
				      stays, 0: the default */
	uint64_t stall_ns;	   /* how long a lease may wait for its client, or a session be
				      idle, while others wait for a worker */
	uint64_t sessions;	   /* an enum wire_sessions */
	uint64_t spool;		   /* 1: batches come from a spool */
	uint64_t session_memory;   /* bytes of device memory that a session may have; 0: all */
};

struct wire_take {
	struct sgpu_greeting header;
	uint64_t uid;		    /* of the client, as the kernel says */
	uint64_t since_ns;	    /* when it connected */
	uint64_t request;	    /* 1: counts as a request; 0: as a batch */
	char user[REPORT_USER_MAX]; /* the client's name, for the log; "": it has none */
};

/* The limits of the worker's tenant; of memory in bytes, 0: none. */
struct wire_limits {
	struct sgpu_greeting header;
	uint64_t device_memory, host_memory;
	uint64_t sessions; /* most sessions; 0 allows none */
};

/* Sent to the worker, which passes it on to the process that signs. */
struct wire_quote {
	struct sgpu_greeting header;
	uint32_t nonce_size; /* bytes of `nonce` */
	uint32_t debugged;   /* set by the worker: 1 if others may read its memory */
	uint8_t nonce[64];
};

/* Sums over batches; those before SERVE_RESULTS count outcomes. Only SERVE_FAILED counts faults of
 * this machine; no user may be able to raise it. SERVE_LATENCY_NS: from connections to answers. */
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
	SERVE_SUMS
};

/* Only the worker writes these; they may be false. It sends WIRE_NOTE after a change of the first
 * two. */
struct serve_counters {
	_Atomic uint64_t ended;		 /* connections with batches that it has closed */
	_Atomic uint64_t requests_ended; /* the same with requests */
	_Atomic uint64_t quoted_ns;	 /* when it gave its last quote, or 0 */
	_Atomic uint64_t leases, leased_bytes, pool_bytes;
	_Atomic uint64_t sums[SERVE_SUMS];
	_Atomic uint64_t sessions;
	_Atomic uint64_t device_bytes, host_bytes; /* memory in use, as base/base.h counts it */
};

enum { SERVE_SUBMISSIONS_MAX = 1024, TENANT_SESSIONS_MAX = 16 };

/* All other messages are a header alone. */

/* Receives a message of that kind and size with exactly `count` descriptors, which the caller
 * closes; WIRE_KINDS: of any kind, with at most `size` bytes and `count` descriptors. Does not
 * block. Errors: SGPU_ECANCELED: the peer has gone; SGPU_ETIMEOUT: there is no
 * message; SGPU_EINVALID: another message, whose descriptors are closed; SGPU_ERETRY: descriptors
 * are missing, since this process has too many open. */
SGPU_MUST_CHECK int wire_receive(int socket, enum wire_kind kind, void *message, size_t size,
				 int *fds, int count, struct sgpu_error *error);

/* Send and receive a header alone. */
bool wire_say(int socket, enum wire_kind kind);
SGPU_MUST_CHECK int wire_hear(int socket, enum wire_kind kind, struct sgpu_error *error);

/* Send and receive a text of at most WIRE_TEXT_MAX bytes, a long one in a memory file. *text: from
 * malloc, with a NUL appended. Errors: SGPU_ESYSTEM, SGPU_EINVALID. */
SGPU_MUST_CHECK int wire_say_text(int socket, enum wire_kind kind, const char *text, size_t size,
				  struct sgpu_error *error);
SGPU_MUST_CHECK int wire_hear_text(int socket, enum wire_kind kind, char **text, size_t *size,
				   struct sgpu_error *error);

/* For clients: SGPU_EINVALID of these functions becomes SGPU_ESYSTEM, since not what was asked is
 * at fault. */
int wire_fault(int code, struct sgpu_error *error);

/* The message stays in the queue; WIRE_KINDS: none. Errors as of wire_receive. */
SGPU_MUST_CHECK int wire_peek(int socket, enum wire_kind *kind, struct sgpu_error *error);

/* Whether messages of this kind are requests to a worker. */
bool wire_is_request(enum wire_kind kind);

/* Sends an answer, and of the error only its texts: behind them may be any memory of this
 * process. */
void wire_answer(int socket, struct wire_answer *answer, const struct sgpu_error *error);
void wire_refuse(int socket, const struct sgpu_error *error);

/* Whether the server takes a descriptor as a batch or, if `writes` is set, a response's place: only
 * files in memory and on a disk, on which no call can block for ever. A client copies pipes and
 * files of network file systems, FUSE, overlays, /proc and /sys through memory. Never blocks. */
bool wire_takes(int fd, bool writes);

/* Makes an answer from another process safe to print. */
void wire_clean(struct wire_answer *answer);

/* report.c: what programs say about a run besides the response. */

/* Prints a line on standard error, unless -q: batch, owner, key used, sizes, time, code. file: the
 * batch's, or NULL. by: the user and their error's text, for a server's log; or NULL. */
struct report_user {
	uint64_t uid;
	const char *name, *reason; /* may be "" */
};
void report_batch(const struct report *report, const char *file, int code,
		  const struct report_user *by);

/* Sends the reader of `fd` a refusal if a run was refused. A regular file that -o names gets none,
 * so that each file with a response's name is a response. */
void report_refusal(int fd, const struct report *report, const struct sgpu_error *why);
/* Prints the line of report_batch and, with `stats`, times and bytes by stage on standard error.
 * Call after all is written. */
void report_outcome(const struct report *report, bool stats, int code);

/* Requests to a server with one answer; requests.c of sgpu-enclave is the other side. */

/* Sends the server at `socket` (NULL: the default) a message, and receives the text of its answer.
 * *text: from malloc, with a NUL appended. Errors: those of finding the server; the
 * error in its answer; SGPU_ESYSTEM: the server or its worker has ended, or is silent. */
SGPU_MUST_CHECK int ask_server(const char *socket, enum wire_kind kind, void *message,
			       size_t message_size, enum wire_kind expected, unsigned patience_s,
			       char **text, size_t *size, struct sgpu_error *error);

/* Parts of ask_server, for callers that go on with the connection. ask_open connects and sends; set
 * *connection to -1 before. ask_wait waits for a message, and returns the error in it, if any. */
SGPU_MUST_CHECK int ask_open(const char *socket, enum wire_kind kind, void *message, size_t size,
			     int *connection, struct sgpu_error *error);
SGPU_MUST_CHECK int ask_wait(int connection, unsigned patience_s, struct sgpu_error *error);
/* Receives a WIRE_ANSWER that has come; returns the error in it. */
SGPU_MUST_CHECK int ask_error(int connection, struct sgpu_error *error);

#endif
