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
	if (entry.use != (unsigned)use) {
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

/* The page whose first frame stands at `at`; *size: its bytes. */
static int check_data(const struct walk *walk, const struct sgpu_channel *channel, uint64_t at,
		      uint32_t used[SGPU_KINDS], uint64_t *size)
{
	const struct sgpu_processor *p = walk->processor;
	const struct sgpu_layout *layout = &p->layout;
	const uint64_t small = layout->page_size[SGPU_SMALL];
	const uint32_t *entry = &channel->space->entries[at / small], page = *entry - 1;
	const int kind = page < p->config.frames && p->frames[page].big ? SGPU_BIG : SGPU_SMALL;
	const uint32_t count = layout->frames_of[kind];

	*size = layout->page_size[kind];
	if (page % count || at % *size || at + *size > layout->space) {
		return broken(walk, page, "a page that is not aligned or leaves the context");
	}
	for (uint32_t i = 0; i < count; i++) {
		if (check_use(walk, page + i, channel, SGPU_FRAME_DATA) != SGPU_OK) {
			return SGPU_EINVALID;
		}
		if (entry[i] != page + i + 1 || p->frames[page + i].big != (kind == SGPU_BIG)) {
			return broken(walk, page + i, "a big page of which a part is missing");
		}
	}
	used[kind]++;
	return SGPU_OK;
}

/* What an entry of the directory covers: its pages, and its tables, which must know of them. */
static int check_window(const struct walk *walk, const struct sgpu_channel *channel,
			uint32_t directory)
{
	const struct sgpu_layout *layout = &walk->processor->layout;
	const uint64_t small = layout->page_size[SGPU_SMALL];
	uint64_t at = directory * layout->window, end = at + layout->window, size;
	uint32_t used[SGPU_KINDS] = { 0 };
	int rc = SGPU_OK;

	end = end < layout->space ? end : layout->space;
	for (; rc == SGPU_OK; at += size) {
		at = sgpu_space_seek(channel->space, at / small, end / small, true) * small;
		if (at == end) {
			break;
		}
		rc = check_data(walk, channel, at, used, &size);
	}
	for (int kind = 0; rc == SGPU_OK && kind < SGPU_KINDS; kind++) {
		const struct sgpu_table *table = &channel->tables[directory][kind];

		if (table->exists) {
			rc = check_use(walk, table->frame, channel, SGPU_FRAME_TABLE);
		}
		if (rc == SGPU_OK && (table->exists ? table->used : 0) != used[kind]) {
			rc = broken(walk, table->frame,
				    "a table with more or fewer entries than it says");
		}
	}
	return rc;
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
		rc = check_window(walk, channel, d);
	}
	return rc;
}

static int check_counts(const struct walk *walk)
{
	const struct sgpu_processor *p = walk->processor;

	for (uint32_t f = 0; f < p->config.frames; f++) {
		const struct sgpu_frame_entry entry = p->frames[f];

		if ((entry.use != SGPU_FRAME_FREE) != walk->seen[f]) {
			return sgpu_fail(walk->error, SGPU_EINVALID,
					 "frame %u: used %u times, entered as %u", f, walk->seen[f],
					 (unsigned)entry.use);
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
	pthread_rwlock_rdlock(&processor->tables);
	for (uint32_t i = 0; rc == SGPU_OK && i < SGPU_CHANNEL_MAX; i++) {
		const struct sgpu_channel *channel = processor->channels[i];

		rc = channel ? check_channel(&walk, channel) : SGPU_OK;
	}
	if (rc == SGPU_OK) {
		rc = check_counts(&walk);
	}
	pthread_rwlock_unlock(&processor->tables);
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
			&processor->channels[channel]->tables[i / SGPU_KINDS][i % SGPU_KINDS];

		used = table->exists && table->frame == frame ? table->used : used;
	}
	return used;
}

/* Where a frame stands in its context. */
static uint64_t find_address(const struct sgpu_processor *processor, uint32_t channel,
			     uint32_t frame)
{
	const struct sgpu_space *space = processor->channels[channel]->space;
	const uint64_t small = processor->layout.page_size[SGPU_SMALL];
	uint64_t at = 0, size;

	while (sgpu_space_next_run(space, &at, &size)) {
		for (; size > 0; at += small, size -= small) {
			if (space->entries[at / small] == frame + 1) {
				return at;
			}
		}
	}
	return UINT64_MAX;
}

int sgpu_processor_frame(struct sgpu_processor *processor, uint32_t frame, struct sgpu_frame *about)
{
	if (frame >= processor->config.frames) {
		return SGPU_EUSAGE;
	}
	pthread_rwlock_rdlock(&processor->tables);
	const struct sgpu_frame_entry entry = processor->frames[frame];

	*about = (struct sgpu_frame){
		.mapped = entry.use != SGPU_FRAME_FREE,
		.big = entry.big,
		.use = entry.use,
		.owner = entry.owner,
	};
	if (entry.use == SGPU_FRAME_TABLE) {
		about->entries = count_entries(processor, entry.owner, frame);
	} else if (entry.use == SGPU_FRAME_DATA) {
		about->va = find_address(processor, entry.owner, frame);
	}
	pthread_rwlock_unlock(&processor->tables);
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

	pthread_rwlock_rdlock(&processor->tables);
	of = sgpu_channel_of(processor, channel);
	does = of && address >= of->base &&
	       sgpu_range_is_mapped(processor, of, address - of->base, size);
	pthread_rwlock_unlock(&processor->tables);
	return does;
}

struct sgpu_processor *sgpu_secure_processor(struct sgpu_secure *context)
{
	return context->ground ? context->ground->processor : NULL;
}
