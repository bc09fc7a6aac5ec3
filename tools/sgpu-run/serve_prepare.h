/* SPDX-License-Identifier: Apache-2.0
 *
 * The prepared jobs of a worker process of sgpu-run serve, and so of its tenant.
 */
#ifndef SGPU_RUN_SERVE_PREPARE_H
#define SGPU_RUN_SERVE_PREPARE_H

#include "requests.h"

/* WIRE_PREPARE; see requests.h. */
void serve_prepare(const struct request *request);

#endif
