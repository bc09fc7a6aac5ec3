/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator: the untrusted side that decides which pages stand where, and says so in commands.
 * Whatever goes wrong here costs memory or service and nothing else. All channels of a context
 * share all of its tables, so one CH_PTE is for all of them. It sees the processor through `send`
 * alone.
 */
#include <stdlib.h>
#include <string.h>

#include "channel/channel.h"

#include "channel/allocator.h"

enum { SMALL, BIG, KINDS, BOOTSTRAP = 0 };

struct table {
	uint32_t frame;
	uint32_t entries[]; /* what was mapped by it */
};

struct context {
	struct context *next;
	uint8_t owner_key[32];
	uint32_t channels;
	struct table *(*tables)[KINDS];
	struct sgpu_extents addresses;
};

struct sgpu_allocator {
	sgpu_command_fn send;
	void *processor;
	uint64_t page_size[KINDS], window, space_size;
	uint32_t frames_of[KINDS], entries_of[KINDS], directory_entries;
	struct sgpu_frame_pool frames;
	struct context *contexts;
	struct {
		struct context *context; /* NULL: there is no such channel */
		uint32_t directory;
	} channels[SGPU_CHANNEL_MAX];
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

static struct context *context_of(const struct sgpu_allocator *allocator, uint32_t channel)
{
	return channel < SGPU_CHANNEL_MAX ? allocator->channels[channel].context : NULL;
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

static void free_context(struct sgpu_allocator *allocator, struct context *context)
{
	struct context **link = &allocator->contexts;

	while (*link && *link != context) {
		link = &(*link)->next;
	}
	if (*link) {
		*link = context->next;
	}
	for (uint32_t d = 0; context->tables && d < allocator->directory_entries; d++) {
		for (int kind = 0; kind < KINDS; kind++) {
			struct table *table = context->tables[d][kind];

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
	free(context->tables);
	sgpu_extents_clear(&context->addresses);
	free(context);
}

void sgpu_allocator_free(struct sgpu_allocator **allocator)
{
	struct sgpu_allocator *a = allocator ? *allocator : NULL;

	if (!a) {
		return;
	}
	for (uint32_t i = 1; i < SGPU_CHANNEL_MAX; i++) {
		if (a->channels[i].context) {
			/* If the processor does not want to, it does so at its own end. */
			if (sgpu_allocator_destroy(a, i, 0, NULL, NULL) != SGPU_OK) {
				a->channels[i].context = NULL;
			}
		}
	}
	while (a->contexts) {
		free_context(a, a->contexts);
	}
	a->command = (struct sgpu_command){ .op = SGPU_CH_DESTROY, .channel = BOOTSTRAP };
	(void)send_command(a, NULL);
	sgpu_frame_pool_clear(&a->frames);
	free(a);
	*allocator = NULL;
}

/* ---- channels ---- */
static int put_table(struct sgpu_allocator *allocator, uint32_t channel, uint32_t directory,
		     int kind, uint32_t frame, struct sgpu_error *error)
{
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PDE,
		.channel = channel,
		.pde = { .index = directory, .table = frame, .big = kind == BIG },
	};
	return send_command(allocator, error);
}

static struct context *find_context(struct sgpu_allocator *allocator, const uint8_t owner_key[32])
{
	struct context *context = allocator->contexts;

	while (context && memcmp(context->owner_key, owner_key, sizeof(context->owner_key))) {
		context = context->next;
	}
	return context;
}

static int make_context(struct sgpu_allocator *allocator, const uint8_t owner_key[32],
			struct context **made, struct sgpu_error *error)
{
	struct context *context = calloc(1, sizeof(*context));
	int rc = SGPU_OK;

	if (!context ||
	    !(context->tables = calloc(allocator->directory_entries, sizeof(*context->tables)))) {
		rc = sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_extents_init(&context->addresses, allocator->space_size, error);
	}
	if (rc != SGPU_OK) {
		free(context ? context->tables : NULL);
		free(context);
		return rc;
	}
	memcpy(context->owner_key, owner_key, sizeof(context->owner_key));
	context->next = allocator->contexts;
	allocator->contexts = context;
	*made = context;
	return SGPU_OK;
}

static int share_tables(struct sgpu_allocator *allocator, const struct context *context,
			uint32_t channel, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (uint32_t d = 0; rc == SGPU_OK && d < allocator->directory_entries; d++) {
		for (int kind = 0; rc == SGPU_OK && kind < KINDS; kind++) {
			if (context->tables[d][kind]) {
				rc = put_table(allocator, channel, d, kind,
					       context->tables[d][kind]->frame, error);
			}
		}
	}
	return rc;
}

int sgpu_allocator_channel(struct sgpu_allocator *allocator, const uint8_t owner_key[32],
			   struct sgpu_grant *grant, struct sgpu_error *error)
{
	struct context *context = find_context(allocator, owner_key);
	uint32_t channel = 1, directory;
	int rc = SGPU_OK;

	while (channel < SGPU_CHANNEL_MAX && allocator->channels[channel].context) {
		channel++;
	}
	if (channel == SGPU_CHANNEL_MAX) {
		return sgpu_fail(error, SGPU_ENOMEM, "all %d channels are in use",
				 SGPU_CHANNEL_MAX);
	}
	if (!sgpu_frame_take(&allocator->frames, 1, &directory)) {
		return no_pages(error);
	}
	if (!context) {
		rc = make_context(allocator, owner_key, &context, error);
	}
	if (rc == SGPU_OK) {
		allocator->command = (struct sgpu_command){
			.op = SGPU_CH_CREATE,
			.channel = channel,
			.create = { .directory = directory, .has_key = true },
		};
		memcpy(allocator->command.create.owner_key, owner_key, sizeof(context->owner_key));
		rc = send_command(allocator, error);
	}
	if (rc != SGPU_OK) {
		sgpu_frame_give(&allocator->frames, directory, 1);
		if (context && !context->channels) {
			free_context(allocator, context);
		}
		return rc;
	}
	*grant = allocator->reply.grant;
	allocator->channels[channel].context = context;
	allocator->channels[channel].directory = directory;
	context->channels++;
	rc = share_tables(allocator, context, channel, error);
	if (rc != SGPU_OK && sgpu_allocator_destroy(allocator, channel, 0, NULL, NULL) != SGPU_OK) {
		return sgpu_hint(error, "channel %u stays as it is", channel);
	}
	return rc;
}

int sgpu_allocator_destroy(struct sgpu_allocator *allocator, uint32_t channel, uint64_t counter,
			   const uint8_t *mac, struct sgpu_error *error)
{
	struct context *context = context_of(allocator, channel);
	int rc;

	if (!context) {
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
	if (rc != SGPU_OK) {
		return rc;
	}
	sgpu_frame_give(&allocator->frames, allocator->channels[channel].directory, 1);
	allocator->channels[channel].context = NULL;
	if (--context->channels == 0) {
		free_context(allocator, context);
	}
	return SGPU_OK;
}

int sgpu_allocator_measure(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			   uint64_t size, bool keyed, struct sgpu_measurement *measurement,
			   struct sgpu_error *error)
{
	int rc;

	if (!context_of(allocator, channel)) {
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
/* A table at that index, in the directories of all channels of the context. */
static int need_table(struct sgpu_allocator *allocator, struct context *context, uint32_t directory,
		      int kind, struct sgpu_error *error)
{
	const size_t size = allocator->entries_of[kind] * sizeof(uint32_t);
	struct table *table = context->tables[directory][kind];
	int rc = SGPU_OK;

	if (table) {
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
	for (uint32_t i = 1; rc == SGPU_OK && i < SGPU_CHANNEL_MAX; i++) {
		if (allocator->channels[i].context == context) {
			rc = put_table(allocator, i, directory, kind, table->frame, error);
		}
	}
	if (rc != SGPU_OK) {
		/* Out of the directories that have it already; where it is not, that is refused. */
		for (uint32_t i = 1; i < SGPU_CHANNEL_MAX; i++) {
			if (allocator->channels[i].context == context) {
				(void)put_table(allocator, i, directory, kind, SGPU_NO_FRAME, NULL);
			}
		}
		sgpu_frame_give(&allocator->frames, table->frame, 1);
		free(table);
		return rc;
	}
	context->tables[directory][kind] = table;
	return SGPU_OK;
}

/* The part of [va, end) that one command can do in pages of `kind`. */
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

/* Maps as many pages as one command can, and as there are: *done, 0 when there are none of that
 * size. */
static int map_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			uint64_t end, int kind, uint64_t *done, struct sgpu_error *error)
{
	struct context *context = allocator->channels[channel].context;
	struct page_run run = page_run_at(allocator, va, end, kind);
	uint32_t count = 0;
	int rc;

	*done = 0;
	if (!run.count) {
		return SGPU_OK;
	}
	rc = need_table(allocator, context, run.directory, kind, error);
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
	/* Small ones come from the end, last first. In their order a device can map neighbours at
	 * once. */
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
	memcpy(&context->tables[run.directory][kind]->entries[run.index], allocator->pages,
	       count * sizeof(*allocator->pages));
	*done = count * allocator->page_size[kind];
	return SGPU_OK;
}

int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel, uint64_t size,
		       uint64_t *va, uint64_t *mapped, sgpu_report_fn report, void *argument,
		       struct sgpu_error *error)
{
	const uint64_t small = allocator->page_size[SMALL], big = allocator->page_size[BIG];
	struct context *context = context_of(allocator, channel);
	uint64_t whole, at, done = 0;
	int kind = BIG, rc;

	if (!context) {
		return no_channel(channel, error);
	}
	if (!size || size > allocator->space_size) {
		return sgpu_fail(error, SGPU_ENOMEM, "%llu bytes do not fit into the context",
				 (unsigned long long)size);
	}
	whole = (size + small - 1) / small * small;
	if (whole / small > allocator->frames.free) {
		return no_pages(error);
	}
	rc = sgpu_extents_take(&context->addresses, whole, whole >= big ? big : small, va, error);
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
			/* From here on no big ones fit any more, or there are none. */
			kind = SMALL;
			rc = map_page_run(allocator, channel, at, *va + whole, SMALL, &done, error);
		}
		if (rc == SGPU_OK) {
			rc = !done    ? no_pages(error)
			     : report ? report(argument, &allocator->reply.summary, error)
				      : SGPU_OK;
		}
	}
	/* What is mapped only its owner can unmap: it stays where it is, until the context goes. */
	if (rc != SGPU_OK && at < *va + whole) {
		sgpu_extents_give(&context->addresses, at, *va + whole - at);
	}
	return rc;
}

/* The size of the page that stands there, or KINDS. */
static int kind_at(const struct sgpu_allocator *allocator, const struct context *context,
		   uint64_t va)
{
	for (int kind = 0; va < allocator->space_size && kind < KINDS; kind++) {
		const struct table *table = context->tables[va / allocator->window][kind];

		if (table && va % allocator->page_size[kind] == 0 &&
		    table->entries[va % allocator->window / allocator->page_size[kind]] !=
			    SGPU_NO_FRAME) {
			return kind;
		}
	}
	return KINDS;
}

/* A run of pages of one size in one table. */
static int unmap_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			  uint64_t end, int kind, sgpu_authorise_fn authorise, void *argument,
			  uint64_t *done, struct sgpu_error *error)
{
	struct context *context = allocator->channels[channel].context;
	struct page_run run = page_run_at(allocator, va, end, kind);
	uint32_t *entries = &context->tables[run.directory][kind]->entries[run.index];
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
	if (authorise) {
		allocator->command.pte.has_mac = true;
		authorise(argument, va, *done, &allocator->command.pte.mac_counter,
			  allocator->command.pte.mac);
	}
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
	struct context *context = context_of(allocator, channel);
	uint64_t done = 0, end;
	int rc = SGPU_OK;

	if (!context) {
		return no_channel(channel, error);
	}
	if (__builtin_add_overflow(va, mapped, &end) || va % allocator->page_size[SMALL]) {
		return sgpu_fail(error, SGPU_EUSAGE, "%llu bytes at 0x%llx",
				 (unsigned long long)mapped, (unsigned long long)va);
	}
	for (uint64_t at = va; rc == SGPU_OK && at < end; at += done) {
		const int kind = kind_at(allocator, context, at);

		rc = kind == KINDS ? sgpu_fail(error, SGPU_EUSAGE, "nothing is mapped at 0x%llx",
					       (unsigned long long)at)
				   : unmap_page_run(allocator, channel, at, end, kind, authorise,
						    argument, &done, error);
		if (rc == SGPU_OK) {
			sgpu_extents_give(&context->addresses, at, done);
			rc = report ? report(argument, &allocator->reply.summary, error) : SGPU_OK;
		}
	}
	return rc;
}
