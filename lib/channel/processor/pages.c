/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's part of CH_PTE: it maps pages and clears those that need it, or clears and unmaps
 * pages. A mapping that fails half way is undone. If the device cannot unmap the pages again, they
 * are retired, that is, never used again.
 */
#include "channel/processor/processor.h"

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

/* Whether a page needs clearing. Kernels that run now must not see such a page. */
static bool is_unclear(const struct sgpu_processor *processor, const struct sgpu_page_run *run)
{
	for (uint32_t i = 0; i < run->count; i++) {
		if (sgpu_page_needs_clear(processor, run->pages[i], run->kind)) {
			return true;
		}
	}
	return false;
}

static int clear_new(struct sgpu_processor *processor, const struct sgpu_page_run *run,
		     struct sgpu_error *error)
{
	const uint64_t page = processor->layout.page_size[run->kind];
	int rc = SGPU_OK;

	for (uint32_t first = 0, last; rc == SGPU_OK && first < run->count; first = last + 1) {
		last = first;
		while (last < run->count &&
		       sgpu_page_needs_clear(processor, run->pages[last], run->kind)) {
			last++;
		}
		if (last > first) {
			rc = sgpu_pages_clear(processor, run->context, run->va + first * page,
					      (last - first) * page, error);
		}
	}
	return rc;
}

static void undo_map(struct sgpu_processor *processor, const struct sgpu_page_run *run)
{
	const uint64_t size = run->count * processor->layout.page_size[run->kind];
	/* Kernels may have written to the pages already. */
	bool clean = sgpu_activate_now(processor, run->context, NULL) == SGPU_OK &&
		     sgpu_pages_clear(processor, run->context, run->va, size, NULL) == SGPU_OK;

	if (sgpu_page_unmap(run->context->space, run->va, size, NULL) != SGPU_OK) {
		run->context->faulted = true;
		for (uint32_t i = 0; i < run->count; i++) {
			sgpu_page_retire(processor, run->pages[i], run->kind);
		}
		return;
	}
	for (uint32_t i = 0; !clean && i < run->count; i++) {
		for (uint32_t k = 0; k < processor->layout.frames_of[run->kind]; k++) {
			processor->frames[run->pages[i] + k].stale = 1;
		}
	}
}

int sgpu_pages_map(struct sgpu_processor *processor, const struct sgpu_page_run *run,
		   struct sgpu_error *error)
{
	int rc = SGPU_OK;

	if (is_unclear(processor, run)) {
		rc = sgpu_activate_now(processor, NULL, error);
		rc = rc < 0 ? rc : sgpu_activate_now(processor, run->context, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_page_map(run->context->space, run->va, run->pages, run->count,
				   processor->layout.page_size[run->kind], error);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = clear_new(processor, run, error);
	if (rc != SGPU_OK) {
		undo_map(processor, run);
	}
	return rc;
}

int sgpu_pages_unmap(struct sgpu_processor *processor, const struct sgpu_page_run *run,
		     struct sgpu_error *error)
{
	const uint64_t size = run->count * processor->layout.page_size[run->kind];
	int rc = sgpu_activate_now(processor, run->context, error);

	if (rc == SGPU_OK) {
		rc = sgpu_pages_clear(processor, run->context, run->va, size, error);
	}
	return rc < 0 ? rc : sgpu_page_unmap(run->context->space, run->va, size, error);
}
