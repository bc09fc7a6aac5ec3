/* SPDX-License-Identifier: Apache-2.0
 *
 * Page tables of a channel, for the processor, which has them, and for the allocator's records of
 * them.
 */
#ifndef SGPU_CHANNEL_TABLES_H
#define SGPU_CHANNEL_TABLES_H

#include <stdlib.h>
#include <string.h>

#include "channel/channel.h"

enum { SGPU_SMALL, SGPU_BIG, SGPU_KINDS };

struct sgpu_layout {
	uint64_t page_size[SGPU_KINDS];
	uint64_t window; /* bytes that an entry of a directory covers */
	uint64_t space;	 /* bytes of a context's address space */
	uint32_t frames_of[SGPU_KINDS], entries_of[SGPU_KINDS], directory_entries;
};

static inline struct sgpu_layout sgpu_layout_of(const struct sgpu_pages_info *info,
						const struct sgpu_processor_config *config)
{
	const uint64_t window = SGPU_CHANNEL_ENTRIES * info->small,
		       most = SGPU_CHANNEL_ENTRIES * window,
		       size = config->space_size ? config->space_size
						 : 2 * (uint64_t)config->frames * info->small;
	struct sgpu_layout layout = { .page_size = { info->small, info->big }, .window = window };

	for (int kind = 0; kind < SGPU_KINDS; kind++) {
		layout.frames_of[kind] = (uint32_t)(layout.page_size[kind] / info->small);
		layout.entries_of[kind] = SGPU_CHANNEL_ENTRIES / layout.frames_of[kind];
	}
	layout.space =
		size > most - info->big ? most : (size + info->big - 1) / info->big * info->big;
	layout.directory_entries = (uint32_t)((layout.space + window - 1) / window);
	return layout;
}

/* The contents of a page table, which are not in its frame. */
struct sgpu_table {
	uint32_t frame;
	uint32_t entries[]; /* first frames of pages, SGPU_NO_FRAME for none */
};

/* Returns an empty table, from malloc, or NULL. */
static inline struct sgpu_table *sgpu_table_make(const struct sgpu_layout *layout, uint32_t frame,
						 int kind)
{
	const size_t size = layout->entries_of[kind] * sizeof(uint32_t);
	struct sgpu_table *table = malloc(sizeof(*table) + size);

	if (table) {
		table->frame = frame;
		memset(table->entries, 0xff, size);
	}
	return table;
}

/* Returns the kind of the page that is mapped at `va`, or SGPU_KINDS. */
static inline int sgpu_kind_at(const struct sgpu_layout *layout,
			       struct sgpu_table *(*tables)[SGPU_KINDS], uint64_t va)
{
	int kind = SGPU_SMALL;

	for (; kind < SGPU_KINDS; kind++) {
		const struct sgpu_table *table = tables[va / layout->window][kind];

		if (table && table->entries[va % layout->window / layout->page_size[kind]] !=
				     SGPU_NO_FRAME) {
			break;
		}
	}
	return kind;
}

#endif
