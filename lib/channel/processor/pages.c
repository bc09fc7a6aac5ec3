/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pages, and the commands that change it. CH_PDE puts a page table into a directory,
 * or takes an empty one out. CH_PTE maps or unmaps pages. All checks come first, against the table
 * of pages and what the channel's space maps; then the device maps or unmaps; then the table
 * changes.
 */
#include <endian.h>
#include <string.h>

#include "crypto/crypto.h"
#include "channel/processor/processor.h"

/* ---- the table of pages: a page of several frames has an entry for each ---- */
void sgpu_page_enter(struct sgpu_processor *processor, uint32_t first, int kind,
		     struct sgpu_frame_entry entry)
{
	for (uint32_t i = 0; i < processor->layout.frames_of[kind]; i++) {
		processor->frames[first + i] = entry;
	}
}

int sgpu_page_check(const struct sgpu_processor *processor, uint32_t channel, uint32_t first,
		    int kind, struct sgpu_reply *reply)
{
	const uint32_t count = processor->layout.frames_of[kind], total = processor->config.frames;

	if (first >= total || count > total - first || first % count) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE, "no page begins at frame %u of %u",
				   first, total);
	}
	for (uint32_t f = first; f < first + count; f++) {
		const struct sgpu_frame_entry *entry = &processor->frames[f];

		if (entry->use != SGPU_FRAME_FREE && entry->owner != channel) {
			return sgpu_refuse(reply, SGPU_REFUSED_FOREIGN,
					   "frame %u belongs to another channel", f);
		}
		if (entry->marked || entry->use == SGPU_FRAME_DATA) {
			return sgpu_refuse(reply, SGPU_REFUSED_ALIAS,
					   "frame %u stands at another address", f);
		}
		if (entry->use != SGPU_FRAME_FREE) {
			return sgpu_refuse(reply, SGPU_REFUSED_NOT_FREE, "frame %u is in use", f);
		}
	}
	return SGPU_OK;
}

bool sgpu_range_is_mapped(const struct sgpu_processor *processor,
			  const struct sgpu_channel *channel, uint64_t at, uint64_t size)
{
	const uint64_t small = processor->layout.page_size[SGPU_SMALL];
	uint64_t end;

	if (__builtin_add_overflow(at, size, &end) || end > processor->layout.space) {
		return false;
	}
	end = (end + small - 1) / small;
	return sgpu_space_seek(channel->space, at / small, end, false) == end;
}

/* ---- CH_PDE ---- */
static int remove_table(struct sgpu_processor *processor, struct sgpu_table *table,
			struct sgpu_reply *reply)
{
	if (!table->exists) {
		return sgpu_refuse(reply, SGPU_REFUSED_NO_TABLE, "there is no such table");
	}
	if (table->used) {
		return sgpu_refuse(reply, SGPU_REFUSED_LOCKED,
				   "the table in frame %u has %u entries", table->frame,
				   table->used);
	}
	sgpu_page_free(processor, table->frame, SGPU_SMALL);
	table->exists = false;
	return SGPU_OK;
}

int sgpu_do_pde(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply)
{
	struct sgpu_channel *channel = sgpu_channel_named(processor, command, reply);
	const uint32_t index = command->pde.index, frame = command->pde.table;
	struct sgpu_table *table;

	if (!channel) {
		return reply->code;
	}
	if (index >= processor->layout.directory_entries) {
		return sgpu_refuse(reply, SGPU_REFUSED_RANGE,
				   "index %u of a directory with %u entries", index,
				   processor->layout.directory_entries);
	}
	table = &channel->tables[index][command->pde.big ? SGPU_BIG : SGPU_SMALL];
	if (frame == SGPU_NO_FRAME) {
		return remove_table(processor, table, reply);
	}
	if (sgpu_page_check(processor, channel->id, frame, SGPU_SMALL, reply) != SGPU_OK) {
		return reply->code;
	}
	if (table->exists) {
		return sgpu_refuse(reply, SGPU_REFUSED_ALIAS,
				   "a table is at index %u of channel %u", index, channel->id);
	}
	*table = (struct sgpu_table){ .exists = true, .frame = frame };
	sgpu_page_enter(processor, frame, SGPU_SMALL,
			(struct sgpu_frame_entry){ .owner = channel->id, .use = SGPU_FRAME_TABLE });
	return SGPU_OK;
}

/* ---- CH_PTE: the command, and the objects that it changes ---- */
struct job {
	struct sgpu_processor *processor;
	struct sgpu_channel *channel;
	struct sgpu_table *table;
	uint32_t directory, index, count;
	int kind;
	uint64_t va, size;
	struct sgpu_reply *reply;
	bool unmaps;
};

static int check_new(const struct job *job)
{
	struct sgpu_processor *processor = job->processor;
	const uint64_t small = processor->layout.page_size[SGPU_SMALL],
		       end = (job->va + job->size) / small,
		       taken = sgpu_space_seek(job->channel->space, job->va / small, end, true);
	uint32_t checked = 0;
	int rc = SGPU_OK;

	if (taken < end) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_ALIAS, "a page is mapped at 0x%llx",
				   (unsigned long long)(taken * small));
	}
	while (rc == SGPU_OK && checked < job->count) {
		const uint32_t page = processor->pages[checked];

		rc = sgpu_page_check(processor, job->channel->id, page, job->kind, job->reply);
		if (rc == SGPU_OK) {
			processor->frames[page].marked = 1;
			checked++;
		}
	}
	while (checked > 0) {
		processor->frames[processor->pages[--checked]].marked = 0;
	}
	return rc;
}

/* Lists the pages to unmap. */
static int check_old(const struct job *job, bool authorised)
{
	const struct sgpu_layout *layout = &job->processor->layout;
	const uint32_t *entry =
		&job->channel->space->entries[job->va / layout->page_size[SGPU_SMALL]];

	for (uint32_t i = 0; i < job->count; i++, entry += layout->frames_of[job->kind]) {
		if (*entry == 0 ||
		    job->processor->frames[*entry - 1].big != (job->kind == SGPU_BIG)) {
			return sgpu_refuse(job->reply, SGPU_REFUSED_NOT_MAPPED,
					   "entry %u holds no page", job->index + i);
		}
		job->processor->pages[i] = *entry - 1;
	}
	return authorised ? SGPU_OK
			  : sgpu_refuse(job->reply, SGPU_REFUSED_LOCKED,
					"no MAC authorises the unmapping of 0x%llx",
					(unsigned long long)job->va);
}

static int check_place(struct job *job)
{
	const struct sgpu_layout *layout = &job->processor->layout;

	if (!job->count || job->count > SGPU_CHANNEL_PAGES_MAX) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_MALFORMED, "a command of %u pages",
				   job->count);
	}
	if (job->directory >= layout->directory_entries ||
	    job->index >= layout->entries_of[job->kind] ||
	    job->count > layout->entries_of[job->kind] - job->index) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_RANGE,
				   "%u pages from entry %u of the table at index %u", job->count,
				   job->index, job->directory);
	}
	job->va = job->directory * layout->window + job->index * layout->page_size[job->kind];
	job->size = job->count * layout->page_size[job->kind];
	if (job->va + job->size > layout->space) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_RANGE,
				   "0x%llx lies outside of the context",
				   (unsigned long long)(job->va + job->size));
	}
	job->table = &job->channel->tables[job->directory][job->kind];
	return job->table->exists ? SGPU_OK
				  : sgpu_refuse(job->reply, SGPU_REFUSED_NO_TABLE,
						"no table at index %u of channel %u",
						job->directory, job->channel->id);
}

/* If the device fails, no mapping has changed; but pages to unmap may have been cleared. */
static int change_mapping(const struct job *job)
{
	struct sgpu_channel *channel = job->channel;
	struct sgpu_error *error = &job->reply->error;
	int rc;

	if (!job->unmaps) {
		return sgpu_page_map(channel->space, job->va, job->processor->pages, job->count,
				     job->processor->layout.page_size[job->kind], error);
	}
	rc = sgpu_pages_clear(job->processor, channel, job->va, job->size, error);
	return rc ? rc : sgpu_page_unmap(channel->space, job->va, job->size, error);
}

static void enter(const struct job *job)
{
	const struct sgpu_frame_entry mapped = { .owner = job->channel->id,
						 .use = SGPU_FRAME_DATA,
						 .big = job->kind == SGPU_BIG },
				      freed = { .use = SGPU_FRAME_FREE };

	for (uint32_t i = 0; i < job->count; i++) {
		sgpu_page_enter(job->processor, job->processor->pages[i], job->kind,
				job->unmaps ? freed : mapped);
	}
	job->table->used += job->unmaps ? 0 - job->count : job->count;
}

static void summarise(const struct job *job)
{
	struct sgpu_report *summary = &job->reply->report;
	uint32_t *pages = job->processor->pages;
	const uint32_t count = job->unmaps ? 0 : job->count;

	for (uint32_t i = 0; i < count; i++) {
		pages[i] = htole32(pages[i]);
	}
	*summary = (struct sgpu_report){
		.channel = job->channel->id,
		.serial = job->channel->grant.serial,
		.counter = ++job->channel->reports,
		.va = job->va,
		.size = job->size,
		.pages = count,
	};
	sgpu_kt128(pages, count * sizeof(*pages), NULL, 0, summary->digest,
		   sizeof(summary->digest));
	sgpu_mac_report(job->channel->keys, SGPU_CH_PTE, summary, summary->mac);
}

int sgpu_do_pte(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply)
{
	struct job job = {
		.processor = processor,
		.channel = sgpu_channel_named(processor, command, reply),
		.directory = command->pte.directory_index,
		.index = command->pte.table_index,
		.count = command->pte.count,
		.kind = command->pte.big ? SGPU_BIG : SGPU_SMALL,
		.reply = reply,
		.unmaps = !command->pte.pages,
	};
	const bool authorised = command->pte.has_mac;
	int rc;

	if (!job.channel || check_place(&job) != SGPU_OK) {
		return reply->code;
	}
	if (authorised &&
	    sgpu_check_authorisation(job.channel, command->pte.mac_counter, command->pte.mac,
				     (const uint64_t[]){ job.va, job.size }, reply) != SGPU_OK) {
		return reply->code;
	}
	if (!job.unmaps) {
		/* Copied, since the sender may change its list meanwhile. */
		memcpy(processor->pages, command->pte.pages, job.count * sizeof(*processor->pages));
	}
	if ((job.unmaps ? check_old(&job, authorised) : check_new(&job)) != SGPU_OK) {
		return reply->code;
	}
	rc = change_mapping(&job);
	if (rc != SGPU_OK) {
		return sgpu_refuse_device(reply, rc, "cannot change mappings");
	}
	enter(&job);
	job.channel->authorisations += authorised;
	summarise(&job);
	return SGPU_OK;
}
