/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator, which is not trusted, decides which pages are mapped at which addresses, and sends
 * commands for that. An error here costs memory or service, but no secret. Channels share no
 * tables. The allocator reaches the processor only through `send`.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/channel.h"

#include "channel/allocator.h"

enum { SMALL, BIG, KINDS, BOOTSTRAP = 0 };

struct table {
	uint32_t frame;
	uint32_t entries[]; /* first frames of the table's pages */
};

/* `tables` is NULL if the channel does not exist. */
struct channel {
	struct table *(*tables)[KINDS];
	struct sgpu_extents addresses;
	uint32_t directory;
};

struct sgpu_allocator {
	sgpu_command_fn send;
	void *processor;
	uint64_t page_size[KINDS], window, space_size;
	uint32_t frames_of[KINDS], entries_of[KINDS], directory_entries;
	struct sgpu_frame_pool frames;
	struct channel channels[SGPU_CHANNEL_MAX];
	struct sgpu_command command;
	struct sgpu_reply reply;
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
};

static int send_command(struct sgpu_allocator *allocator, struct sgpu_error *error)
{
	allocator->command.via = BOOTSTRAP;
	memset(&allocator->reply.error, 0, sizeof(allocator->reply.error));
	int rc = allocator->send(allocator->processor, &allocator->command, &allocator->reply);

	if (rc != SGPU_OK && error) {
		*error = allocator->reply.error;
		if (!error->text[0]) {
			(void)sgpu_fail(error, rc, "a command was refused");
		}
	}
	return rc;
}

static int no_channel(uint32_t channel, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EUSAGE, "the allocator has made no channel %u", channel);
}

static struct channel *find(struct sgpu_allocator *allocator, uint32_t channel)
{
	return channel < SGPU_CHANNEL_MAX && allocator->channels[channel].tables
		       ? &allocator->channels[channel]
		       : NULL;
}

static int no_pages(struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM, "no protected pages are left");
}

/* ---- making and ending ---- */
static void set_sizes(struct sgpu_allocator *allocator, const struct sgpu_pages_info *info,
		      const struct sgpu_processor_config *config)
{
	allocator->page_size[SMALL] = info->small;
	allocator->page_size[BIG] = info->big;
	allocator->window = SGPU_CHANNEL_ENTRIES * info->small;
	for (int kind = 0; kind < KINDS; kind++) {
		allocator->frames_of[kind] = (uint32_t)(allocator->page_size[kind] / info->small);
		allocator->entries_of[kind] = SGPU_CHANNEL_ENTRIES / allocator->frames_of[kind];
	}
	allocator->space_size = config->space_size ? config->space_size
						   : 2 * (uint64_t)config->frames * info->small;
	if (allocator->space_size > SGPU_CHANNEL_ENTRIES * allocator->window) {
		allocator->space_size = SGPU_CHANNEL_ENTRIES * allocator->window;
	}
	allocator->space_size -= allocator->space_size % info->small;
	allocator->directory_entries =
		(uint32_t)((allocator->space_size + allocator->window - 1) / allocator->window);
}

int sgpu_allocator_create(const struct sgpu_pages_info *info,
			  const struct sgpu_processor_config *config, sgpu_command_fn send,
			  void *processor, struct sgpu_allocator **allocator,
			  struct sgpu_error *error)
{
	struct sgpu_allocator *made;
	int rc;

	*allocator = NULL;
	if (!config->unprotected ||
	    config->frames <= (uint64_t)config->unprotected + config->hidden) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "an allocator needs an unprotected frame, and protected ones");
	}
	made = calloc(1, sizeof(*made));
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->send = send;
	made->processor = processor;
	set_sizes(made, info, config);
	rc = sgpu_frame_pool_init(&made->frames, config->unprotected,
				  config->frames - config->hidden, error);
	if (rc == SGPU_OK) {
		made->command = (struct sgpu_command){ .op = SGPU_CH_CREATE, .channel = BOOTSTRAP };
		rc = send_command(made, error);
	}
	if (rc != SGPU_OK) {
		sgpu_frame_pool_clear(&made->frames);
		free(made);
		return rc;
	}
	*allocator = made;
	return SGPU_OK;
}

static void free_channel(struct sgpu_allocator *allocator, struct channel *channel)
{
	for (uint32_t d = 0; channel->tables && d < allocator->directory_entries; d++) {
		for (int kind = 0; kind < KINDS; kind++) {
			struct table *table = channel->tables[d][kind];

			for (uint32_t i = 0; table && i < allocator->entries_of[kind]; i++) {
				if (table->entries[i] != SGPU_NO_FRAME) {
					sgpu_frame_give(&allocator->frames, table->entries[i],
							allocator->frames_of[kind]);
				}
			}
			if (table) {
				sgpu_frame_give(&allocator->frames, table->frame, 1);
			}
			free(table);
		}
	}
	free(channel->tables);
	sgpu_extents_clear(&channel->addresses);
	sgpu_frame_give(&allocator->frames, channel->directory, 1);
	memset(channel, 0, sizeof(*channel));
}

void sgpu_allocator_free(struct sgpu_allocator **allocator)
{
	struct sgpu_allocator *a = allocator ? *allocator : NULL;

	if (!a) {
		return;
	}
	for (uint32_t i = 1; i < SGPU_CHANNEL_MAX; i++) {
		/* If the processor refuses, it unmaps the pages when it is freed itself. */
		if (a->channels[i].tables &&
		    sgpu_allocator_destroy(a, i, 0, NULL, NULL) != SGPU_OK) {
			free_channel(a, &a->channels[i]);
		}
	}
	a->command = (struct sgpu_command){ .op = SGPU_CH_DESTROY, .channel = BOOTSTRAP };
	(void)send_command(a, NULL);
	sgpu_frame_pool_clear(&a->frames);
	free(a);
	*allocator = NULL;
}

/* ---- channels ---- */
int sgpu_allocator_channel(struct sgpu_allocator *allocator, const uint8_t owner_key[32],
			   struct sgpu_grant *grant, struct sgpu_error *error)
{
	struct channel *made;
	uint32_t number = 1, directory;
	int rc;

	while (number < SGPU_CHANNEL_MAX && allocator->channels[number].tables) {
		number++;
	}
	if (number == SGPU_CHANNEL_MAX) {
		return sgpu_fail(error, SGPU_ENOMEM, "all %d channels are in use",
				 SGPU_CHANNEL_MAX);
	}
	if (!sgpu_frame_take(&allocator->frames, 1, &directory)) {
		return no_pages(error);
	}
	made = &allocator->channels[number];
	made->directory = directory;
	made->tables = calloc(allocator->directory_entries, sizeof(*made->tables));
	rc = made->tables ? sgpu_extents_init(&made->addresses, allocator->space_size, error)
			  : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		allocator->command = (struct sgpu_command){
			.op = SGPU_CH_CREATE,
			.channel = number,
			.create = { .directory = directory, .has_key = true },
		};
		memcpy(allocator->command.create.owner_key, owner_key, 32);
		rc = send_command(allocator, error);
	}
	if (rc != SGPU_OK) {
		free_channel(allocator, made);
		return rc;
	}
	*grant = allocator->reply.grant;
	return SGPU_OK;
}

int sgpu_allocator_destroy(struct sgpu_allocator *allocator, uint32_t channel, uint64_t counter,
			   const uint8_t *mac, struct sgpu_error *error)
{
	struct channel *made = find(allocator, channel);
	int rc;

	if (!made) {
		return no_channel(channel, error);
	}
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_DESTROY,
		.channel = channel,
		.destroy = { .has_mac = mac, .mac_counter = counter },
	};
	if (mac) {
		memcpy(allocator->command.destroy.mac, mac, SGPU_CHANNEL_MAC_SIZE);
	}
	rc = send_command(allocator, error);
	if (rc == SGPU_OK) {
		free_channel(allocator, made);
	}
	return rc;
}

int sgpu_allocator_measure(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			   uint64_t size, bool keyed, struct sgpu_measurement *measurement,
			   struct sgpu_error *error)
{
	int rc;

	if (!find(allocator, channel)) {
		return no_channel(channel, error);
	}
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_MEASURE,
		.channel = channel,
		.measure = { .va = va, .size = size, .keyed = keyed },
	};
	rc = send_command(allocator, error);
	if (rc == SGPU_OK) {
		*measurement = allocator->reply.measurement;
	}
	return rc;
}

/* ---- mapping ---- */
/* Makes a table for entry `directory` of the channel's directory, unless it has one. */
static int need_table(struct sgpu_allocator *allocator, uint32_t channel, uint32_t directory,
		      int kind, struct sgpu_error *error)
{
	const size_t size = allocator->entries_of[kind] * sizeof(uint32_t);
	struct table **at = &allocator->channels[channel].tables[directory][kind];
	struct table *table;
	int rc;

	if (*at) {
		return SGPU_OK;
	}
	table = malloc(sizeof(*table) + size);
	if (!table) {
		return sgpu_fail_nomem(error);
	}
	memset(table->entries, 0xff, size);
	if (!sgpu_frame_take(&allocator->frames, 1, &table->frame)) {
		free(table);
		return no_pages(error);
	}
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PDE,
		.channel = channel,
		.pde = { .index = directory, .table = table->frame, .big = kind == BIG },
	};
	rc = send_command(allocator, error);
	if (rc != SGPU_OK) {
		sgpu_frame_give(&allocator->frames, table->frame, 1);
		free(table);
		return rc;
	}
	*at = table;
	return SGPU_OK;
}

/* The pages of `kind` from `va` to `end` that one command can map or unmap. */
struct page_run {
	uint32_t directory, index, count;
};

static struct page_run page_run_at(const struct sgpu_allocator *allocator, uint64_t va,
				   uint64_t end, int kind)
{
	const uint64_t pages = (end - va) / allocator->page_size[kind];
	struct page_run run = {
		.directory = (uint32_t)(va / allocator->window),
		.index = (uint32_t)(va % allocator->window / allocator->page_size[kind]),
	};

	run.count = allocator->entries_of[kind] - run.index;
	run.count = pages < run.count ? (uint32_t)pages : run.count;
	return run;
}

static int send_pages(struct sgpu_allocator *allocator, uint32_t channel,
		      const struct page_run *run, int kind, struct sgpu_error *error)
{
	allocator->command.op = SGPU_CH_PTE;
	allocator->command.channel = channel;
	allocator->command.pte.directory_index = run->directory;
	allocator->command.pte.table_index = run->index;
	allocator->command.pte.big = kind == BIG;
	allocator->command.pte.count = run->count;
	allocator->command.pte.pages = allocator->pages;
	return send_command(allocator, error);
}

static void give_back(struct sgpu_allocator *allocator, uint32_t count, int kind)
{
	for (uint32_t i = 0; i < count; i++) {
		sgpu_frame_give(&allocator->frames, allocator->pages[i],
				allocator->frames_of[kind]);
	}
}

/* Maps as many pages of `kind` as one command can and as are free. *done: the bytes mapped; 0 if no
 * page fits or is free. */
static int map_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			uint64_t end, int kind, uint64_t *done, struct sgpu_error *error)
{
	struct channel *made = &allocator->channels[channel];
	struct page_run run = page_run_at(allocator, va, end, kind);
	uint32_t count = 0;
	int rc;

	*done = 0;
	if (!run.count) {
		return SGPU_OK;
	}
	rc = need_table(allocator, channel, run.directory, kind, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	while (count < run.count && sgpu_frame_take(&allocator->frames, allocator->frames_of[kind],
						    &allocator->pages[count])) {
		count++;
	}
	run.count = count;
	if (!count) {
		return SGPU_OK;
	}
	/* Small pages were taken in descending order. They are reversed, since a device maps frames
	 * that ascend without gaps in one call. */
	for (uint32_t i = 0; kind == SMALL && i < count / 2; i++) {
		const uint32_t page = allocator->pages[i];

		allocator->pages[i] = allocator->pages[count - 1 - i];
		allocator->pages[count - 1 - i] = page;
	}
	memset(&allocator->command.pte, 0, sizeof(allocator->command.pte));
	rc = send_pages(allocator, channel, &run, kind, error);
	if (rc != SGPU_OK) {
		give_back(allocator, count, kind);
		return rc;
	}
	memcpy(&made->tables[run.directory][kind]->entries[run.index], allocator->pages,
	       count * sizeof(*allocator->pages));
	*done = count * allocator->page_size[kind];
	return SGPU_OK;
}

int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel, uint64_t size,
		       uint64_t *va, uint64_t *mapped, sgpu_report_fn report, void *argument,
		       struct sgpu_error *error)
{
	const uint64_t small = allocator->page_size[SMALL], big = allocator->page_size[BIG];
	struct channel *made = find(allocator, channel);
	uint64_t whole, at, done = 0;
	int kind = BIG, rc;

	if (!made) {
		return no_channel(channel, error);
	}
	if (!size || size > allocator->space_size) {
		return sgpu_fail(error, SGPU_ENOMEM, "%llu bytes do not fit into the channel",
				 (unsigned long long)size);
	}
	whole = (size + small - 1) / small * small;
	if (whole / small > allocator->frames.free) {
		return no_pages(error);
	}
	rc = sgpu_extents_take(&made->addresses, whole, whole >= big ? big : small, va, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	*mapped = whole;
	for (at = *va; rc == SGPU_OK && at < *va + whole; at += done) {
		if (kind == BIG && *va + whole - at >= big) {
			rc = map_page_run(allocator, channel, at, *va + whole, BIG, &done, error);
		} else {
			done = 0;
		}
		if (rc == SGPU_OK && !done) {
			/* No big page fits any more, or none is free. */
			kind = SMALL;
			rc = map_page_run(allocator, channel, at, *va + whole, SMALL, &done, error);
		}
		if (rc == SGPU_OK) {
			rc = !done    ? no_pages(error)
			     : report ? report(argument, &allocator->reply.summary, error)
				      : SGPU_OK;
		}
	}
	/* Mapped pages stay mapped until the channel is destroyed, since only the owner can
	 * authorise their unmapping. The other addresses are given back. */
	if (rc != SGPU_OK && at < *va + whole) {
		sgpu_extents_give(&made->addresses, at, *va + whole - at);
	}
	return rc;
}

/* Returns the kind of the page that begins at `va`, or KINDS. */
static int kind_at(const struct sgpu_allocator *allocator, const struct channel *made, uint64_t va)
{
	for (int kind = 0; va < allocator->space_size && kind < KINDS; kind++) {
		const struct table *table = made->tables[va / allocator->window][kind];

		if (table && va % allocator->page_size[kind] == 0 &&
		    table->entries[va % allocator->window / allocator->page_size[kind]] !=
			    SGPU_NO_FRAME) {
			return kind;
		}
	}
	return KINDS;
}

/* Unmaps adjacent pages of `kind` in one table. *done: the bytes unmapped. */
static int unmap_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			  uint64_t end, int kind, sgpu_authorise_fn authorise, void *argument,
			  uint64_t *done, struct sgpu_error *error)
{
	struct channel *made = &allocator->channels[channel];
	struct page_run run = page_run_at(allocator, va, end, kind);
	uint32_t *entries = &made->tables[run.directory][kind]->entries[run.index];
	uint32_t count = 0;
	int rc;

	while (count < run.count && entries[count] != SGPU_NO_FRAME) {
		count++;
	}
	if (!count) {
		return sgpu_fail(error, SGPU_EUSAGE, "a page at 0x%llx would be cut",
				 (unsigned long long)va);
	}
	run.count = count;
	*done = count * allocator->page_size[kind];
	memset(&allocator->command.pte, 0, sizeof(allocator->command.pte));
	allocator->command.pte.has_mac = true;
	authorise(argument, va, *done, &allocator->command.pte.mac_counter,
		  allocator->command.pte.mac);
	memset(allocator->pages, 0xff, count * sizeof(*allocator->pages));
	rc = send_pages(allocator, channel, &run, kind, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	memcpy(allocator->pages, entries, count * sizeof(*entries));
	memset(entries, 0xff, count * sizeof(*entries));
	give_back(allocator, count, kind);
	return SGPU_OK;
}

int sgpu_allocator_unmap(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			 uint64_t mapped, sgpu_authorise_fn authorise, sgpu_report_fn report,
			 void *argument, struct sgpu_error *error)
{
	struct channel *made = find(allocator, channel);
	uint64_t done = 0, end;
	int rc = SGPU_OK;

	if (!made) {
		return no_channel(channel, error);
	}
	if (__builtin_add_overflow(va, mapped, &end) || va % allocator->page_size[SMALL]) {
		return sgpu_fail(error, SGPU_EUSAGE, "%llu bytes at 0x%llx",
				 (unsigned long long)mapped, (unsigned long long)va);
	}
	for (uint64_t at = va; rc == SGPU_OK && at < end; at += done) {
		const int kind = kind_at(allocator, made, at);

		rc = kind == KINDS ? sgpu_fail(error, SGPU_EUSAGE, "nothing is mapped at 0x%llx",
					       (unsigned long long)at)
				   : unmap_page_run(allocator, channel, at, end, kind, authorise,
						    argument, &done, error);
		if (rc == SGPU_OK) {
			sgpu_extents_give(&made->addresses, at, done);
			rc = report(argument, &allocator->reply.summary, error);
		}
	}
	return rc;
}
