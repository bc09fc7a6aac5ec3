/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plan and the run agree on: which of the two values of an INPUT_OUTPUT segment is read,
 * and where it is read.
 */
#ifndef SGPU_RUN_PLAN_H
#define SGPU_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/manifest.h>

#include "run/run.h"

/* Which device each operation of a graph runs on, from the manifest alone. */

struct sgpu_spread {
	int *device; /* by operation */
	int *home;   /* by segment: the device that first has the value that is read */
};

/* What takes time besides the work of operations, in bytes of work: one byte is the time in which
 * an operation reads or writes a byte. */
struct sgpu_spread_costs {
	uint64_t travel; /* for each byte that comes to a device, from the host or from another
			    device */
	uint64_t move;	 /* for each segment that moves, besides its bytes */
};
/* A GPU's orders of magnitude: how many times faster its memory is than its bus, and the bytes its
 * memory moves in the time that a transfer takes to begin. */
#define SGPU_SPREAD_COSTS ((struct sgpu_spread_costs){ .travel = 64, .move = (uint64_t)256 << 20 })

/* In the manifest's order, each operation goes to the device on which it would end first, if it
 * waits for what it reads and for its predecessors, and a device does one thing at a time. Among
 * equals, the device that has most bytes of what it reads wins, then the first. An operation of a
 * module goes where its image is. The same manifest gives the same devices. `devices` is at least
 * 1. Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int sgpu_spread_create(const struct sgpu_manifest *manifest, int devices,
				       const struct sgpu_spread_costs *costs,
				       struct sgpu_spread *spread, struct sgpu_error *error);
void sgpu_spread_clear(struct sgpu_spread *spread);

/* With more operations, the planner does not know which is an ancestor of which: the matrix of 4096
 * squared bits is 2 MiB, and grows with the square. */
enum { SGPU_PLAN_MATRIX_MAX = 4096 };

/* Whether reader number `index` stands in the list for the first time: an operation may read a
 * segment through two arguments. */
bool sgpu_plan_reader_once(const struct sgpu_segment *segment, int index);

/* Returns the buffer in which operations on a device read a segment. An INPUT_OUTPUT is read as it
 * arrives: its readers do not wait for its writer. */
static inline int sgpu_plan_read_buffer(const struct sgpu_plan *plan,
					const struct sgpu_manifest *manifest, int segment,
					int device)
{
	for (int i = plan->first_move[segment]; i >= 0; i = plan->moves[i].next) {
		if (plan->moves[i].to == device) {
			return plan->moves[i].to_buffer;
		}
	}
	return sgpu_segment_is_input(&manifest->segments[segment]) ? plan->in_buffer[segment]
								   : plan->out_buffer[segment];
}

/* As sgpu_plan_create, with other costs, and with the ancestors known for up to `operations_max`
 * operations. */
int sgpu_plan_create_limited(const struct sgpu_manifest *manifest, int devices,
			     const struct sgpu_spread_costs *costs, int operations_max,
			     struct sgpu_plan **plan, struct sgpu_error *error);

#endif
