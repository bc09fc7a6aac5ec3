/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks everything that the processor keeps and counts anew what the table of pages says of it. It
 * shares nothing with the code that makes the entries.
 */
#include <stdlib.h>
#include <string.h>

#include "channel_check.h"
#include "channel/context.h"

struct walk {
	const struct sgpu_processor *processor;
	uint16_t *seen; /* how often each frame was met */
	struct sgpu_error *error;
};

static int broken(const struct walk *walk, uint32_t frame, const char *what)
{
	return sgpu_fail(walk->error, SGPU_EINVALID, "frame %u: %s", frame, what);
}

/* A frame that `channel` uses. */
static int check_use(const struct walk *walk, uint32_t frame, const struct sgpu_channel *channel,
		     enum sgpu_frame_use use)
{
	const struct sgpu_processor *p = walk->processor;

	if (frame >= p->config.frames) {
		return broken(walk, frame, "there is no such frame");
	}
	const struct sgpu_frame_entry entry = p->frames[frame];
	if (!entry.mapped || entry.use != (unsigned)use) {
		return broken(walk, frame, "in use, and entered as free or otherwise used");
	}
	if (entry.marked) {
		return broken(walk, frame, "a mark was left");
	}
	if (p->channels[entry.owner] != channel) {
		return broken(walk, frame, "used in one channel and owned by another");
	}
	walk->seen[frame]++;
	return SGPU_OK;
}

static int check_data(const struct walk *walk, const struct sgpu_channel *channel,
		      uint32_t directory, uint32_t index, int kind, uint32_t page)
{
	const struct sgpu_processor *p = walk->processor;
	const uint32_t ratio = p->layout.frames_of[SGPU_BIG], count = p->layout.frames_of[kind];
	const struct sgpu_table *big = channel->tables[directory][SGPU_BIG];

	if (page % count || page >= p->config.frames || count > p->config.frames - page) {
		return broken(walk, page, "a page that is not aligned or leaves the memory");
	}
	for (uint32_t f = page; f < page + count; f++) {
		const struct sgpu_frame_entry entry = p->frames[f];

		if (check_use(walk, f, channel, SGPU_FRAME_DATA) != SGPU_OK) {
			return SGPU_EINVALID;
		}
		if (entry.big != (kind == SGPU_BIG) || entry.directory != directory ||
		    entry.index != index) {
			return broken(walk, f, "its entry names another address or size");
		}
	}
	if (kind == SGPU_SMALL && big && big->entries[index / ratio] != SGPU_NO_FRAME) {
		return broken(walk, page, "a small and a big page at one address");
	}
	return SGPU_OK;
}

static int check_table(const struct walk *walk, const struct sgpu_channel *channel,
		       uint32_t directory, int kind, const struct sgpu_table *table)
{
	const struct sgpu_processor *p = walk->processor;
	uint32_t used = 0;
	int rc = check_use(walk, table->frame, channel, SGPU_FRAME_TABLE);

	for (uint32_t i = 0; rc == SGPU_OK && i < p->layout.entries_of[kind]; i++) {
		if (table->entries[i] != SGPU_NO_FRAME) {
			used++;
			rc = check_data(walk, channel, directory, i, kind, table->entries[i]);
		}
	}
	return rc == SGPU_OK && table->used != used
		       ? broken(walk, table->frame,
				"a table with more or fewer entries than it says")
		       : rc;
}

static int check_channel(const struct walk *walk, const struct sgpu_channel *channel)
{
	const struct sgpu_processor *p = walk->processor;
	int rc = check_use(walk, channel->directory, channel, SGPU_FRAME_DIRECTORY);

	if (rc == SGPU_OK &&
	    (p->channels[channel->id] != channel || channel->grant.serial > p->serials)) {
		rc = broken(walk, channel->directory,
			    "the directory of a channel that is not entered");
	}
	for (uint32_t d = 0; rc == SGPU_OK && d < p->layout.directory_entries; d++) {
		for (int kind = 0; rc == SGPU_OK && kind < SGPU_KINDS; kind++) {
			const struct sgpu_table *table = channel->tables[d][kind];

			rc = table ? check_table(walk, channel, d, kind, table) : SGPU_OK;
		}
	}
	return rc;
}

static int check_counts(const struct walk *walk)
{
	const struct sgpu_processor *p = walk->processor;

	for (uint32_t f = 0; f < p->config.frames; f++) {
		const struct sgpu_frame_entry entry = p->frames[f];

		if (entry.mapped != walk->seen[f]) {
			return sgpu_fail(walk->error, SGPU_EINVALID,
					 "frame %u: mapped %u times, entered as %u", f,
					 walk->seen[f], (unsigned)entry.mapped);
		}
	}
	return SGPU_OK;
}

int sgpu_processor_check(struct sgpu_processor *processor, struct sgpu_error *error)
{
	struct walk walk = { .processor = processor, .error = error };
	int rc = SGPU_OK;

	walk.seen = calloc(processor->config.frames, sizeof(*walk.seen));
	if (!walk.seen) {
		return sgpu_fail_nomem(error);
	}
	sgpu_tables_enter(processor);
	for (uint32_t i = 0; rc == SGPU_OK && i < SGPU_CHANNEL_MAX; i++) {
		const struct sgpu_channel *channel = processor->channels[i];

		rc = channel ? check_channel(&walk, channel) : SGPU_OK;
	}
	if (rc == SGPU_OK) {
		rc = check_counts(&walk);
	}
	sgpu_tables_leave(processor);
	free(walk.seen);
	return rc;
}

/* How many entries of the page table in `frame` are in use. */
static uint32_t count_entries(const struct sgpu_processor *processor, uint32_t channel,
			      uint32_t frame)
{
	const uint32_t tables = processor->layout.directory_entries * SGPU_KINDS;
	uint32_t used = 0;

	for (uint32_t i = 0; i < tables; i++) {
		const struct sgpu_table *table =
			processor->channels[channel]->tables[i / SGPU_KINDS][i % SGPU_KINDS];

		used = table && table->frame == frame ? table->used : used;
	}
	return used;
}

int sgpu_processor_frame(struct sgpu_processor *processor, uint32_t frame, struct sgpu_frame *about)
{
	if (frame >= processor->config.frames) {
		return SGPU_EUSAGE;
	}
	sgpu_tables_enter(processor);
	const struct sgpu_frame_entry entry = processor->frames[frame];

	*about = (struct sgpu_frame){
		.mapped = entry.mapped,
		.big = entry.big,
		.use = entry.use,
		.owner = entry.owner,
	};
	if (entry.use == SGPU_FRAME_TABLE) {
		about->entries = count_entries(processor, entry.owner, frame);
	} else if (entry.mapped && entry.use == SGPU_FRAME_DATA) {
		int kind = entry.big ? SGPU_BIG : SGPU_SMALL;

		about->va = entry.directory * processor->layout.window +
			    entry.index * processor->layout.page_size[kind] +
			    frame % processor->layout.frames_of[kind] *
				    processor->layout.page_size[SGPU_SMALL];
	}
	sgpu_tables_leave(processor);
	return SGPU_OK;
}

int sgpu_processor_activate(struct sgpu_processor *processor, uint32_t channel,
			    struct sgpu_error *error)
{
	int rc = sgpu_processor_enter(processor, channel, NULL, 0, error);

	if (rc == SGPU_OK) {
		sgpu_processor_leave(processor);
	}
	return rc;
}

bool sgpu_processor_reaches(struct sgpu_processor *processor, uint32_t channel, sgpu_devptr address,
			    uint64_t size)
{
	const struct sgpu_channel *of;
	bool does;

	sgpu_tables_enter(processor);
	of = sgpu_channel_of(processor, channel);
	does = of && address >= of->base &&
	       sgpu_range_is_mapped(processor, of, address - of->base, size);
	sgpu_tables_leave(processor);
	return does;
}

struct sgpu_processor *sgpu_secure_processor(struct sgpu_secure *context)
{
	return context->ground ? context->ground->processor : NULL;
}
