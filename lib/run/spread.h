/* SPDX-License-Identifier: Apache-2.0
 *
 * Which device each operation of a graph runs on, from the manifest alone.
 */
#ifndef SGPU_RUN_SPREAD_H
#define SGPU_RUN_SPREAD_H

#include <sgpu/manifest.h>

struct sgpu_spread {
	int *device; /* by operation */
	int *home;   /* by segment: the device on which the value that is read is first: where it
			arrives, or its writer's */
};

/* Times are reckoned in bytes of work: what an operation reads and writes. These are what else
 * takes time. */
struct sgpu_spread_costs {
	uint64_t travel; /* of each byte that comes to a device, from the host or from another
			    device */
	uint64_t
		move; /* of each segment that moves from one device to another, besides its bytes */
};
/* Orders of magnitude of a GPU: its memory is so many times as fast as what it is connected by, and
 * a move takes so long to begin as its memory takes for so many bytes. */
#define SGPU_SPREAD_COSTS ((struct sgpu_spread_costs){ .travel = 64, .move = (uint64_t)256 << 20 })

/* In the manifest's order, each operation goes to the device on which it would end first, when an
 * operation waits for what it reads and for those before it, and a device does one thing at a time.
 * Among equals it goes to the device that has most bytes of what it reads, then to the first. An
 * operation of a module goes where its image is. The same manifest gives the same devices.
 * `devices` is at least 1. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_spread_create(const struct sgpu_manifest *manifest, int devices,
				       const struct sgpu_spread_costs *costs,
				       struct sgpu_spread *spread, struct sgpu_error *error);
void sgpu_spread_clear(struct sgpu_spread *spread);

#endif
