/* SPDX-License-Identifier: Apache-2.0
 *
 * How the host's programs start sgpu-enclave, and give it batches.
 */
#ifndef SGPU_START_H
#define SGPU_START_H

#include <sys/types.h>

#include "runner.h"
#include "wire.h"

/* Makes the arguments of a worker: the options in RUNNER_PASSED that this program was given, and
 * its -q, -v and --json. key: as for runner_spawn. *words: static. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int runner_arguments(int key, char ***words, struct sgpu_error *error);

/* Opens sgpu-enclave, beside the running program and never by PATH. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int runner_find(int *fd, struct sgpu_error *error);
/* Executes sgpu-enclave in this process. Returns only on failure. Errors: SGPU_ESYSTEM. */
int runner_execute(int fd, char **argv, struct sgpu_error *error);

/* Descriptors of a worker. */
enum { RUNNER_CONTROL_FD = 3, RUNNER_KEY_FD = 5 };
/* Starts a worker, with `begin` and a new memory file for its counters, mapped at *counters for
 * reading unless counters is NULL. key: -1, or the worker's RUNNER_KEY_FD. *control: its socket.
 * Errors: SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int runner_spawn(int program, char **arguments, const struct wire_begin *begin,
				 int key, pid_t *pid, int *control,
				 const struct serve_counters **counters, struct sgpu_error *error);

/* ---- a link ----
 * A sgpu-enclave that a program of the same user starts and gives batches, one after the other on a
 * connection: see wire.h. What the enclave says is a hint: at worst, batches fail or stay. */
struct link {
	pid_t pid; /* 0: it has ended, with `status` */
	int status;
	int control; /* -1: it was not started */
};

/* submissions: most batches at a time. key: as runner_spawn. Errors: as of runner_find and
 * runner_spawn. */
SGPU_MUST_CHECK int link_start(struct link *link, uint64_t submissions, int key,
			       struct sgpu_error *error);
/* Waits until the enclave is ready. Returns 0, or the exit status after the enclave's message. */
int link_ready(struct link *link, struct wire_ready *ready);
/* Sends the descriptors of a batch and its response's place. *connection: one on which a batch was
 * answered, or -1 for a new one. message: names and limit of time. Errors: SGPU_EDEVICE: the
 * enclave has ended. */
SGPU_MUST_CHECK int link_submit(struct link *link, struct wire_submit *message, int batch,
				int response, int *connection, struct sgpu_error *error);
/* Receives the answer; false: there is none yet. error->code: that of the answer, or SGPU_EDEVICE
 * if the enclave has ended; then *connection is closed, and -1. */
bool link_hear(struct link *link, struct wire_answer *answer, int *connection,
	       struct sgpu_error *error);
/* Has the enclave end, and waits for that. */
void link_close(struct link *link);

#endif
