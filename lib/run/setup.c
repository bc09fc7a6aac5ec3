/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run needs before its threads start: who follows whom, what holds an operation back, and how many streams
 * and staging slots the transfers get.
 */
#include <stdlib.h>

#include "run/plan.h"
#include "run/run.h"

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
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

/* ---- transfers ---- */
/* Streams that copy beside one that opens or seals: two, so that one copy follows the other without a gap. */
enum { ENGINE_COPIES = 2, SLOTS_MIN = 4 };

static bool goes_through(const struct sgpu_run *run, int in_batch, bool inline_ones)
{
	bool is_inline = run->batch->segments[in_batch].location.kind == SGPU_LOCATION_INLINE;

	return sgpu_segment_is_input(&run->manifest->segments[run->to_manifest[in_batch]]) && is_inline == inline_ones;
}

/* Slots: two a stream, or, where copies have engines, as many as the bound on pinned memory gives, and no more than a
 * quarter of the largest payload needs, since pinning costs more than a copy: each is made only when no other is free.
 * They are no larger than the largest payload. */
static void setup_slots(struct sgpu_run *run, struct sgpu_run_loader *loader, uint64_t largest, int pieces)
{
	uint64_t most = sgpu_piece_sealed(loader->piece, true), bound = largest / 4, count;

	loader->slot_size = whole_pages(largest < most ? largest : most);
	bound = bound < run->pinned_max && loader->apart ? bound : run->pinned_max;
	count = bound / loader->slot_size;
	count = count < SLOTS_MIN ? SLOTS_MIN : count > SGPU_RUN_SLOTS ? SGPU_RUN_SLOTS : count;
	loader->slot_count = run->engines ? min_int((int)count, pieces) : 2 * loader->copy_count;
	for (int i = 0; i < SGPU_RUN_SLOTS; i++) {
		loader->slots[i].loader = loader;
	}
	loader->are_small = run->engines && loader->slot_size <= SGPU_RUN_SMALL_SLOT;
}

/* Most plaintext bytes at once. */
static uint64_t piece_of(const struct sgpu_run *run, bool inline_ones)
{
	uint64_t most = inline_ones || run->cores < 2 ? SGPU_RUN_PIECE_COPIED : SGPU_RUN_PIECE_SHARED;

	return run->piece < most ? run->piece : most;
}

/* As many streams as there are pieces and computing units, within bounds, each to copy and to open. A device that
 * copies beside the rest has copies on streams of their own, if there is a payload of several pieces: those of one
 * piece overlap as it is. */
static void setup_loader(struct sgpu_run *run, struct sgpu_run_loader *loader, bool inline_ones, int units)
{
	uint64_t pieces = 0, largest = 1;
	int count;

	loader->run = run;
	loader->first_row = run->rows.operations + run->rows.inputs;
	for (int i = 0; i < run->batch->segment_count; i++) {
		uint64_t size = sgpu_batch_payload_size(run->batch, i);

		if (goes_through(run, i, inline_ones)) {
			pieces += size / SGPU_RUN_PIECE_MIN + 1;
			largest = size > largest ? size : largest;
			loader->apart = loader->apart ||
				(run->engines && run->batch->segments[i].size > SGPU_RUN_PIECE_MIN);
		}
	}
	/* Only large payloads keep more than one core busy. */
	if (loader->apart && !inline_ones && run->cores == 0) {
		run->cores = sgpu_cpu_count();
	}
	loader->piece = piece_of(run, inline_ones);
	count = pieces < SGPU_RUN_SLOTS ? (int)pieces : SGPU_RUN_SLOTS;
	loader->copy_count = loader->apart ? ENGINE_COPIES : min_int(min_int(units, SGPU_RUN_STREAMS), count);
	setup_slots(run, loader, largest, count);
	run->rows.inputs += loader->copy_count + loader->apart;
}

static void add_lane(struct sgpu_run *run, int index, bool apart, uint64_t largest)
{
	struct sgpu_run_lane *lane = &run->lanes[index];

	lane->seal_row = run->rows.operations + run->rows.inputs + run->rows.outputs;
	lane->copy_row = lane->seal_row + apart;
	lane->slot_size = sgpu_piece_sealed(largest < run->piece ? largest : run->piece, true);
	run->rows.outputs += 1 + apart;
}

/* Ways out: streams that seal and copy, or one pair of streams; and behind them the drain's pair. */
static void setup_lanes(struct sgpu_run *run, int units)
{
	uint64_t largest = 0;
	bool apart;
	int count = 0;

	for (int i = 0; i < run->manifest->segment_count; i++) {
		uint64_t size = 0;

		if (sgpu_segment_is_output(&run->manifest->segments[i])) {
			count++;
			size = sgpu_type_bytes(&run->manifest->segments[i].type, &size) ? size : run->piece;
			largest = size > largest ? size : largest;
		}
	}
	apart = run->engines && largest > SGPU_RUN_PIECE_MIN;
	run->lane_count = apart ? 1 : min_int(min_int(units, SGPU_RUN_STREAMS), count);
	for (int i = 0; i < run->lane_count; i++) {
		add_lane(run, i, apart, largest);
	}
	if (run->engines && count > 0) {
		add_lane(run, run->lane_count, true,
			 largest < SGPU_RUN_PIECE_COPIED ? largest : SGPU_RUN_PIECE_COPIED);
	}
}

/* What the transfers must know of the device. */
static int learn_device(struct sgpu_run *run, int *units, struct sgpu_error *error)
{
	struct sgpu_device_info info;
	int rc = sgpu_device_get_info(run->device, &info, error);
	uint64_t piece = info.piece / SGPU_CHUNK * SGPU_CHUNK;

	if (rc != SGPU_OK) {
		return rc;
	}
	*units = info.compute_units < 1 ? 1 : (int)info.compute_units;
	piece = piece < SGPU_RUN_PIECE_MIN ? SGPU_RUN_PIECE_MIN : piece;
	run->piece = piece < SGPU_RUN_PIECE_MAX ? piece : SGPU_RUN_PIECE_MAX;
	run->engines = info.opens_on_device;
	run->pins = info.pins_host_memory;
	atomic_store(&run->registers, info.registers);
	return SGPU_OK;
}

/* Operations use few streams in turn: each costs its making, and beyond some they share a queue of the driver. */
static void limit_streams(struct sgpu_run *run)
{
	for (int i = 0; i < run->manifest->operation_count; i++) {
		run->plan->stream[i] %= SGPU_RUN_ENGINE_STREAMS;
	}
	run->plan->stream_count = min_int(run->plan->stream_count, SGPU_RUN_ENGINE_STREAMS);
}

/* Many small buffers are one allocation, which costs as much as one of them. */
static int setup_buffers(struct sgpu_run *run, struct sgpu_error *error)
{
	uint64_t at = 0;
	int rc;

	run->buffers = calloc((size_t)run->plan->buffer_count + 1, sizeof(*run->buffers));
	if (!run->buffers) {
		return sgpu_fail_nomem(error);
	}
	if (!run->engines || run->plan->bytes > SGPU_RUN_TOGETHER_MAX || run->plan->buffer_count < 2) {
		return SGPU_OK;
	}
	for (int i = 0; i < run->plan->buffer_count; i++) {
		at += whole_pages(run->plan->buffers[i].size);
	}
	rc = sgpu_device_alloc(run->device, at, &run->together, NULL);
	if (rc != SGPU_OK) {
		return SGPU_OK; /* then one by one, and who gets none says so */
	}
	run->together_size = at;
	at = run->together;
	for (int i = 0; i < run->plan->buffer_count; i++) {
		run->buffers[i] = (struct sgpu_run_buffer){ .memory = at, .allocated = true };
		at += whole_pages(run->plan->buffers[i].size);
	}
	return SGPU_OK;
}

int sgpu_run_setup(struct sgpu_run *run, struct sgpu_error *error)
{
	int units = 1, rc = learn_device(run, &units, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (run->engines) {
		limit_streams(run);
	}
	run->rows.operations = run->plan->stream_count;
	setup_loader(run, &run->loaders[0], true, units);
	setup_loader(run, &run->loaders[1], false, units);
	setup_lanes(run, units);
	if (run->cores == 0 && run->lanes[0].copy_row != run->lanes[0].seal_row) {
		run->cores = sgpu_cpu_count();
	}
	run->streams = calloc((size_t)(run->rows.operations + run->rows.inputs + run->rows.outputs) + 1,
			      sizeof(struct sgpu_stream *));
	run->work = calloc(2 * (size_t)run->manifest->operation_count + 1, sizeof(*run->work));
	if (!run->streams || !run->work) {
		return sgpu_fail_nomem(error);
	}
	rc = setup_buffers(run, error);
	if (rc == SGPU_OK) {
		rc = setup_followers(run, error);
	}
	if (rc == SGPU_OK) {
		setup_holds(run);
		atomic_store(&run->operation_count, run->manifest->operation_count);
	}
	return rc;
}
