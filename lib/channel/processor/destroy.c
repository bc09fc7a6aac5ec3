/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_DESTROY destroys a channel with its context and pages. The pages are cleared before they are
 * free, with or without the owner's MAC, which only shows that the owner agrees.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "channel/processor/processor.h"

/* Clears all pages of a table in runs. If a run cannot be cleared, returns the error or, if `error`
 * is NULL, retires the run's pages and goes on. */
static int clear_table(struct sgpu_processor *processor, const struct sgpu_context *context,
		       uint32_t directory, int kind, struct sgpu_error *error)
{
	const struct sgpu_table *table = context->tables[directory][kind];
	const uint32_t entries = table ? processor->layout.entries_of[kind] : 0;

	for (uint32_t first = 0; first < entries;) {
		uint32_t last = first;
		int rc = SGPU_OK;

		while (last < entries && table->entries[last] != SGPU_NO_FRAME) {
			last++;
		}
		if (last > first) {
			rc = sgpu_pages_clear(
				processor, context, sgpu_page_va(processor, directory, first, kind),
				(last - first) * processor->layout.page_size[kind], error);
		}
		if (rc != SGPU_OK && error) {
			return rc;
		}
		for (uint32_t i = first; rc != SGPU_OK && i < last; i++) {
			sgpu_page_retire(processor, table->entries[i], kind);
		}
		first = last + 1;
	}
	return SGPU_OK;
}

static int clear_all(struct sgpu_processor *processor, const struct sgpu_context *context,
		     struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (uint32_t d = 0; rc == SGPU_OK && d < processor->layout.directory_entries; d++) {
		for (int kind = 0; rc == SGPU_OK && kind < SGPU_KINDS; kind++) {
			rc = clear_table(processor, context, d, kind, error);
		}
	}
	return rc;
}

/* Does the device's part. If it fails, nothing is unmapped, but pages may have been cleared. */
static int leave_device(struct sgpu_processor *processor, struct sgpu_context *context,
			struct sgpu_error *error)
{
	/* Kernels of other contexts must not reach pages that are being cleared. */
	int rc = sgpu_activate_now(processor, context, error);

	rc = rc ? rc : clear_all(processor, context, error);
	/* Freeing the space unmaps the pages. */
	return rc == SGPU_OK ? sgpu_activate_now(processor, NULL, error) : rc;
}

/* ---- updating the tables ---- */
static void leave_table(struct sgpu_processor *processor, struct sgpu_table *table, int kind)
{
	for (uint32_t i = 0; i < processor->layout.entries_of[kind]; i++) {
		const uint32_t page = table->entries[i];

		if (page != SGPU_NO_FRAME && !processor->frames[page].retired) {
			sgpu_page_give(processor, page, kind);
		}
	}
	sgpu_page_give(processor, table->frame, SGPU_SMALL);
	free(table);
}

static void leave(struct sgpu_processor *processor, struct sgpu_channel *channel)
{
	for (uint32_t d = 0; channel->context && d < processor->layout.directory_entries; d++) {
		for (int kind = 0; kind < SGPU_KINDS; kind++) {
			if (channel->context->tables[d][kind]) {
				leave_table(processor, channel->context->tables[d][kind], kind);
			}
		}
	}
	sgpu_page_give(processor, channel->directory, SGPU_SMALL);
	processor->channels[channel->id] = NULL;
	sgpu_channel_free(channel);
}

void sgpu_destroy_by_force(struct sgpu_processor *processor, struct sgpu_channel *channel)
{
	if (channel->context) {
		(void)sgpu_activate_now(processor, channel->context, NULL);
		(void)clear_all(processor, channel->context, NULL);
		if (sgpu_activate_now(processor, NULL, NULL) != SGPU_OK) {
			processor->active = NULL;
		}
	}
	leave(processor, channel);
}

int sgpu_do_destroy(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_of(processor, command->channel);

	if (sgpu_check_via(processor, command, reply) != SGPU_OK) {
		return reply->code;
	}
	if (!channel) {
		return sgpu_refuse(reply, SGPU_REFUSED_NO_CHANNEL, "there is no channel %u",
				   command->channel);
	}
	if (command->destroy.has_mac &&
	    sgpu_check_authorisation(channel, command->destroy.mac_counter, command->destroy.mac,
				     NULL, reply) != SGPU_OK) {
		return reply->code;
	}
	if (channel->context) {
		int rc = leave_device(processor, channel->context, &reply->error);

		if (rc != SGPU_OK) {
			return sgpu_refuse_device(reply, rc, "cannot clear what the channel has");
		}
	}
	leave(processor, channel);
	return SGPU_OK;
}
