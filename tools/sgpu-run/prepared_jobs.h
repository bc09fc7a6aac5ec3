/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepared jobs as JSON: what a worker answers, and what sgpu-run prepare prints.
 */
#ifndef SGPU_RUN_PREPARED_JOBS_H
#define SGPU_RUN_PREPARED_JOBS_H

#include <jansson.h>

#include <sgpu/run.h>

/* {"device": ..., "jobs": [...]}; NULL when memory is out. */
json_t *prepared_jobs_json(struct sgpu_device *device, const struct sgpu_prepared_job *jobs, int count);

#endif
