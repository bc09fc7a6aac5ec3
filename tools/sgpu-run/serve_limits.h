/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker process may take of the machine's memory for its tenant.
 */
#ifndef SGPU_RUN_SERVE_LIMITS_H
#define SGPU_RUN_SERVE_LIMITS_H

#include "serve.h"
#include "wire.h"

/* Before anything is taken: the counters tell from now on what is. */
void serve_limits_open(struct serve_counters *counters);
/* The worker becomes its tenant's, or the tenant's limits have changed. */
void serve_limits_set(const struct worker *worker, const struct wire_limits *limits);

#endif
