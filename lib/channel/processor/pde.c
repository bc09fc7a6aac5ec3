/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_PDE puts a page table into a directory, or takes one out if no page is mapped in it.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/processor/processor.h"

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

static int check_new(const struct sgpu_processor *processor, const struct sgpu_channel *channel,
		     uint32_t frame, struct sgpu_reply *reply)
{
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
	const struct sgpu_frame_entry *entry = &processor->frames[frame];
	if (entry->mapped && entry->owner != channel->id) {
		return sgpu_refuse(reply, SGPU_REFUSED_FOREIGN,
				   "frame %u, for a table, belongs to another channel", frame);
	}
	return sgpu_refuse(reply, SGPU_REFUSED_NOT_FREE, "frame %u, for a table, is in use", frame);
}

static void put_in(struct sgpu_processor *processor, const struct sgpu_channel *channel,
		   struct sgpu_table *table, uint32_t index, int kind)
{
	sgpu_page_take(processor, table->frame, SGPU_SMALL,
		       (struct sgpu_frame_entry){
			       .owner = channel->id,
			       .use = SGPU_FRAME_TABLE,
			       .locked = channel->context->keys != NULL,
			       .directory = index,
		       });
	processor->frames[table->frame].big = kind == SGPU_BIG;
	channel->context->tables[index][kind] = table;
}

int sgpu_do_pde(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_configurable(processor, command, reply);
	const int kind = command->pde.big ? SGPU_BIG : SGPU_SMALL;
	const uint32_t index = command->pde.index;
	struct sgpu_table *old, *table = NULL;

	if (!channel) {
		return reply->code;
	}
	if (index >= processor->layout.directory_entries) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE,
				   "index %u of a directory with %u entries", index,
				   processor->layout.directory_entries);
	}
	old = channel->context->tables[index][kind];
	if (check_old(processor, old, reply) != SGPU_OK) {
		return reply->code;
	}
	if (command->pde.table == SGPU_NO_FRAME) {
		if (!old) {
			return sgpu_refuse(reply, SGPU_REFUSED_NO_TABLE,
					   "no table at index %u of channel %u", index,
					   channel->id);
		}
	} else if (old && old->frame == command->pde.table) {
		return SGPU_OK;
	} else if (check_new(processor, channel, command->pde.table, reply) != SGPU_OK) {
		return reply->code;
	} else if (!(table = sgpu_table_make(&processor->layout, command->pde.table, kind))) {
		reply->refusal = SGPU_REFUSED_LIMIT;
		reply->code = sgpu_fail_nomem(&reply->error);
		return reply->code;
	}
	if (old) {
		sgpu_page_give(processor, old->frame, SGPU_SMALL);
		free(old);
		channel->context->tables[index][kind] = NULL;
	}
	if (table) {
		put_in(processor, channel, table, index, kind);
	}
	return SGPU_OK;
}
