/* SPDX-License-Identifier: Apache-2.0
 *
 * How the host's programs start sgpu-enclave.
 */
#ifndef SGPU_START_H
#define SGPU_START_H

#include <limits.h>
#include <sys/types.h>

#include "runner.h"

/* Makes the arguments of a worker: the options in RUNNER_PASSED that this program was given, and
 * its -q, -v and --json. key: as for runner_spawn. *words: static. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int runner_arguments(int key, char ***words, struct sgpu_error *error);

/* Returns the path of a name beside the running program; "" if it is too long. */
const char *runner_beside(const char *name, char path[PATH_MAX]);
/* Opens sgpu-enclave, beside the running program and never by PATH. Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int runner_find(int *fd, struct sgpu_error *error);
/* Executes sgpu-enclave in this process. Returns only on failure. Errors: SGPU_ESYSTEM. */
int runner_execute(int fd, char **argv, struct sgpu_error *error);

/* Descriptors of a worker. */
enum { RUNNER_CONTROL_FD = 3, RUNNER_KEY_FD = 5 };
/* Starts a worker, with `begin` and a new memory file for its counters, mapped at *counters for
 * reading unless counters is NULL. key: -1, or the worker's RUNNER_KEY_FD. *control: its socket.
 * Errors: SGPU_ESYSTEM, SGPU_ENOMEM. */
struct wire_begin;
struct serve_counters;
SGPU_MUST_CHECK int runner_spawn(int program, char **arguments, const struct wire_begin *begin,
				 int key, pid_t *pid, int *control,
				 const struct serve_counters **counters, struct sgpu_error *error);

#endif
