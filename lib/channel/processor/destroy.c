/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_DESTROY: a channel with what it alone has mapped. With or without the owner's authorisation
 * everything is cleared before it is free; the MAC only says that the owner wanted it. With the
 * last channel goes the context, and its key with it.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "channel/processor/processor.h"

struct destruction {
	struct sgpu_processor *processor;
	struct sgpu_channel *channel;
	struct sgpu_error *error;
	bool poisons; /* what goes leaves its addresses unusable */
};
/* Consecutive pages that go with the channel. */
struct page_run {
	uint64_t va, size;
	const uint32_t *pages;
	uint32_t count;
	int kind;
};
typedef int (*run_fn)(const struct destruction *job, const struct page_run *run);

static int clear_run(const struct destruction *job, const struct page_run *run)
{
	return sgpu_pages_clear(job->processor, job->channel->context, run->va, run->size,
				job->error);
}

static int unmap_run(const struct destruction *job, const struct page_run *run)
{
	return sgpu_page_unmap(job->channel->context->space, run->va, run->size, job->error);
}

static int map_run(const struct destruction *job, const struct page_run *run)
{
	if (sgpu_page_map(job->channel->context->space, run->va, run->pages, run->count,
			  job->processor->page_size[run->kind], NULL) != SGPU_OK) {
		for (uint32_t i = 0; i < run->count; i++) {
			sgpu_page_miss(job->processor, run->pages[i], run->kind);
		}
	}
	return SGPU_OK;
}

/* One that cannot be cleared is nobody's any more. */
static int clear_or_retire(const struct destruction *job, const struct page_run *run)
{
	if (clear_run(job, run) != SGPU_OK) {
		for (uint32_t i = 0; i < run->count; i++) {
			sgpu_page_retire(job->processor, run->pages[i], run->kind);
		}
	}
	return SGPU_OK;
}

/* Of what is missing the device has nothing left. */
static bool leaves(const struct destruction *job, const struct sgpu_table *table, uint32_t index)
{
	const uint32_t page = table->entries[index];

	return page != SGPU_NO_FRAME && job->processor->frames[page].references == 1 &&
	       !job->processor->frames[page].missing;
}

/* The runs of one table; `limit` counts runs down, at 0 it ends. */
static int each_run_of(const struct destruction *job, uint32_t directory, int kind, run_fn run,
		       uint64_t *limit, uint64_t *done)
{
	const struct sgpu_processor *processor = job->processor;
	const struct sgpu_table *table = job->channel->tables[directory][kind];
	const uint32_t entries = processor->entries_of[kind];

	if (!table || processor->frames[table->frame].references != 1) {
		return SGPU_OK;
	}
	for (uint32_t first = 0; first < entries && *limit;) {
		uint32_t last = first;

		while (last < entries && leaves(job, table, last)) {
			last++;
		}
		if (last > first) {
			const struct page_run pages = {
				.va = sgpu_page_va(processor, directory, first, kind),
				.size = (last - first) * processor->page_size[kind],
				.pages = table->entries + first,
				.count = last - first,
				.kind = kind,
			};
			int rc = run(job, &pages);

			if (rc != SGPU_OK) {
				return rc;
			}
			++*done;
			--*limit;
		}
		first = last + 1;
	}
	return SGPU_OK;
}

/* Calls `run` for at most `limit` runs; *done is how many it did. */
static int each_run(const struct destruction *job, run_fn run, uint64_t limit, uint64_t *done)
{
	int rc = SGPU_OK;

	*done = 0;
	for (uint32_t d = 0; rc == SGPU_OK && d < job->processor->directory_entries; d++) {
		for (int kind = 0; rc == SGPU_OK && kind < SGPU_KINDS; kind++) {
			rc = each_run_of(job, d, kind, run, &limit, done);
		}
	}
	return rc;
}

static bool is_last(const struct sgpu_channel *channel)
{
	return channel->context->channels == channel && !channel->next;
}

/* What the device does; when it fails nothing has gone, but what was to go may be clear. */
static int leave_device(const struct destruction *job)
{
	struct sgpu_processor *processor = job->processor;
	uint64_t done = 0;
	/* Kernels of another context must not see what is being cleared. */
	int rc = sgpu_activate_now(processor, job->channel->context, job->error);

	if (rc == SGPU_OK) {
		rc = each_run(job, clear_run, UINT64_MAX, &done);
	}
	if (rc == SGPU_OK && is_last(job->channel)) {
		/* The space goes, and takes its mappings with it. */
		return sgpu_activate_now(processor, NULL, job->error);
	}
	if (rc == SGPU_OK) {
		rc = each_run(job, unmap_run, UINT64_MAX, &done);
		if (rc != SGPU_OK) {
			(void)each_run(job, map_run, done, &done);
		}
	}
	return rc;
}

/* ---- entering it ---- */
static void leave_table(const struct destruction *job, uint32_t directory, int kind)
{
	struct sgpu_processor *processor = job->processor;
	struct sgpu_window *window = &job->channel->context->windows[directory];
	struct sgpu_table *table = job->channel->tables[directory][kind];

	if (processor->frames[table->frame].references > 1) {
		sgpu_page_refer(processor, table->frame, SGPU_SMALL, -1);
		return;
	}
	for (uint32_t i = 0; i < processor->entries_of[kind]; i++) {
		const uint32_t page = table->entries[i];

		if (page == SGPU_NO_FRAME) {
			continue;
		}
		if (processor->frames[page].references > 1) {
			sgpu_page_refer(processor, page, kind, -1);
			continue;
		}
		if (!processor->frames[page].retired) {
			sgpu_page_give(processor, page, kind);
		}
		window->entries[kind][i] = job->poisons ? SGPU_POISONED_FRAME : SGPU_NO_FRAME;
		window->used[kind] -= !job->poisons;
	}
	sgpu_page_give(processor, table->frame, SGPU_SMALL);
	free(table);
}

/* The id may soon be another context's, so what stays gets an owner among those who have it. */
static void inherit_page(struct sgpu_processor *processor, const struct sgpu_context *context,
			 uint32_t from, uint32_t directory, uint32_t index, int kind)
{
	const uint32_t page = context->windows[directory].entries[kind][index];

	if (page >= SGPU_POISONED_FRAME || processor->frames[page].owner != from) {
		return;
	}
	for (const struct sgpu_channel *channel = context->channels; channel;
	     channel = channel->next) {
		const struct sgpu_table *table = channel->tables[directory][kind];

		if (table && table->entries[index] == page) {
			for (uint32_t f = page; f < page + processor->frames_of[kind]; f++) {
				processor->frames[f].owner = channel->id;
			}
			return;
		}
	}
}

static void inherit(struct sgpu_processor *processor, const struct sgpu_context *context,
		    uint32_t from)
{
	for (uint32_t d = 0; d < processor->directory_entries; d++) {
		for (int kind = 0; kind < SGPU_KINDS; kind++) {
			for (const struct sgpu_channel *channel = context->channels; channel;
			     channel = channel->next) {
				const struct sgpu_table *table = channel->tables[d][kind];

				if (table && processor->frames[table->frame].owner == from) {
					processor->frames[table->frame].owner = channel->id;
				}
			}
			for (uint32_t i = 0;
			     context->windows[d].used[kind] && i < processor->entries_of[kind];
			     i++) {
				inherit_page(processor, context, from, d, i, kind);
			}
		}
	}
}

static void remove_context(struct sgpu_processor *processor, struct sgpu_context *context)
{
	struct sgpu_context **link = &processor->contexts;

	while (*link != context) {
		link = &(*link)->next;
	}
	*link = context->next;
	sgpu_context_free(processor, context);
}

static void leave(struct sgpu_processor *processor, struct sgpu_channel *channel, bool authorised)
{
	const struct destruction job = { .processor = processor,
					 .channel = channel,
					 .poisons = !authorised };
	struct sgpu_context *context = channel->context;

	for (uint32_t d = 0; context && d < processor->directory_entries; d++) {
		for (int kind = 0; kind < SGPU_KINDS; kind++) {
			if (channel->tables[d][kind]) {
				leave_table(&job, d, kind);
			}
		}
	}
	if (context) {
		struct sgpu_channel **link = &context->channels;

		while (*link != channel) {
			link = &(*link)->next;
		}
		*link = channel->next;
	}
	sgpu_page_give(processor, channel->directory, SGPU_SMALL);
	processor->channels[channel->id] = NULL;
	if (context && context->channels) {
		inherit(processor, context, channel->id);
	} else if (context) {
		remove_context(processor, context);
	}
	sgpu_channel_free(channel);
}

void sgpu_destroy_by_force(struct sgpu_processor *processor, struct sgpu_channel *channel)
{
	const struct destruction job = { .processor = processor, .channel = channel };
	uint64_t done;

	if (channel->context) {
		(void)sgpu_activate_now(processor, channel->context, NULL);
		(void)each_run(&job, clear_or_retire, UINT64_MAX, &done);
		if (is_last(channel)) {
			if (sgpu_activate_now(processor, NULL, NULL) != SGPU_OK) {
				processor->active = NULL;
			}
		} else {
			(void)each_run(&job, unmap_run, UINT64_MAX, &done);
		}
	}
	leave(processor, channel, false);
}

static int check_mac(const struct sgpu_channel *channel, const struct sgpu_command *command,
		     struct sgpu_reply *reply)
{
	const struct sgpu_context_keys *keys = channel->context ? channel->context->keys : NULL;
	const uint64_t counter = command->destroy.mac_counter;
	uint8_t expected[SGPU_CHANNEL_MAC_SIZE] = { 0 };

	if (!command->destroy.has_mac) {
		return SGPU_OK;
	}
	if (keys) {
		sgpu_mac_destroy(&keys->derived, channel->serial, counter, expected);
	}
	(void)sgpu_check_authorisation(channel, counter, command->destroy.mac, expected, reply);
	sgpu_wipe(expected, sizeof(expected));
	return reply->code;
}

int sgpu_do_destroy(struct sgpu_processor *processor, const struct sgpu_command *command,
		    struct sgpu_reply *reply)
{
	const uint32_t id = command->channel;
	struct sgpu_channel *channel;

	if (!sgpu_is_bootstrap(processor, command->via)) {
		return sgpu_refuse(reply, SGPU_REFUSED_BOOTSTRAP,
				   "channel %u is no bootstrap channel", command->via);
	}
	channel = id < SGPU_CHANNEL_MAX ? processor->channels[id] : NULL;
	if (!channel) {
		return sgpu_refuse(reply, SGPU_REFUSED_NO_CHANNEL, "there is no channel %u", id);
	}
	if (check_mac(channel, command, reply) != SGPU_OK) {
		return reply->code;
	}
	if (channel->context) {
		const struct destruction job = { .processor = processor,
						 .channel = channel,
						 .error = &reply->error };
		int rc = leave_device(&job);

		if (rc != SGPU_OK) {
			return sgpu_refuse_device(reply, rc, "cannot clear what the channel has");
		}
	}
	leave(processor, channel, command->destroy.has_mac);
	return SGPU_OK;
}
