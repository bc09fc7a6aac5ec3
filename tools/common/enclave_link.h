/* SPDX-License-Identifier: Apache-2.0
 *
 * A sgpu-enclave that a program of the same user starts and gives batches, one after the other on a
 * connection: see wire.h. What the enclave says is a hint: at worst, batches fail or stay.
 */
#ifndef SGPU_ENCLAVE_LINK_H
#define SGPU_ENCLAVE_LINK_H

#include "start.h"
#include "wire.h"

struct link {
	pid_t pid; /* 0: it has ended, with `status` */
	int status;
	int control; /* -1: it was not started */
};

/* submissions: most batches at a time. key: as runner_spawn. Errors: SGPU_ESYSTEM, SGPU_ENOMEM. */
SGPU_MUST_CHECK int link_start(struct link *link, int program, uint64_t submissions, int key,
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
/* Has the enclave end; link_wait() waits for that. */
void link_end(struct link *link);
void link_wait(struct link *link);

#endif
