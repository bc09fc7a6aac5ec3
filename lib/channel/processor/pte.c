/* SPDX-License-Identifier: Apache-2.0
 *
 * CH_PTE maps pages at empty entries of a page table, or unmaps pages. All checks come first,
 * against the table of pages and the channel's page tables; then the device maps or unmaps; then
 * the change is entered in the tables.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "crypto/crypto.h"
#include "channel/processor/processor.h"

/* A command, and the objects that it changes. */
struct job {
	struct sgpu_processor *processor;
	struct sgpu_channel *channel;
	struct sgpu_table *table;
	uint32_t directory, index, count;
	int kind;
	uint64_t va, size;
	struct sgpu_reply *reply;
	uint32_t protected_pages, kept; /* kept: pages mapped at their addresses already */
	bool unmaps, authorised;
};

/* Whether a page of the other size is mapped at an address of entry `index`. */
static bool overlaps(const struct job *job, uint32_t index)
{
	const uint32_t ratio = job->processor->layout.frames_of[SGPU_BIG];
	const int other = job->kind == SGPU_BIG ? SGPU_SMALL : SGPU_BIG;
	const struct sgpu_table *table = job->channel->context->tables[job->directory][other];

	if (!table || !job->processor->frames[table->frame].index) {
		return false;
	}
	if (other == SGPU_BIG) {
		return table->entries[index / ratio] != SGPU_NO_FRAME;
	}
	for (uint32_t i = index * ratio; i < (index + 1) * ratio; i++) {
		if (table->entries[i] != SGPU_NO_FRAME) {
			return true;
		}
	}
	return false;
}

static int refuse_used(const struct job *job, uint32_t page)
{
	const struct sgpu_processor *processor = job->processor;
	const struct sgpu_frame_entry *entry = &processor->frames[page];

	for (uint32_t f = page; f < page + processor->layout.frames_of[job->kind]; f++) {
		if (processor->frames[f].mapped && processor->frames[f].owner != job->channel->id) {
			return sgpu_refuse(job->reply, SGPU_REFUSED_FOREIGN,
					   "frame %u belongs to another channel", f);
		}
	}
	if (entry->marked) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_ALIAS, "page %u is named twice", page);
	}
	return entry->mapped && entry->use == SGPU_FRAME_DATA
		       ? sgpu_refuse(job->reply, SGPU_REFUSED_ALIAS,
				     "page %u stands at another address", page)
		       : sgpu_refuse(job->reply, SGPU_REFUSED_NOT_FREE, "page %u is in use", page);
}

static int check_new(struct job *job, uint32_t i)
{
	struct sgpu_processor *processor = job->processor;
	const uint32_t page = processor->pages[i];
	const uint32_t count = processor->layout.frames_of[job->kind],
		       total = processor->config.frames;
	enum sgpu_frame_region region;

	if (page >= total || count > total - page || page % count) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_RANGE, "no page begins at frame %u",
				   page);
	}
	region = sgpu_processor_region(processor, page);
	if (region == SGPU_REGION_HIDDEN ||
	    sgpu_processor_region(processor, page + count - 1) != region) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_REGION,
				   "page %u lies in the wrong region", page);
	}
	job->protected_pages += region == SGPU_REGION_PROTECTED;
	if (page == job->table->entries[job->index + i]) {
		job->kept++;
		return SGPU_OK;
	}
	if (processor->frames[page].marked || !sgpu_page_is_free(processor, page, job->kind)) {
		return refuse_used(job, page);
	}
	if (job->table->entries[job->index + i] != SGPU_NO_FRAME || overlaps(job, job->index + i)) {
		return sgpu_refuse(
			job->reply, SGPU_REFUSED_ALIAS, "another page than %u is mapped at 0x%llx",
			page,
			(unsigned long long)(job->va + i * processor->layout.page_size[job->kind]));
	}
	processor->frames[page].marked = 1;
	return SGPU_OK;
}

static int check_old(const struct job *job, uint32_t i)
{
	const uint64_t va = job->va + i * job->processor->layout.page_size[job->kind];
	const uint32_t page = job->table->entries[job->index + i];

	if (job->processor->pages[i] != SGPU_NO_FRAME) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_MALFORMED,
				   "a command that maps some pages and unmaps others");
	}
	if (page == SGPU_NO_FRAME) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_NOT_MAPPED,
				   "no page is mapped at 0x%llx", (unsigned long long)va);
	}
	return !job->processor->frames[page].locked || job->authorised
		       ? SGPU_OK
		       : sgpu_refuse(job->reply, SGPU_REFUSED_LOCKED, "page %u at 0x%llx is locked",
				     page, (unsigned long long)va);
}

static int check_entries(struct job *job)
{
	struct sgpu_processor *processor = job->processor;
	uint32_t checked = 0;
	int rc = SGPU_OK;

	for (; rc == SGPU_OK && checked < job->count; checked++) {
		rc = job->unmaps ? check_old(job, checked) : check_new(job, checked);
	}
	if (rc == SGPU_OK && job->kept && job->kept != job->count) {
		rc = sgpu_refuse(job->reply, SGPU_REFUSED_ALIAS,
				 "%u of the pages are mapped already", job->kept);
	}
	for (uint32_t i = 0; i < checked; i++) {
		if (processor->pages[i] < processor->config.frames) {
			processor->frames[processor->pages[i]].marked = 0;
		}
	}
	return rc;
}

static int check_mac(struct job *job, const struct sgpu_command *command)
{
	const uint64_t unmapped[] = { job->va, job->size };

	job->authorised =
		command->pte.has_mac &&
		sgpu_check_authorisation(job->channel, command->pte.mac_counter, command->pte.mac,
					 unmapped, job->reply) == SGPU_OK;
	return job->reply->code;
}

static int check_place(struct job *job, const struct sgpu_command *command)
{
	const struct sgpu_processor *processor = job->processor;

	if (job->count < 1 || job->count > SGPU_CHANNEL_PAGES_MAX) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_MALFORMED, "%u pages in one command",
				   job->count);
	}
	if (job->directory >= processor->layout.directory_entries ||
	    job->index >= processor->layout.entries_of[job->kind] ||
	    job->count > processor->layout.entries_of[job->kind] - job->index) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_RANGE,
				   "%u pages at entry %u of the table at index %u", job->count,
				   command->pte.table_index, command->pte.directory_index);
	}
	job->va = sgpu_page_va(processor, job->directory, job->index, job->kind);
	job->size = job->count * processor->layout.page_size[job->kind];
	if (job->va > processor->layout.space || job->size > processor->layout.space - job->va) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_RANGE,
				   "0x%llx lies beyond the space of a context",
				   (unsigned long long)(job->va + job->size));
	}
	job->table = job->channel->context->tables[job->directory][job->kind];
	if (!job->table) {
		return sgpu_refuse(job->reply, SGPU_REFUSED_NO_TABLE,
				   "no table at index %u of channel %u", job->directory,
				   job->channel->id);
	}
	return SGPU_OK;
}

/* ---- the device's part ----
 * If it fails, no mapping has changed; but pages to be unmapped may have been cleared, and pages to
 * be mapped are left stale or, if they could not be unmapped again, retired, that is, never used
 * again. */
static bool needs_clear(const struct job *job, uint32_t i)
{
	return sgpu_page_needs_clear(job->processor, job->processor->pages[i], job->kind);
}

static int clear_new(const struct job *job)
{
	const uint64_t page = job->processor->layout.page_size[job->kind];
	int rc = SGPU_OK;

	for (uint32_t first = 0, last; rc == SGPU_OK && first < job->count; first = last + 1) {
		last = first;
		while (last < job->count && needs_clear(job, last)) {
			last++;
		}
		if (last > first) {
			rc = sgpu_pages_clear(job->processor, job->channel->context,
					      job->va + first * page, (last - first) * page,
					      &job->reply->error);
		}
	}
	return rc;
}

static void undo_map(const struct job *job)
{
	struct sgpu_processor *processor = job->processor;
	struct sgpu_context *context = job->channel->context;
	/* Kernels may have written to the pages already. */
	bool clean = sgpu_activate_now(processor, context, NULL) == SGPU_OK &&
		     sgpu_pages_clear(processor, context, job->va, job->size, NULL) == SGPU_OK;

	if (sgpu_page_unmap(context->space, job->va, job->size, NULL) != SGPU_OK) {
		context->faulted = true;
		for (uint32_t i = 0; i < job->count; i++) {
			sgpu_page_retire(processor, processor->pages[i], job->kind);
		}
		return;
	}
	for (uint32_t i = 0; !clean && i < job->count; i++) {
		for (uint32_t k = 0; k < processor->layout.frames_of[job->kind]; k++) {
			processor->frames[processor->pages[i] + k].stale = 1;
		}
	}
}

static int map_pages(const struct job *job)
{
	struct sgpu_processor *processor = job->processor;
	struct sgpu_context *context = job->channel->context;
	struct sgpu_error *error = &job->reply->error;
	uint32_t i = 0;
	int rc = SGPU_OK;

	while (i < job->count && !needs_clear(job, i)) {
		i++;
	}
	if (i < job->count) { /* kernels that run now must not see the page */
		rc = sgpu_activate_now(processor, NULL, error);
		rc = rc ? rc : sgpu_activate_now(processor, context, error);
	}
	rc = rc ? rc
		: sgpu_page_map(context->space, job->va, processor->pages, job->count,
				processor->layout.page_size[job->kind], error);
	if (rc != SGPU_OK) {
		return rc;
	}
	rc = clear_new(job);
	if (rc != SGPU_OK) {
		undo_map(job);
	}
	return rc;
}

static int unmap_pages(const struct job *job)
{
	struct sgpu_context *context = job->channel->context;
	struct sgpu_error *error = &job->reply->error;
	int rc = sgpu_activate_now(job->processor, context, error);

	rc = rc ? rc : sgpu_pages_clear(job->processor, context, job->va, job->size, error);
	return rc ? rc : sgpu_page_unmap(context->space, job->va, job->size, error);
}

/* ---- updating the tables ---- */
static void put_in(const struct job *job, uint32_t i, uint32_t page)
{
	sgpu_page_take(job->processor, page, job->kind,
		       (struct sgpu_frame_entry){
			       .owner = job->channel->id,
			       .use = SGPU_FRAME_DATA,
			       .locked = job->channel->context->keys != NULL,
			       .directory = job->directory,
			       .index = job->index + i,
		       });
}

static void enter(const struct job *job)
{
	struct sgpu_frame_entry *table = &job->processor->frames[job->table->frame];

	for (uint32_t i = 0; i < job->count; i++) {
		uint32_t *entry = &job->table->entries[job->index + i];

		if (job->unmaps) {
			sgpu_page_give(job->processor, *entry, job->kind);
		} else {
			put_in(job, i, job->processor->pages[i]);
		}
		*entry = job->processor->pages[i];
	}
	table->index = (table->index + (job->unmaps ? 0 - job->count : job->count)) & 0x1fff;
}

static void summarise(struct job *job)
{
	struct sgpu_summary *summary = &job->reply->summary;
	uint32_t *pages = job->processor->pages;
	uint32_t count = 0;

	if (!job->channel->context->keys) {
		memset(summary, 0, sizeof(*summary));
		return;
	}
	for (uint32_t i = 0; i < job->count; i++) {
		if (pages[i] != SGPU_NO_FRAME &&
		    sgpu_processor_region(job->processor, pages[i]) == SGPU_REGION_PROTECTED) {
			pages[count++] = htole32(pages[i]);
		}
	}
	*summary = (struct sgpu_summary){
		.channel = job->channel->id,
		.serial = job->channel->serial,
		.counter = ++job->channel->reports,
		.va = job->va,
		.size = job->size,
		.protected_pages = job->protected_pages,
		.pages = job->unmaps ? 0 : job->count,
	};
	sgpu_kt128(pages, count * sizeof(*pages), NULL, 0, summary->hash, sizeof(summary->hash));
	sgpu_mac_summary(job->channel->context->keys, summary, summary->mac);
}

int sgpu_do_pte(struct sgpu_processor *processor, const struct sgpu_command *command,
		struct sgpu_reply *reply)
{
	struct job job = {
		.processor = processor,
		.channel = sgpu_configurable(processor, command, reply),
		.directory = command->pte.directory_index,
		.index = command->pte.table_index,
		.count = command->pte.count,
		.kind = command->pte.big ? SGPU_BIG : SGPU_SMALL,
		.reply = reply,
	};
	int rc;

	if (!job.channel || check_place(&job, command) != SGPU_OK ||
	    check_mac(&job, command) != SGPU_OK) {
		return reply->code;
	}
	/* Copied, since the sender may change its list meanwhile. */
	memcpy(processor->pages, command->pte.pages, job.count * sizeof(*processor->pages));
	job.unmaps = processor->pages[0] == SGPU_NO_FRAME;
	if (check_entries(&job) != SGPU_OK) {
		return reply->code;
	}
	if (!job.kept) {
		rc = job.unmaps ? unmap_pages(&job) : map_pages(&job);
		if (rc != SGPU_OK) {
			return sgpu_refuse_device(reply, rc, "cannot change mappings");
		}
		enter(&job);
	}
	job.channel->authorisations += job.authorised;
	summarise(&job);
	return SGPU_OK;
}
