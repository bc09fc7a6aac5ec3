/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_PDE: a page table into a directory, or out of it. A table can stand in the directories of
 * several channels of one context, at the same index; one with entries stays where it is.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/processor/processor.h"

static struct sgpu_table *make_table(const struct sgpu_processor *processor, uint32_t frame,
				     int kind)
{
	const size_t size = processor->entries_of[kind] * sizeof(uint32_t);
	struct sgpu_table *table = malloc(sizeof(*table) + size);

	if (table) {
		table->frame = frame;
		memset(table->entries, 0xff, size);
	}
	return table;
}

/* Among the tables of a context, at that index; NULL: it is none. */
static struct sgpu_table *find(const struct sgpu_context *context, uint32_t frame, uint32_t index,
			       int kind)
{
	for (const struct sgpu_channel *channel = context->channels; channel;
	     channel = channel->next) {
		struct sgpu_table *table = channel->tables[index][kind];

		if (table && table->frame == frame) {
			return table;
		}
	}
	return NULL;
}

static int check_old(const struct sgpu_processor *processor, const struct sgpu_table *old,
		     struct sgpu_reply *reply)
{
	const struct sgpu_frame_entry *entry = old ? &processor->frames[old->frame] : NULL;

	if (!entry || !entry->index) {
		return SGPU_OK;
	}
	return sgpu_refuse(reply, entry->locked ? SGPU_REFUSED_LOCKED : SGPU_REFUSED_NOT_EMPTY,
			   "the table in frame %u has %u entries%s", old->frame,
			   (unsigned)entry->index, entry->locked ? " and is locked" : "");
}

/* *shared: a table of the context, NULL: the frame is free. */
static int check_new(const struct sgpu_processor *processor, const struct sgpu_channel *channel,
		     const struct sgpu_command *command, struct sgpu_table **shared,
		     struct sgpu_reply *reply)
{
	const uint32_t frame = command->pde.table;
	const int kind = command->pde.big ? SGPU_BIG : SGPU_SMALL;
	const struct sgpu_frame_entry *entry;

	*shared = NULL;
	if (frame >= processor->config.frames) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE, "frame %u for a table: there are %u",
				   frame, processor->config.frames);
	}
	if (sgpu_processor_region(processor, frame) != SGPU_REGION_PROTECTED) {
		return sgpu_refuse(reply, SGPU_REFUSED_REGION,
				   "frame %u, for a table, is not protected", frame);
	}
	if (sgpu_page_is_free(processor, frame, SGPU_SMALL)) {
		return SGPU_OK;
	}
	entry = &processor->frames[frame];
	if (entry->mapped && sgpu_frame_context(processor, frame) != channel->context) {
		return sgpu_refuse(reply, SGPU_REFUSED_FOREIGN,
				   "frame %u, for a table, belongs to another context", frame);
	}
	if (entry->retired || entry->use != SGPU_FRAME_TABLE) {
		return sgpu_refuse(reply, SGPU_REFUSED_NOT_FREE, "frame %u, for a table, is in use",
				   frame);
	}
	*shared = find(channel->context, frame, command->pde.index, kind);
	if (!*shared) {
		return sgpu_refuse(reply, SGPU_REFUSED_ALIAS,
				   "the table in frame %u stands at another index, or is for pages"
				   " of another size",
				   frame);
	}
	return SGPU_OK;
}

static void take_out(struct sgpu_processor *processor, struct sgpu_table *table)
{
	if (processor->frames[table->frame].references > 1) {
		sgpu_page_refer(processor, table->frame, SGPU_SMALL, -1);
		return;
	}
	sgpu_page_give(processor, table->frame, SGPU_SMALL);
	free(table);
}

static void put_in(struct sgpu_processor *processor, const struct sgpu_channel *channel,
		   struct sgpu_table *table, uint32_t index, int kind, bool is_new)
{
	if (!is_new) {
		sgpu_page_refer(processor, table->frame, SGPU_SMALL, 1);
	} else {
		sgpu_page_take(processor, table->frame, SGPU_SMALL,
			       (struct sgpu_frame_entry){
				       .owner = channel->id,
				       .use = SGPU_FRAME_TABLE,
				       .locked = channel->context->keys != NULL,
				       .clean = processor->frames[table->frame].clean,
				       .stale = processor->frames[table->frame].stale,
				       .directory = index,
			       });
		processor->frames[table->frame].big = kind == SGPU_BIG;
	}
	channel->tables[index][kind] = table;
}

int sgpu_do_pde(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply)
{
	struct sgpu_channel *channel =
		sgpu_configurable(processor, command->via, command->channel, reply);
	const int kind = command->pde.big ? SGPU_BIG : SGPU_SMALL;
	const uint32_t index = command->pde.index;
	struct sgpu_table *old, *table = NULL;
	bool is_new = false;

	if (!channel) {
		return reply->code;
	}
	if (index >= processor->directory_entries) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE,
				   "index %u of a directory with %u entries", index,
				   processor->directory_entries);
	}
	old = channel->tables[index][kind];
	if (check_old(processor, old, reply) != SGPU_OK) {
		return reply->code;
	}
	if (command->pde.table == SGPU_NO_FRAME) {
		if (!old) {
			return sgpu_refuse(reply, SGPU_REFUSED_NO_TABLE,
					   "no table at index %u of channel %u", index,
					   channel->id);
		}
	} else if (check_new(processor, channel, command, &table, reply) != SGPU_OK) {
		return reply->code;
	} else if (table && table == old) {
		return SGPU_OK;
	} else if (!table) {
		is_new = true;
		table = make_table(processor, command->pde.table, kind);
		if (!table) {
			return sgpu_refuse_memory(reply);
		}
	}
	channel->tables[index][kind] = NULL;
	if (old) {
		take_out(processor, old);
	}
	if (table) {
		put_in(processor, channel, table, index, kind, is_new);
	}
	return SGPU_OK;
}
