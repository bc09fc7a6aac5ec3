/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages: 8 bytes for each frame with its owner, its position in the page tables, and
 * whether it needs clearing before its next use. A page of several frames has an entry for each.
 */
#include "channel/processor/processor.h"

enum sgpu_frame_region sgpu_processor_region(const struct sgpu_processor *processor, uint32_t frame)
{
	if (frame < processor->config.unprotected) {
		return SGPU_REGION_UNPROTECTED;
	}
	return frame < processor->config.frames - processor->config.hidden ? SGPU_REGION_PROTECTED
									   : SGPU_REGION_HIDDEN;
}

bool sgpu_page_is_free(const struct sgpu_processor *processor, uint32_t first, int kind)
{
	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		if (processor->frames[first + i].mapped || processor->frames[first + i].retired) {
			return false;
		}
	}
	return true;
}

bool sgpu_page_needs_clear(const struct sgpu_processor *processor, uint32_t first, int kind)
{
	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		const struct sgpu_frame_entry *entry = &processor->frames[first + i];

		if (entry->stale || (!entry->clean && !processor->info.fresh)) {
			return true;
		}
	}
	return false;
}

void sgpu_page_take(struct sgpu_processor *processor, uint32_t first, int kind,
		    struct sgpu_frame_entry entry)
{
	entry.mapped = 1;
	entry.big = kind == SGPU_BIG;
	entry.clean = entry.use == SGPU_FRAME_DATA || processor->frames[first].clean;
	entry.stale = entry.use != SGPU_FRAME_DATA && processor->frames[first].stale;
	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		processor->frames[first + i] = entry;
	}
}

void sgpu_page_give(struct sgpu_processor *processor, uint32_t first, int kind)
{
	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		struct sgpu_frame_entry *entry = &processor->frames[first + i];
		const bool is_data = entry->use == SGPU_FRAME_DATA;

		*entry = (struct sgpu_frame_entry){
			.clean = is_data || entry->clean,
			.stale = !is_data && entry->stale,
		};
	}
}

void sgpu_page_retire(struct sgpu_processor *processor, uint32_t first, int kind)
{
	const struct sgpu_frame_entry retired = { .retired = 1, .stale = 1 };

	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		processor->frames[first + i] = retired;
	}
}

bool sgpu_range_is_mapped(const struct sgpu_processor *processor,
			  const struct sgpu_context *context, uint64_t at, uint64_t size)
{
	const struct sgpu_layout *layout = &processor->layout;
	uint64_t end;

	if (__builtin_add_overflow(at, size, &end) || end > layout->space) {
		return false;
	}
	while (at < end) {
		const int kind = sgpu_kind_at(layout, context->tables, at);

		if (kind == SGPU_KINDS) {
			return false;
		}
		at = (at / layout->page_size[kind] + 1) * layout->page_size[kind];
	}
	return true;
}
