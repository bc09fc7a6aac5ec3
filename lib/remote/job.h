/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of a session: a manifest that was parsed and checked once. Its operations run in the
 * manifest's order on one stream, over buffers of the session: one for each INPUT, OUTPUT and
 * INPUT_OUTPUT, in the order of its segments, of exactly the segment's size. What is in between has
 * memory of the job. An INPUT_OUTPUT is read as it was before the run, and has its new value when
 * the run has ended.
 */
#ifndef SGPU_REMOTE_JOB_H
#define SGPU_REMOTE_JOB_H

#include "secure/group.h"

extern const struct sgpu_group_jobs sgpu_remote_jobs;

#endif
