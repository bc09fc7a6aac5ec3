/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-enclave --serve: a worker of sgpu-serve, for the clients of one tenant.
 */
#ifndef SGPU_SERVING_H
#define SGPU_SERVING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "enclave.h"

/* Serves until the supervisor ends this process or has ended itself. Returns an exit status. */
int serve(struct enclave *enclave);

/* serving.c: shared by these files. */
extern struct serving {
	struct enclave *enclave;
	struct wire_begin begin; /* what the supervisor says */
	int control;		 /* the supervisor's socket */
	bool used;		 /* it has handed over a connection */
	struct serve_counters *counters;
	int wake_fd;		   /* eventfd, written when it may be over */
	atomic_bool draining;	   /* takes no work, and ends with the last submission */
	atomic_uint requests;	   /* requests that have not ended */
	_Atomic uint64_t press_ns; /* until then other users wait for a worker, so threads soon give
				    * up waiting for a client */
} serving;

/* A connection with a client, and its submission; a spool's worker sends the next one there. */
struct work {
	uint64_t number; /* an event may still come for a connection that is closed */
	int connection;
	bool gone;		/* the client has hung up, or is to be left */
	int fds[3];		/* the batch, the response, and the manifest or again the batch */
	uint64_t uid, since_ns; /* since_ns: when the client connected */
	char user[REPORT_USER_MAX];
	struct wire_submit request;
	bool watched;	      /* the connection is, or was */
	bool heard;	      /* it is watched while a batch runs */
	bool busy;	      /* only the thread that has the batch may end this work */
	bool held;	      /* it was busy at the last tick */
	struct sgpu_run *run; /* NULL: not made yet, or nothing is under way */
};

/* work.c: receives the submission, which is there, and makes its run. */
SGPU_MUST_CHECK int work_begin(struct work *work, struct sgpu_run **run, struct sgpu_error *error);
/* Fills in the answer but for its error, and counts and logs the batch. run: NULL if it was not
 * made. May add a hint to the error. Waits for the log. */
void work_report(struct work *work, const struct sgpu_run *run, struct wire_answer *answer,
		 struct sgpu_error *error);

/* Starts a thread that serves the request on the connection and closes it. Requests, unlike
 * batches, have no turn. */
void requests_take(int connection);

/* leases.c. Makes the pool. Call before the system calls are filtered. */
SGPU_MUST_CHECK int serve_lease_open(uint64_t size, struct sgpu_error *error);
/* Frees the pool. All requests and runs must have ended. */
void serve_lease_close(void);
/* Replaces a pool of more than `most` bytes, which nobody has used, by a smaller one. */
void serve_lease_shrink(uint64_t most);
/* Sets a run's options for the pool. results: these stay in a lease. Errors: SGPU_EUNAVAILABLE:
 * there is no pool. */
SGPU_MUST_CHECK int serve_lease_options(bool results, struct sgpu_run_options *options,
					struct sgpu_error *error);
SGPU_MUST_CHECK int serve_lease(int connection, struct sgpu_error *error);

/* requests.c */
void serve_limits(const struct wire_limits *limits);

/* Ends sessions that were idle for at least idle_ns; 0: all. Does not wait for that. */
void sessions_end(uint64_t idle_ns);

#endif
