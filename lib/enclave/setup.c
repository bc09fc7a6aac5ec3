/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run needs before its threads start: who follows whom, what holds an operation back, and how many streams
 * and staging slots the transfers get.
 */
#include <stdlib.h>

#include "enclave/plan.h"
#include "enclave/run.h"

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

/* The edges turned round: for each operation those that follow it. */
static void list_followers(struct sgpu_run *run, int *next)
{
	const struct sgpu_manifest *m = run->manifest;

	for (int i = 0; i < m->operation_count; i++) {
		for (int k = 0; k < m->operations[i].before_count; k++) {
			run->after_start[m->operations[i].before[k] + 1]++;
		}
	}
	for (int i = 0; i < m->operation_count; i++) {
		run->after_start[i + 1] += run->after_start[i];
		next[i] = run->after_start[i];
	}
	for (int i = 0; i < m->operation_count; i++) {
		for (int k = 0; k < m->operations[i].before_count; k++) {
			run->after[next[m->operations[i].before[k]]++] = i;
		}
	}
}

static int setup_followers(struct sgpu_run *run, struct sgpu_error *error)
{
	size_t operations = (size_t)run->manifest->operation_count, edges = 1;
	int *next;

	for (size_t i = 0; i < operations; i++) {
		edges += (size_t)run->manifest->operations[i].before_count;
	}
	run->after_start = calloc(operations + 2, sizeof(*run->after_start));
	run->after = calloc(edges, sizeof(*run->after));
	next = calloc(operations + 1, sizeof(*next));
	if (!run->after_start || !run->after || !next) {
		free(next);
		return sgpu_fail_nomem(error);
	}
	list_followers(run, next);
	free(next);
	return SGPU_OK;
}

/* What the driver counts down. */
static void setup_holds(struct sgpu_run *run)
{
	for (int i = 0; i < run->manifest->operation_count; i++) {
		run->operations[i].ran = (struct sgpu_run_node){ .run = run, .kind = SGPU_NODE_RAN, .index = i };
		run->operations[i].waiting = run->manifest->operations[i].before_count;
	}
	run->operations_open = run->manifest->operation_count;
	for (int i = 0; i < run->manifest->segment_count; i++) {
		const struct sgpu_segment *segment = &run->manifest->segments[i];

		run->segments[i].left = (struct sgpu_run_node){ .run = run, .kind = SGPU_NODE_LEFT, .index = i };
		if (!sgpu_segment_is_input(segment)) {
			continue;
		}
		run->arrivals_open++;
		for (int k = 0; k < segment->reader_count; k++) {
			if (sgpu_plan_reader_once(segment, k)) {
				run->operations[segment->readers[k]].waiting++;
			}
		}
	}
}

/* As many streams as there are pieces and computing units, within bounds; slots no larger than the largest piece. */
static void setup_loader(struct sgpu_run *run, struct sgpu_run_loader *loader, bool inline_ones, int units)
{
	uint64_t pieces = 0, largest = 1;

	for (int i = 0; i < run->batch->segment_count; i++) {
		uint64_t size = sgpu_batch_payload_size(run->batch, i);
		bool is_inline = run->batch->segments[i].location.kind == SGPU_LOCATION_INLINE;

		if (!sgpu_segment_is_input(&run->manifest->segments[run->to_manifest[i]]) || is_inline != inline_ones) {
			continue;
		}
		pieces += size / SGPU_RUN_PIECE + 1;
		largest = size > largest ? size : largest;
	}
	loader->run = run;
	loader->stream_count = min_int(min_int(units, SGPU_RUN_COPY_STREAMS), pieces < 64 ? (int)pieces : 64);
	loader->slot_count = 2 * loader->stream_count;
	loader->slot_size = largest < SGPU_RUN_SEALED_PIECE ? (size_t)largest : SGPU_RUN_SEALED_PIECE;
	for (int i = 0; i < SGPU_RUN_SLOTS; i++) {
		loader->slots[i].loader = loader;
	}
	loader->first_row = run->rows.operations + run->rows.inputs;
	run->rows.inputs += loader->stream_count;
}

static int count_outputs(const struct sgpu_run *run)
{
	int count = 0;

	for (int i = 0; i < run->manifest->segment_count; i++) {
		count += sgpu_segment_is_output(&run->manifest->segments[i]);
	}
	return count;
}

int sgpu_run_setup(struct sgpu_run *run, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	int units, rc = sgpu_device_get_info(run->device, &info, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	units = info.compute_units < 1 ? 1 : (int)info.compute_units;
	run->rows.operations = run->plan->stream_count;
	setup_loader(run, &run->loaders[0], true, units);
	setup_loader(run, &run->loaders[1], false, units);
	run->rows.outputs = min_int(min_int(units, SGPU_RUN_COPY_STREAMS), count_outputs(run));
	run->streams = calloc((size_t)(run->rows.operations + run->rows.inputs + run->rows.outputs) + 1,
			      sizeof(struct sgpu_stream *));
	run->buffers = calloc((size_t)run->plan->buffer_count + 1, sizeof(*run->buffers));
	run->work = calloc(2 * (size_t)run->manifest->operation_count + 1, sizeof(*run->work));
	if (!run->streams || !run->buffers || !run->work) {
		return sgpu_fail_nomem(error);
	}
	rc = setup_followers(run, error);
	if (rc == SGPU_OK) {
		setup_holds(run);
		atomic_store(&run->operation_count, run->manifest->operation_count);
	}
	return rc;
}
