/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages: what it says of a page, and what is entered there. Pages are named by their
 * first frames.
 */
#ifndef SGPU_PROCESSOR_FRAMES_H
#define SGPU_PROCESSOR_FRAMES_H

#include "channel/processor/processor.h"

static inline bool sgpu_needs_clear(const struct sgpu_processor *processor, uint32_t frame)
{
	const struct sgpu_frame_entry *entry = &processor->frames[frame];

	return entry->stale || (!entry->clean && !processor->pager.info.fresh);
}
/* A page of `kind` at `first`: in range, aligned, in one region that is not hidden. */
enum sgpu_refusal sgpu_page_place(const struct sgpu_processor *processor, uint32_t first, int kind,
				  enum sgpu_frame_region *region);
bool sgpu_page_is_free(const struct sgpu_processor *processor, uint32_t first, int kind);
bool sgpu_page_needs_clear(const struct sgpu_processor *processor, uint32_t first, int kind);
void sgpu_page_take(struct sgpu_processor *processor, uint32_t first, int kind,
		    struct sgpu_frame_entry entry);
void sgpu_page_refer(struct sgpu_processor *processor, uint32_t first, int kind, int change);
/* Data have been cleared; a directory's or table's frame is as it was. */
void sgpu_page_give(struct sgpu_processor *processor, uint32_t first, int kind);
void sgpu_page_retire(struct sgpu_processor *processor, uint32_t first, int kind);
/* It was cleared, and stays in its tables; nothing is done with it on the device any more. */
void sgpu_page_miss(struct sgpu_processor *processor, uint32_t first, int kind);
/* A free page that kernels may have written to. */
void sgpu_page_soil(struct sgpu_processor *processor, uint32_t first, int kind);
/* The context whose page it is; NULL: of a bootstrap channel, or retired. */
struct sgpu_context *sgpu_frame_context(const struct sgpu_processor *processor, uint32_t frame);
static inline uint64_t sgpu_page_va(const struct sgpu_processor *processor, uint32_t directory,
				    uint32_t index, int kind)
{
	return directory * (uint64_t)SGPU_CHANNEL_ENTRIES * processor->page_size[SGPU_SMALL] +
	       index * processor->page_size[kind];
}
/* Whether [at, at + size) is mapped: in a context, or in one channel of it. */
bool sgpu_range_is_mapped(const struct sgpu_processor *processor,
			  const struct sgpu_context *context, const struct sgpu_channel *channel,
			  uint64_t at, uint64_t size);

#endif
