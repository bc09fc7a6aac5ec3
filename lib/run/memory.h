/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a plan on the device.
 */
#ifndef SGPU_RUN_MEMORY_H
#define SGPU_RUN_MEMORY_H

#include <sgpu/run.h>

struct sgpu_memory {
	struct sgpu_device *device;
	const struct sgpu_plan *plan;
	sgpu_devptr *buffers;         /* of the plan */
	sgpu_devptr together;         /* memory of all buffers; 0: each has its own */
	uint64_t together_size;
};

/* Allocates all of it. together: small buffers are one allocation. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_memory_create(struct sgpu_memory *memory, struct sgpu_device *device,
				       const struct sgpu_plan *plan, bool together, struct sgpu_error *error);
/* Clears it and gives it back; no work on it may be pending. Accepts a zeroed one. */
void sgpu_memory_clear(struct sgpu_memory *memory);
#endif
