/* SPDX-License-Identifier: Apache-2.0
 *
 * What the plan and the run agree on: which of the two values of an INPUT_OUTPUT segment is read,
 * and where it is read.
 */
#ifndef SGPU_RUN_PLAN_H
#define SGPU_RUN_PLAN_H

#include <stdbool.h>

#include <sgpu/run.h>

#include "run/reach.h"
#include "run/spread.h"

/* Whether those that read the segment read what arrived rather than what an operation wrote. An
 * INPUT_OUTPUT segment is read as it arrives: its readers do not wait for its writer. */
static inline bool sgpu_plan_reads_input(const struct sgpu_segment *segment)
{
	return sgpu_segment_is_input(segment);
}

/* Whether reader number `index` of the segment stands in the list for the first time: an operation
 * may read one segment through two arguments. */
bool sgpu_plan_reader_once(const struct sgpu_segment *segment, int index);

/* The buffer in which operations on a device read a segment that some operation there reads. */
static inline int sgpu_plan_read_buffer(const struct sgpu_plan *plan,
					const struct sgpu_manifest *manifest, int segment,
					int device)
{
	for (int i = plan->first_move[segment]; i >= 0; i = plan->moves[i].next) {
		if (plan->moves[i].to == device) {
			return plan->moves[i].to_buffer;
		}
	}
	return sgpu_plan_reads_input(&manifest->segments[segment]) ? plan->in_buffer[segment]
								   : plan->out_buffer[segment];
}

/* The device of a stream. */
static inline int sgpu_plan_stream_device(const struct sgpu_plan *plan, int stream)
{
	return stream % plan->device_count;
}

/* As sgpu_plan_create, with the whole graph looked at for so many operations at most. */
int sgpu_plan_create_limited(const struct sgpu_manifest *manifest, int devices,
			     const struct sgpu_spread_costs *costs, int operations_max,
			     struct sgpu_plan **plan, struct sgpu_error *error);

#endif
