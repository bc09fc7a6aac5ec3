/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device does for CH_PTE: pages are mapped where nothing is, pages that go are cleared and
 * unmapped, and where one takes another's place it comes last. A step that fails is undone with all
 * before it. When that fails as well, a page that the device does not give back is retired: nobody
 * gets it any more; and one that it does not map again is missing: it stands in its tables until it
 * is taken out, and nothing reaches for it on the device.
 */
#include "channel/processor/processor.h"

enum {
	ADDED = 1 << SGPU_PAGE_ADD,
	DROPPED = 1 << SGPU_PAGE_DROP | 1 << SGPU_PAGE_SWAP,
	SWAPPED = 1 << SGPU_PAGE_SWAP
};

struct work {
	struct sgpu_processor *processor;
	const struct sgpu_page_change *change;
	struct sgpu_error *error;
};
typedef int (*step_fn)(const struct work *work, uint32_t first, uint32_t count);

static uint64_t at(const struct work *work, uint32_t index)
{
	return work->change->va + index * work->processor->page_size[work->change->kind];
}

int sgpu_processor_wait(struct sgpu_processor *processor, int enqueued,
			const struct sgpu_task *task, struct sgpu_error *error)
{
	int rc = enqueued == SGPU_OK ? sgpu_stream_sync(processor->stream, error) : SGPU_OK;

	if (rc < 0) {
		return rc;
	}
	rc = enqueued == SGPU_OK ? task->code : enqueued;
	return rc < 0 ? sgpu_fail(error, rc, "%s",
				  task->error.text[0] ? task->error.text : sgpu_strerror(rc))
		      : SGPU_OK;
}

int sgpu_pages_clear(struct sgpu_processor *processor, const struct sgpu_context *context,
		     uint64_t at, uint64_t size, struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	int rc = sgpu_device_synchronize(processor->device, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_device_clear(processor->stream, context->base + at, size, &task);
	return sgpu_processor_wait(processor, rc, &task, error);
}

static uint64_t size_of(const struct work *work, uint32_t count)
{
	return count * work->processor->page_size[work->change->kind];
}

static int map(const struct work *work, const uint32_t *pages, uint32_t first, uint32_t count,
	       struct sgpu_error *error)
{
	return sgpu_page_map(work->change->context->space, at(work, first), pages + first, count,
			     size_of(work, 1), error);
}

static int unmap(const struct work *work, uint32_t first, uint32_t count, struct sgpu_error *error)
{
	return sgpu_page_unmap(work->change->context->space, at(work, first), size_of(work, count),
			       error);
}

static int map_new(const struct work *work, uint32_t first, uint32_t count)
{
	return map(work, work->change->after, first, count, work->error);
}

static int unmap_old(const struct work *work, uint32_t first, uint32_t count)
{
	return unmap(work, first, count, work->error);
}

static int clear(const struct work *work, uint32_t first, uint32_t count)
{
	return sgpu_pages_clear(work->processor, work->change->context, at(work, first),
				size_of(work, count), work->error);
}

static int clear_new(const struct work *work, uint32_t first, uint32_t count)
{
	const uint32_t end = first + count;
	int rc = SGPU_OK;

	while (rc == SGPU_OK && first < end) {
		uint32_t last = first;

		while (last < end &&
		       sgpu_page_needs_clear(work->processor, work->change->after[last],
					     work->change->kind)) {
			last++;
		}
		rc = last > first ? clear(work, first, last - first) : SGPU_OK;
		first = last + 1;
	}
	return rc;
}

/* Undoing: what cannot be unmapped is retired, and what cannot be mapped again is missing. */
static int undo_map(const struct work *work, uint32_t first, uint32_t count)
{
	/* Kernels may have written there already. */
	bool clean = sgpu_activate_now(work->processor, work->change->context, NULL) == SGPU_OK &&
		     sgpu_pages_clear(work->processor, work->change->context, at(work, first),
				      size_of(work, count), NULL) == SGPU_OK;

	if (unmap(work, first, count, NULL) != SGPU_OK) {
		work->change->context->faulted = true;
		for (uint32_t i = first; i < first + count; i++) {
			sgpu_page_retire(work->processor, work->change->after[i],
					 work->change->kind);
		}
		return SGPU_OK;
	}
	for (uint32_t i = first; !clean && i < first + count; i++) {
		sgpu_page_soil(work->processor, work->change->after[i], work->change->kind);
	}
	return SGPU_OK;
}

static int undo_unmap(const struct work *work, uint32_t first, uint32_t count)
{
	if (map(work, work->change->before, first, count, NULL) != SGPU_OK) {
		for (uint32_t i = first; i < first + count; i++) {
			sgpu_page_miss(work->processor, work->change->before[i],
				       work->change->kind);
		}
	}
	return SGPU_OK;
}

/* Whether the step is for that page; of what is missing the device has nothing to drop. */
static bool is_for(const struct work *work, unsigned actions, uint32_t index)
{
	return actions >> work->change->actions[index] & 1 &&
	       !(actions == DROPPED &&
		 work->processor->frames[work->change->before[index]].missing);
}

/* Calls the step for every run of pages whose action is among `actions`, up to index `end`; *failed
 * is where it failed. */
static int each_run(const struct work *work, unsigned actions, step_fn step, uint32_t end,
		    uint32_t *failed)
{
	for (uint32_t first = 0; first < end;) {
		uint32_t last = first;

		while (last < end && is_for(work, actions, last)) {
			last++;
		}
		if (last > first) {
			int rc = step(work, first, last - first);

			if (rc != SGPU_OK) {
				*failed = first;
				return rc;
			}
		}
		first = last + 1;
	}
	*failed = end;
	return SGPU_OK;
}

static void each_run_back(const struct work *work, unsigned actions, step_fn step, uint32_t end)
{
	uint32_t ignored;

	(void)each_run(work, actions, step, end, &ignored);
}

/* Kernels that run now must not see what a new page holds before it is cleared. */
static int prepare(const struct work *work)
{
	struct sgpu_processor *processor = work->processor;
	const struct sgpu_page_change *change = work->change;
	bool drops = false, unclear = false;
	int rc = SGPU_OK;

	for (uint32_t i = 0; i < change->count; i++) {
		const uint8_t action = change->actions[i];

		drops = drops || DROPPED >> action & 1;
		if (action == SGPU_PAGE_ADD || action == SGPU_PAGE_SWAP) {
			unclear = unclear ||
				  sgpu_page_needs_clear(processor, change->after[i], change->kind);
		}
	}
	if (rc == SGPU_OK && unclear) {
		rc = sgpu_activate_now(processor, NULL, work->error);
	}
	if (rc == SGPU_OK && (drops || unclear)) {
		rc = sgpu_activate_now(processor, change->context, work->error);
	}
	return rc;
}

int sgpu_pages_change(struct sgpu_processor *processor, const struct sgpu_page_change *change,
		      struct sgpu_error *error)
{
	const struct work work = { .processor = processor, .change = change, .error = error };
	uint32_t added = 0, dropped = 0, swapped = 0, ignored;
	int rc = prepare(&work);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = each_run(&work, ADDED, map_new, change->count, &added);
	if (rc == SGPU_OK) {
		rc = each_run(&work, ADDED, clear_new, change->count, &ignored);
	}
	if (rc == SGPU_OK) {
		rc = each_run(&work, DROPPED, clear, change->count, &ignored);
	}
	if (rc == SGPU_OK) {
		rc = each_run(&work, DROPPED, unmap_old, change->count, &dropped);
	}
	if (rc == SGPU_OK) {
		rc = each_run(&work, SWAPPED, map_new, change->count, &swapped);
	}
	if (rc == SGPU_OK) {
		rc = each_run(&work, SWAPPED, clear_new, change->count, &ignored);
	}
	if (rc != SGPU_OK) {
		each_run_back(&work, SWAPPED, undo_map, swapped);
		each_run_back(&work, DROPPED, undo_unmap, dropped);
		each_run_back(&work, ADDED, undo_map, added);
	}
	return rc;
}
