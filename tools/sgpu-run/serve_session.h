/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of programs (sgpu/remote.h) in a worker process of sgpu-run serve: a thread each.
 */
#ifndef SGPU_RUN_SERVE_SESSION_H
#define SGPU_RUN_SERVE_SESSION_H

#include "requests.h"

/* A request_fn for WIRE_SESSION. */
void session_take(const struct request *request);
/* As many as that at a time, from now on; those that are there stay. By the thread that takes them.
 */
void sessions_limit(unsigned count);
/* Ends those that have had nothing to do for so long. 0: all of them. Does not wait. */
void sessions_end(uint64_t idle_ns);

#endif
