/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a plan on its devices.
 */
#ifndef SGPU_RUN_MEMORY_H
#define SGPU_RUN_MEMORY_H

#include <sgpu/run.h>

struct sgpu_run_device;

struct sgpu_memory {
	const struct sgpu_run_device *devices;
	const struct sgpu_plan *plan;
	sgpu_devptr *buffers; /* of the plan */
	struct sgpu_memory_share {
		uint64_t bytes; /* of the plan's buffers on this device */
		int count;
		sgpu_devptr together; /* memory of all of these; 0: each has its own */
		uint64_t together_size;
	} shares[SGPU_RUN_DEVICES_MAX];
	uint64_t taken; /* of the process's limit */
};

/* Allocates all of it. together: small buffers of a device are one allocation. Errors: SGPU_ENOMEM.
 */
SGPU_MUST_CHECK int sgpu_memory_create(struct sgpu_memory *memory,
				       const struct sgpu_run_device *devices,
				       const struct sgpu_plan *plan, bool together,
				       struct sgpu_error *error);
/* Clears it and gives it back; no work on it may be pending. Accepts a zeroed one. */
void sgpu_memory_clear(struct sgpu_memory *memory);
#endif
