/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's status for Prometheus, in its text format 0.0.4.
 */
#ifndef SGPU_RUN_PROMETHEUS_H
#define SGPU_RUN_PROMETHEUS_H

#include <jansson.h>

/* `status` as supervisor_status() makes it, without its outer object; what is missing is left out.
 * To standard output. Returns an exit status. */
int prometheus_print(const json_t *status);
/* verb_status.c: the member at the end of a path such as "limits.host_memory", or NULL. */
const json_t *status_find(const json_t *object, const char *path);

#endif
