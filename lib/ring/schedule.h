/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker has taken out of a ring and not completed yet, in the order of submission: fences
 * hold operations back, drains wait for those before them, batches for their members, and
 * cancellation finds an operation again. It knows nothing of shared memory: descriptors come to it
 * as checked copies.
 *
 * Every step but cancellation takes constant time, and cancellation one pass over what is
 * outstanding.
 */
#ifndef SGPU_RING_SCHEDULE_H
#define SGPU_RING_SCHEDULE_H

#include <stdint.h>

#include <sgpu/ring.h>

struct sgpu_schedule;

struct sgpu_schedule_config {
	uint32_t submissions; /* outstanding at most */
	/* For the members of batches: as in struct sgpu_ring_worker_config. Borrowed. */
	const uint8_t *members;
	/* A submission has completed. An error ends the ring. */
	int (*post)(void *context, uint64_t cookie, int status, uint64_t value,
		    struct sgpu_error *error);
	void *post_context;
	/* As in struct sgpu_ring_worker_config. */
	int (*read)(void *context, uint64_t handle, uint64_t offset, void *data, size_t size,
		    struct sgpu_error *error);
	void *read_context;
};

SGPU_MUST_CHECK int sgpu_schedule_create(const struct sgpu_schedule_config *config,
					 struct sgpu_schedule **schedule, struct sgpu_error *error);
void sgpu_schedule_free(struct sgpu_schedule **schedule);
/* Adds a submission; fewer than config->submissions are outstanding. Cancellations and drains with
 * nothing before them complete at once. Errors: those of post. */
SGPU_MUST_CHECK int sgpu_schedule_add(struct sgpu_schedule *schedule,
				      const struct sgpu_ring_descriptor *descriptor,
				      struct sgpu_error *error);
/* The next event but SGPU_RING_BUSY. Errors: SGPU_EINVALID for a batch with a member that may not
 * be, those of post. */
SGPU_MUST_CHECK int sgpu_schedule_next(struct sgpu_schedule *schedule,
				       struct sgpu_ring_operation *operation,
				       enum sgpu_ring_event *event, struct sgpu_error *error);
/* Errors: SGPU_EUSAGE for a ticket that is not started, those of post. */
SGPU_MUST_CHECK int sgpu_schedule_finish(struct sgpu_schedule *schedule, uint32_t ticket,
					 int status, uint64_t value, struct sgpu_error *error);
/* Submissions that have not completed. */
uint32_t sgpu_schedule_outstanding(const struct sgpu_schedule *schedule);

#endif
