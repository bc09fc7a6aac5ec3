/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that the plan and the run share: which of the two values of an INPUT_OUTPUT segment is
 * read, and from which buffer.
 */
#ifndef SGPU_RUN_PLAN_H
#define SGPU_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/manifest.h>

#include "run/run.h"

/* In the manifest's order, an operation is assigned to the device on which it would end first, if
 * it waits for its predecessors and a device does one thing at a time; among equals, to the first.
 * An operation of a module goes where the module's image is. The same manifest gives the same
 * devices. The unit of costs is the time in which an operation reads or writes one byte. */
struct sgpu_plan_costs {
	uint64_t travel; /* of each byte that comes to a device, from the host or from another
			    device */
	uint64_t move;	 /* of each move, in addition to its bytes */
};
/* Orders of magnitude of a GPU: how many times faster its memory is than its bus, and how many
 * bytes its memory moves in the time that a transfer takes to begin. */
#define SGPU_PLAN_COSTS ((struct sgpu_plan_costs){ .travel = 64, .move = (uint64_t)256 << 20 })

/* With more operations, the planner makes no matrix of ancestors: the one for 4096 operations has
 * 4096 squared bits, 2 MiB, and it grows with the square. */
enum { SGPU_PLAN_MATRIX_MAX = 4096 };

/* Returns whether reader number `index` is in the segment's list for the first time: an operation
 * that reads a segment through two arguments is in it twice. */
bool sgpu_plan_reader_once(const struct sgpu_segment *segment, int index);

/* Returns the buffer in which operations on a device read a segment. Of an INPUT_OUTPUT they read
 * the value that arrived: readers do not wait for the writer. */
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

/* As sgpu_plan_create, with other costs, and with a matrix of ancestors for up to `operations_max`
 * operations. */
int sgpu_plan_create_limited(const struct sgpu_manifest *manifest, int devices,
			     const struct sgpu_plan_costs *costs, int operations_max,
			     struct sgpu_plan **plan, struct sgpu_error *error);

#endif
