/* SPDX-License-Identifier: Apache-2.0
 *
 * How many streams and staging buffers the transfers of a batch get, and their end.
 */
#include "run/inputs.h"

#include <stdlib.h>

#include "run/transfers.h"

static int min_int(int a, int b)
{
	return a < b ? a : b;
}

static uint64_t whole_pages(uint64_t size)
{
	const uint64_t page = 4096;

	return (size / page + (size % page != 0 || size == 0)) * page;
}

/* ---- what is made on first use ---- */
int sgpu_run_stream(struct sgpu_transfers *run, int row, struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_stream **of_row = &run->streams[row - run->rows.operations];
	int rc = *of_row ? SGPU_OK : sgpu_stock_take_stream(run->base->stock, of_row, error);

	*stream = *of_row;
	return rc;
}

int sgpu_run_follow(struct sgpu_transfers *run, struct sgpu_stream *from, struct sgpu_stream *to,
		    struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	int rc = sgpu_event_create(run->base->traits->device, &event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(from, event);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_wait(to, event);
	}
	sgpu_event_free(&event);
	return rc;
}

/* ---- how many ---- */
/* Streams that copy beside one that opens or seals: two, so that one copy follows the other without a gap. */
enum { ENGINE_COPIES = 2, SLOTS_MIN = 4 };

static bool goes_through(const struct sgpu_transfers *run, int in_batch, bool inline_ones)
{
	bool is_inline = run->job->batch->segments[in_batch].location.kind == SGPU_LOCATION_INLINE;

	return sgpu_segment_is_input(&run->job->manifest->segments[run->job->to_manifest[in_batch]]) && is_inline == inline_ones;
}

/* Slots: two a stream, or, where copies have engines, as many as the bound on pinned memory gives, and no more than a
 * quarter of the largest payload needs, since pinning costs more than a copy: each is made only when no other is free.
 * They are no larger than the largest payload. */
static void setup_slots(struct sgpu_transfers *run, struct sgpu_run_loader *loader, uint64_t largest, int pieces)
{
	uint64_t most = sgpu_piece_sealed(loader->piece, true), bound = largest / 4, count;

	loader->slot_size = whole_pages(largest < most ? largest : most);
	bound = bound < run->base->traits->pinned_max && loader->apart ? bound : run->base->traits->pinned_max;
	count = bound / loader->slot_size;
	count = count < SLOTS_MIN ? SLOTS_MIN : count > SGPU_RUN_SLOTS ? SGPU_RUN_SLOTS : count;
	loader->slot_count = run->base->traits->engines ? min_int((int)count, pieces) : 2 * loader->copy_count;
	for (int i = 0; i < SGPU_RUN_SLOTS; i++) {
		loader->slots[i].loader = loader;
	}
	loader->are_small = run->base->traits->engines && loader->slot_size <= SGPU_RUN_SMALL_SLOT;
}

/* Most plaintext bytes at once. */
static uint64_t piece_of(const struct sgpu_transfers *run, bool inline_ones)
{
	uint64_t most = inline_ones || run->base->traits->cores < 2 ? SGPU_RUN_PIECE_COPIED : SGPU_RUN_PIECE_SHARED;

	return run->base->traits->piece < most ? run->base->traits->piece : most;
}

/* As many streams as there are pieces and computing units, within bounds, each to copy and to open. A device that
 * copies beside the rest has copies on streams of their own, if there is a payload of several pieces: those of one
 * piece overlap as it is. */
static void setup_loader(struct sgpu_transfers *run, struct sgpu_run_loader *loader, bool inline_ones, int units)
{
	uint64_t pieces = 0, largest = 1;
	int count;

	loader->run = run;
	loader->first_row = run->rows.operations + run->rows.inputs;
	for (int i = 0; i < run->job->batch->segment_count; i++) {
		uint64_t size = sgpu_batch_payload_size(run->job->batch, i);

		if (goes_through(run, i, inline_ones)) {
			pieces += size / SGPU_RUN_PIECE_MIN + 1;
			largest = size > largest ? size : largest;
			loader->apart = loader->apart ||
				(run->base->traits->engines && run->job->batch->segments[i].size > SGPU_RUN_PIECE_MIN);
		}
	}
	loader->piece = piece_of(run, inline_ones);
	count = pieces < SGPU_RUN_SLOTS ? (int)pieces : SGPU_RUN_SLOTS;
	loader->copy_count = loader->apart ? ENGINE_COPIES : min_int(min_int(units, SGPU_RUN_STREAMS), count);
	setup_slots(run, loader, largest, count);
	run->rows.inputs += loader->copy_count + loader->apart;
}

static void add_lane(struct sgpu_transfers *run, int index, bool apart, uint64_t largest)
{
	struct sgpu_run_lane *lane = &run->lanes[index];

	lane->seal_row = run->rows.operations + run->rows.inputs + run->rows.outputs;
	lane->copy_row = lane->seal_row + apart;
	lane->slot_size = sgpu_piece_sealed(largest < run->base->traits->piece ? largest : run->base->traits->piece, true);
	run->rows.outputs += 1 + apart;
}

/* Ways out: streams that seal and copy, or one pair of streams; and behind them the drain's pair. */
static void setup_lanes(struct sgpu_transfers *run, int units)
{
	uint64_t largest = 0;
	bool apart;
	int count = 0;

	for (int i = 0; i < run->job->manifest->segment_count; i++) {
		uint64_t size = 0;

		if (sgpu_segment_is_output(&run->job->manifest->segments[i])) {
			count++;
			size = sgpu_type_bytes(&run->job->manifest->segments[i].type, &size) ? size : run->base->traits->piece;
			largest = size > largest ? size : largest;
		}
	}
	apart = run->base->traits->engines && largest > SGPU_RUN_PIECE_MIN;
	run->lane_count = apart ? 1 : min_int(min_int(units, SGPU_RUN_STREAMS), count);
	for (int i = 0; i < run->lane_count; i++) {
		add_lane(run, i, apart, largest);
	}
	if (run->base->traits->engines && count > 0) {
		add_lane(run, run->lane_count, true,
			 largest < SGPU_RUN_PIECE_COPIED ? largest : SGPU_RUN_PIECE_COPIED);
	}
}

int sgpu_transfers_create(const struct sgpu_transfers_config *config, struct sgpu_transfers **transfers,
			  struct sgpu_error *error)
{
	const struct sgpu_manifest *m = config->base->job->manifest;
	struct sgpu_transfers *t = calloc(1, sizeof(*t));
	int units = config->base->traits->units;

	*transfers = t;
	if (!t) {
		return sgpu_fail_nomem(error);
	}
	t->base = config->base;
	t->job = config->base->job;
	t->left = config->left;
	t->owner = config->owner;
	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->slot_free, NULL);
	t->rows.operations = t->job->plan->stream_count;
	setup_loader(t, &t->loaders[0], true, units);
	setup_loader(t, &t->loaders[1], false, units);
	setup_lanes(t, units);
	t->streams = calloc((size_t)(t->rows.inputs + t->rows.outputs) + 1, sizeof(struct sgpu_stream *));
	t->segments = calloc((size_t)m->segment_count + 1, sizeof(*t->segments));
	if (!t->streams || !t->segments) {
		sgpu_transfers_free(transfers);
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->segment_count; i++) {
		t->segments[i].transfers = t;
		t->segments[i].arrived = (struct sgpu_note){ .handle = config->arrived, .owner = config->owner, .index = i };
	}
	return SGPU_OK;
}

void sgpu_transfers_settle(struct sgpu_transfers *run)
{
	const char *text;

	sgpu_drain_free(run);
	for (int i = 0; i < run->rows.inputs + run->rows.outputs; i++) {
		sgpu_stock_give_stream(run->base->stock, &run->streams[i]);
	}
	for (int i = 0; i < run->job->manifest->segment_count; i++) {
		(void)sgpu_input_end(run, i, &text);
	}
	sgpu_slots_free(run);
	sgpu_lanes_free(run);
}

void sgpu_transfers_free(struct sgpu_transfers **transfers)
{
	struct sgpu_transfers *t = *transfers;

	if (!t) {
		return;
	}
	if (t->segments) {
		sgpu_outputs_drop(t);
	}
	for (int i = 0; t->segments && i < t->job->manifest->segment_count; i++) {
		free(t->segments[i].in_text);
		free(t->segments[i].out_text);
	}
	free(t->segments);
	free(t->streams);
	pthread_cond_destroy(&t->slot_free);
	pthread_mutex_destroy(&t->mutex);
	free(t);
	*transfers = NULL;
}

/* ---- rows of the trace ---- */
void sgpu_transfers_rows(const struct sgpu_transfers *run, struct sgpu_run_rows *rows)
{
	*rows = run->rows;
}

static bool opens(const struct sgpu_transfers *run, int row)
{
	for (int i = 0; i < SGPU_RUN_LOADERS; i++) {
		const struct sgpu_run_loader *loader = &run->loaders[i];

		if (loader->apart && row == loader->first_row + loader->copy_count) {
			return true;
		}
	}
	return false;
}

static bool seals(const struct sgpu_transfers *run, int row)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(run->lanes); i++) {
		if (run->lanes[i].seal_row == row && run->lanes[i].copy_row != row) {
			return true;
		}
	}
	return false;
}

const char *sgpu_transfers_row_name(const struct sgpu_transfers *run, int row, int *number)
{
	*number = row;
	if (row < run->rows.operations) {
		return "stream";
	}
	*number -= run->rows.operations;
	if (*number < run->rows.inputs) {
		return opens(run, row) ? "open" : "copy in";
	}
	*number -= run->rows.inputs;
	return seals(run, row) ? "seal" : "copy out";
}
