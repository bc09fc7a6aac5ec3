/* SPDX-License-Identifier: Apache-2.0
 *
 * The aperture: the host's view of the unprotected region. A frame stands at one place at a time:
 * where a context has it, it is read and written there, else in a space of the processor's own.
 */
#include "channel/processor/activate.h"
#include "channel/processor/aperture.h"
#include "channel/processor/frames.h"
#include "channel/processor/request.h"

int sgpu_aperture_drop(struct sgpu_processor *processor, uint32_t first, uint32_t count,
		       struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &processor->pager;

	for (uint32_t i = first; i < first + count; i++) {
		int rc;

		if (!processor->frames[i].aperture) {
			continue;
		}
		rc = pager->unmap(pager->device, processor->aperture, i * pager->info.small,
				  pager->info.small, error);
		if (rc != SGPU_OK) {
			return rc;
		}
		processor->frames[i].aperture = 0;
	}
	return SGPU_OK;
}

static int open_aperture(struct sgpu_processor *processor, struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &processor->pager;
	const uint64_t big = pager->info.big,
		       size = processor->config.unprotected * pager->info.small;
	sgpu_devptr base;
	int rc;

	if (processor->aperture) {
		return SGPU_OK;
	}
	rc = pager->space_create(pager->device, (size + big - 1) / big * big, &processor->aperture,
				 &base, error);
	if (rc == SGPU_OK) {
		rc = pager->access(pager->device, processor->aperture, true, error);
		if (rc != SGPU_OK) {
			pager->space_free(pager->device, processor->aperture);
			processor->aperture = NULL;
		}
	}
	return rc;
}

static int show(struct sgpu_processor *processor, uint32_t frame, struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &processor->pager;
	const uint64_t small = pager->info.small;
	int rc = open_aperture(processor, error);

	if (rc != SGPU_OK || processor->frames[frame].aperture) {
		return rc;
	}
	rc = pager->map(pager->device, processor->aperture, frame * small, &frame, 1, small, error);
	if (rc == SGPU_OK && sgpu_needs_clear(processor, frame)) {
		rc = pager->clear(pager->device, processor->aperture, frame * small, small, error);
		if (rc != SGPU_OK && pager->unmap(pager->device, processor->aperture, frame * small,
						  small, NULL) != SGPU_OK) {
			/* In use as a table it stays what it is: the device maps it nowhere else.
			 */
			processor->frames[frame].retired = !processor->frames[frame].mapped;
		}
	}
	if (rc == SGPU_OK) {
		processor->frames[frame].aperture = 1;
		/* From now on the host may have written to it. */
		processor->frames[frame].stale = 1;
	}
	return rc;
}

/* Where the frame can be reached. */
static int locate(struct sgpu_processor *processor, uint32_t frame, void **space, uint64_t *at,
		  struct sgpu_error *error)
{
	const struct sgpu_frame_entry *entry = &processor->frames[frame];
	struct sgpu_context *context = sgpu_frame_context(processor, frame);
	int rc;

	if (entry->retired || entry->missing) {
		return sgpu_fail(error, SGPU_EDEVICE, "the device does not give frame %u back",
				 frame);
	}
	if (entry->mapped && entry->use == SGPU_FRAME_DATA && context) {
		const int kind = entry->big ? SGPU_BIG : SGPU_SMALL;

		*space = context->space;
		*at = sgpu_page_va(processor, entry->directory, entry->index, kind) +
		      frame % processor->frames_of[kind] * processor->page_size[SGPU_SMALL];
		return sgpu_activate_now(processor, context, error);
	}
	rc = show(processor, frame, error);
	*space = processor->aperture;
	*at = frame * processor->page_size[SGPU_SMALL];
	return rc;
}

/* `to` or `from` is NULL. */
static int move(struct sgpu_processor *processor, uint64_t physical, uint8_t *to,
		const uint8_t *from, uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_pager *pager = &processor->pager;
	const uint64_t small = pager->info.small, limit = processor->config.unprotected * small;
	int rc = SGPU_OK;

	if (physical > limit || size > limit - physical) {
		return sgpu_fail(
			error, SGPU_EPOLICY,
			"%llu bytes at physical 0x%llx are not all in the unprotected region",
			(unsigned long long)size, (unsigned long long)physical);
	}
	pthread_rwlock_wrlock(&processor->tables);
	while (rc == SGPU_OK && size) {
		const uint64_t offset = physical % small,
			       part = size < small - offset ? size : small - offset;
		void *space = NULL;
		uint64_t at = 0;

		rc = locate(processor, (uint32_t)(physical / small), &space, &at, error);
		if (rc == SGPU_OK) {
			rc = to ? pager->read(pager->device, space, at + offset, to, part, error)
				: pager->write(pager->device, space, at + offset, from, part,
					       error);
		}
		to = to ? to + part : NULL;
		from = from ? from + part : NULL;
		physical += part;
		size -= part;
	}
	pthread_rwlock_unlock(&processor->tables);
	return rc;
}

int sgpu_processor_host_read(struct sgpu_processor *processor, uint64_t physical, void *to,
			     uint64_t size, struct sgpu_error *error)
{
	return move(processor, physical, to, NULL, size, error);
}

int sgpu_processor_host_write(struct sgpu_processor *processor, uint64_t physical, const void *from,
			      uint64_t size, struct sgpu_error *error)
{
	return move(processor, physical, NULL, from, size, error);
}
