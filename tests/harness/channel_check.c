/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks everything that the processor keeps and counts anew what the table of pages says of it. It
 * shares nothing with the code that makes the entries.
 */
#include <stdlib.h>
#include <string.h>

#include "channel_check.h"
#include "secure/context.h"

struct walk {
	const struct sgpu_processor *processor;
	uint16_t *seen; /* how often each frame was met */
	struct sgpu_error *error;
};

static int broken(const struct walk *walk, uint32_t frame, const char *what)
{
	return sgpu_fail(walk->error, SGPU_EINVALID, "frame %u: %s", frame, what);
}

/* A frame that somebody of `context` uses. */
static int check_use(const struct walk *walk, uint32_t frame, const struct sgpu_context *context,
		     enum sgpu_frame_use use)
{
	const struct sgpu_processor *p = walk->processor;

	if (frame >= p->config.frames) {
		return broken(walk, frame, "there is no such frame");
	}
	const struct sgpu_frame_entry entry = p->frames[frame];
	if (!entry.mapped || entry.retired || entry.use != (unsigned)use) {
		return broken(walk, frame, "in use, and entered as free or otherwise used");
	}
	if (entry.missing && use != SGPU_FRAME_DATA) {
		return broken(walk, frame, "missing, and no page of data");
	}
	if (entry.marked) {
		return broken(walk, frame, "a mark was left");
	}
	if (!p->channels[entry.owner] || p->channels[entry.owner]->context != context) {
		return broken(walk, frame, "used in one context and owned by another");
	}
	if (entry.locked != (context && context->keys)) {
		return broken(walk, frame, "locked without a key, or not locked with one");
	}
	if (frame >= p->config.frames - p->config.hidden) {
		return broken(walk, frame, "hidden, and in use");
	}
	if (use != SGPU_FRAME_DATA && context && frame < p->config.unprotected) {
		return broken(walk, frame, "a directory or table that the host can write");
	}
	walk->seen[frame]++;
	return SGPU_OK;
}

static int check_data(const struct walk *walk, const struct sgpu_context *context,
		      uint32_t directory, uint32_t index, int kind, uint32_t page)
{
	const struct sgpu_processor *p = walk->processor;
	const uint32_t ratio = p->frames_of[SGPU_BIG], count = p->frames_of[kind];
	const struct sgpu_window *window = &context->windows[directory];

	if (page % count || page >= p->config.frames || count > p->config.frames - page) {
		return broken(walk, page, "a page that is not aligned or leaves the memory");
	}
	for (uint32_t f = page; f < page + count; f++) {
		const struct sgpu_frame_entry entry = p->frames[f];

		if (check_use(walk, f, context, SGPU_FRAME_DATA) != SGPU_OK) {
			return SGPU_EINVALID;
		}
		if (entry.big != (kind == SGPU_BIG) || entry.directory != directory ||
		    entry.index != index) {
			return broken(walk, f, "its entry names another address or size");
		}
		if ((f < p->config.unprotected) != (page < p->config.unprotected)) {
			return broken(walk, f, "one page in two regions");
		}
	}
	if (!window->entries[kind] || window->entries[kind][index] != page) {
		return broken(walk, page, "in a table, and the context has something else there");
	}
	if (kind == SGPU_SMALL && window->used[SGPU_BIG] &&
	    window->entries[SGPU_BIG][index / ratio] != SGPU_NO_FRAME) {
		return broken(walk, page, "a small and a big page at one address");
	}
	return SGPU_OK;
}

static int check_table(const struct walk *walk, const struct sgpu_context *context,
		       uint32_t directory, int kind, const struct sgpu_table *table)
{
	const struct sgpu_processor *p = walk->processor;
	uint32_t used = 0;
	int rc = SGPU_OK;

	for (uint32_t i = 0; rc == SGPU_OK && i < p->entries_of[kind]; i++) {
		if (table->entries[i] != SGPU_NO_FRAME) {
			used++;
			rc = check_data(walk, context, directory, i, kind, table->entries[i]);
		}
	}
	const struct sgpu_frame_entry entry = p->frames[table->frame];
	if (rc == SGPU_OK && (entry.index != used || entry.directory != directory ||
			      entry.big != (kind == SGPU_BIG))) {
		rc = broken(walk, table->frame,
			    "a table whose entries are not as many or not where it says");
	}
	return rc;
}

/* Whether a channel before this one in the context has the table, so that it was walked already. */
static bool walked(const struct sgpu_context *context, const struct sgpu_channel *channel,
		   uint32_t directory, int kind)
{
	const struct sgpu_channel *other = context->channels;

	while (other != channel &&
	       other->tables[directory][kind] != channel->tables[directory][kind]) {
		other = other->next;
	}
	return other != channel;
}

static int check_channel(const struct walk *walk, const struct sgpu_context *context,
			 const struct sgpu_channel *channel)
{
	const struct sgpu_processor *p = walk->processor;
	int rc = check_use(walk, channel->directory, context, SGPU_FRAME_DIRECTORY);

	if (rc == SGPU_OK && (p->channels[channel->id] != channel || channel->serial > p->serials ||
			      p->frames[channel->directory].owner != channel->id)) {
		rc = broken(walk, channel->directory,
			    "the directory of a channel that is not entered");
	}
	for (uint32_t d = 0; rc == SGPU_OK && context && d < p->directory_entries; d++) {
		for (int kind = 0; rc == SGPU_OK && kind < SGPU_KINDS; kind++) {
			const struct sgpu_table *table = channel->tables[d][kind];

			if (table) {
				rc = check_use(walk, table->frame, context, SGPU_FRAME_TABLE);
			}
			if (rc == SGPU_OK && table && !walked(context, channel, d, kind)) {
				rc = check_table(walk, context, d, kind, table);
			}
		}
	}
	return rc;
}

/* Everything that the device has mapped in the context is in a table. */
static int check_windows(const struct walk *walk, const struct sgpu_context *context)
{
	const struct sgpu_processor *p = walk->processor;

	for (uint32_t d = 0; d < p->directory_entries; d++) {
		for (int kind = 0; kind < SGPU_KINDS; kind++) {
			const uint32_t *entries = context->windows[d].entries[kind];
			uint32_t used = 0;

			for (uint32_t i = 0; entries && i < p->entries_of[kind]; i++) {
				if (entries[i] == SGPU_NO_FRAME) {
					continue;
				}
				used++;
				if (entries[i] == SGPU_POISONED_FRAME) {
					continue;
				}
				if (!walk->seen[entries[i]] ||
				    sgpu_frame_context(p, entries[i]) != context) {
					return broken(walk, entries[i],
						      "mapped on the device, and in no table");
				}
			}
			if (used != context->windows[d].used[kind]) {
				return sgpu_fail(walk->error, SGPU_EINVALID,
						 "directory index %u: %u pages, %u counted", d,
						 context->windows[d].used[kind], used);
			}
		}
	}
	return SGPU_OK;
}

static int check_context(const struct walk *walk, const struct sgpu_context *context)
{
	int rc = SGPU_OK;

	if (!context->channels || (!context->keys && context->channels->next)) {
		return sgpu_fail(walk->error, SGPU_EINVALID,
				 "a context without channels, or several without a key");
	}
	for (const struct sgpu_context *other = context->next; other; other = other->next) {
		if (context->keys && other->keys &&
		    !memcmp(context->owner_key, other->owner_key, sizeof(context->owner_key))) {
			return sgpu_fail(walk->error, SGPU_EINVALID, "two contexts of one owner");
		}
	}
	for (const struct sgpu_channel *channel = context->channels; rc == SGPU_OK && channel;
	     channel = channel->next) {
		rc = channel->context == context
			     ? check_channel(walk, context, channel)
			     : sgpu_fail(walk->error, SGPU_EINVALID,
					 "channel %u is in two contexts", channel->id);
	}
	return rc == SGPU_OK ? check_windows(walk, context) : rc;
}

static int check_counts(const struct walk *walk)
{
	const struct sgpu_processor *p = walk->processor;

	for (uint32_t f = 0; f < p->config.frames; f++) {
		const struct sgpu_frame_entry entry = p->frames[f];

		if (entry.references != walk->seen[f] || entry.mapped != (walk->seen[f] > 0)) {
			return sgpu_fail(walk->error, SGPU_EINVALID,
					 "frame %u: %u references are entered, %u are there", f,
					 (unsigned)entry.references, walk->seen[f]);
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
	for (const struct sgpu_context *context = processor->contexts; rc == SGPU_OK && context;
	     context = context->next) {
		rc = check_context(&walk, context);
	}
	for (uint32_t i = 0; rc == SGPU_OK && i < SGPU_CHANNEL_MAX; i++) {
		const struct sgpu_channel *channel = processor->channels[i];

		if (channel && !channel->context) {
			rc = check_channel(&walk, NULL, channel);
		}
	}
	if (rc == SGPU_OK) {
		rc = check_counts(&walk);
	}
	sgpu_tables_leave(processor);
	free(walk.seen);
	return rc;
}

int sgpu_processor_frame(struct sgpu_processor *processor, uint32_t frame, struct sgpu_frame *about)
{
	if (frame >= processor->config.frames) {
		return SGPU_EUSAGE;
	}
	sgpu_tables_enter(processor);
	const struct sgpu_frame_entry entry = processor->frames[frame];
	sgpu_tables_leave(processor);

	*about = (struct sgpu_frame){
		.mapped = entry.mapped,
		.locked = entry.locked,
		.big = entry.big,
		.use = entry.use,
		.owner = entry.owner,
		.references = entry.references,
	};
	if (entry.use == SGPU_FRAME_TABLE) {
		about->entries = entry.index;
	} else if (entry.mapped && entry.use == SGPU_FRAME_DATA) {
		int kind = entry.big ? SGPU_BIG : SGPU_SMALL;

		about->va = sgpu_page_va(processor, entry.directory, entry.index, kind) +
			    frame % processor->frames_of[kind] * processor->page_size[SGPU_SMALL];
	}
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
	const struct sgpu_context *context = NULL;
	bool does;

	sgpu_tables_enter(processor);
	if (channel < SGPU_CHANNEL_MAX && processor->channels[channel]) {
		context = processor->channels[channel]->context;
	}
	does = context && address >= context->base &&
	       sgpu_range_is_mapped(processor, context, NULL, address - context->base, size);
	sgpu_tables_leave(processor);
	return does;
}

struct sgpu_processor *sgpu_secure_processor(struct sgpu_secure *context)
{
	return context->ground ? context->ground->processor : NULL;
}
