/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator, which is not trusted, decides which pages are mapped at which addresses, and sends
 * commands for that. An error here costs memory or service, but no secret. Channels share no
 * tables. The allocator reaches the processor only through `send`.
 */
#include "base/base.h"
#include "channel/tables.h"

enum { BOOTSTRAP = 0 };

/* `tables` is NULL if the channel does not exist. */
struct channel {
	struct sgpu_table *(*tables)[SGPU_KINDS];
	uint32_t directory;
};

struct sgpu_allocator {
	sgpu_command_fn send;
	void *processor;
	struct sgpu_layout layout;
	/* Frames [begin, end): big pages are taken from the beginning, small ones from the end. */
	uint64_t *used; /* a bit for each frame */
	uint32_t begin, end, free;
	uint32_t low, high; /* no free big page lies below `low`, no free frame from `high` on */
	struct channel channels[SGPU_CHANNEL_MAX];
	struct sgpu_command command;
	struct sgpu_reply reply;
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
};

/* ---- frames ---- */
static bool is_used(const struct sgpu_allocator *allocator, uint32_t frame)
{
	return allocator->used[frame / 64] >> frame % 64 & 1;
}

static bool are_free(const struct sgpu_allocator *allocator, uint32_t first, uint32_t count)
{
	for (uint32_t f = first; f < first + count; f++) {
		if (is_used(allocator, f)) {
			return false;
		}
	}
	return true;
}

/* Takes the frames of a page of `kind`, from *first on. Returns false if none are free. */
static bool take_page(struct sgpu_allocator *allocator, int kind, uint32_t *first)
{
	const uint32_t count = allocator->layout.frames_of[kind];
	uint64_t page = ((uint64_t)allocator->low + count - 1) / count * count;

	if (kind == SGPU_SMALL) {
		while (allocator->high > allocator->begin &&
		       is_used(allocator, allocator->high - 1)) {
			allocator->high--;
		}
		if (allocator->high == allocator->begin) {
			return false;
		}
		page = --allocator->high;
	} else {
		while (page + count <= allocator->end &&
		       !are_free(allocator, (uint32_t)page, count)) {
			page += count;
		}
		if (allocator->free < count || page + count > allocator->end) {
			return false;
		}
		allocator->low = (uint32_t)page + count;
	}
	*first = (uint32_t)page;
	for (uint32_t f = *first; f < *first + count; f++) {
		allocator->used[f / 64] |= (uint64_t)1 << f % 64;
	}
	allocator->free -= count;
	return true;
}

static void give_page(struct sgpu_allocator *allocator, int kind, uint32_t first)
{
	const uint32_t end = first + allocator->layout.frames_of[kind];

	for (uint32_t f = first; f < end; f++) {
		allocator->used[f / 64] &= ~((uint64_t)1 << f % 64);
	}
	allocator->free += end - first;
	allocator->low = first < allocator->low ? first : allocator->low;
	allocator->high = end > allocator->high ? end : allocator->high;
}

/* ---- commands ---- */
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

/* Returns NULL, with SGPU_EUSAGE, if there is no such channel. */
static struct channel *find(struct sgpu_allocator *allocator, uint32_t channel,
			    struct sgpu_error *error)
{
	if (channel < SGPU_CHANNEL_MAX && allocator->channels[channel].tables) {
		return &allocator->channels[channel];
	}
	(void)sgpu_fail(error, SGPU_EUSAGE, "the allocator has made no channel %u", channel);
	return NULL;
}

static int no_pages(struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM, "no protected pages are left");
}

/* ---- making and ending ---- */
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
	made->layout = sgpu_layout_of(info, config);
	made->begin = made->low = config->unprotected;
	made->end = made->high = config->frames - config->hidden;
	made->free = made->end - made->begin;
	made->used = calloc(made->end / 64 + 1, sizeof(*made->used));
	rc = made->used ? SGPU_OK : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		made->command = (struct sgpu_command){ .op = SGPU_CH_CREATE, .channel = BOOTSTRAP };
		rc = send_command(made, error);
	}
	if (rc != SGPU_OK) {
		free(made->used);
		free(made);
		return rc;
	}
	*allocator = made;
	return SGPU_OK;
}

static void free_channel(struct sgpu_allocator *allocator, struct channel *channel)
{
	for (uint32_t d = 0; channel->tables && d < allocator->layout.directory_entries; d++) {
		for (int kind = 0; kind < SGPU_KINDS; kind++) {
			struct sgpu_table *table = channel->tables[d][kind];

			for (uint32_t i = 0; table && i < allocator->layout.entries_of[kind]; i++) {
				if (table->entries[i] != SGPU_NO_FRAME) {
					give_page(allocator, kind, table->entries[i]);
				}
			}
			if (table) {
				give_page(allocator, SGPU_SMALL, table->frame);
			}
			free(table);
		}
	}
	free(channel->tables);
	give_page(allocator, SGPU_SMALL, channel->directory);
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
	free(a->used);
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
	if (!take_page(allocator, SGPU_SMALL, &directory)) {
		return no_pages(error);
	}
	made = &allocator->channels[number];
	made->directory = directory;
	made->tables = calloc(allocator->layout.directory_entries, sizeof(*made->tables));
	rc = made->tables ? SGPU_OK : sgpu_fail_nomem(error);
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
	struct channel *made = find(allocator, channel, error);
	int rc;

	if (!made) {
		return SGPU_EUSAGE;
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

	if (!find(allocator, channel, error)) {
		return SGPU_EUSAGE;
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
	struct sgpu_table **at = &allocator->channels[channel].tables[directory][kind];
	struct sgpu_table *table;
	uint32_t frame;
	int rc;

	if (*at) {
		return SGPU_OK;
	}
	if (!take_page(allocator, SGPU_SMALL, &frame)) {
		return no_pages(error);
	}
	table = sgpu_table_make(&allocator->layout, frame, kind);
	if (!table) {
		give_page(allocator, SGPU_SMALL, frame);
		return sgpu_fail_nomem(error);
	}
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PDE,
		.channel = channel,
		.pde = { .index = directory, .table = frame, .big = kind == SGPU_BIG },
	};
	rc = send_command(allocator, error);
	if (rc != SGPU_OK) {
		give_page(allocator, SGPU_SMALL, frame);
		free(table);
		return rc;
	}
	*at = table;
	return SGPU_OK;
}

/* Begins a command for those pages of `kind` from `va` to `end` that one can map or unmap. */
static struct sgpu_command *begin_pages(struct sgpu_allocator *allocator, uint32_t channel,
					uint64_t va, uint64_t end, int kind)
{
	const struct sgpu_layout *layout = &allocator->layout;
	const uint32_t index = (uint32_t)(va % layout->window / layout->page_size[kind]);

	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PTE,
		.channel = channel,
		.pte = { .directory_index = (uint32_t)(va / layout->window),
			 .table_index = index,
			 .big = kind == SGPU_BIG,
			 .count = (uint32_t)sgpu_min_u64((end - va) / layout->page_size[kind],
							 layout->entries_of[kind] - index),
			 .pages = allocator->pages },
	};
	return &allocator->command;
}

static void give_back(struct sgpu_allocator *allocator, uint32_t count, int kind)
{
	for (uint32_t i = 0; i < count; i++) {
		give_page(allocator, kind, allocator->pages[i]);
	}
}

/* Maps as many pages of `kind` as one command can and as are free. *done: the bytes mapped; 0 if no
 * page fits or is free. */
static int map_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			uint64_t end, int kind, uint64_t *done, struct sgpu_error *error)
{
	const struct sgpu_layout *layout = &allocator->layout;
	const uint32_t directory = (uint32_t)(va / layout->window);
	struct sgpu_command *command;
	uint32_t count = 0;
	int rc;

	*done = 0;
	if (end - va < layout->page_size[kind]) {
		return SGPU_OK;
	}
	rc = need_table(allocator, channel, directory, kind, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	command = begin_pages(allocator, channel, va, end, kind);
	while (count < command->pte.count && take_page(allocator, kind, &allocator->pages[count])) {
		count++;
	}
	command->pte.count = count;
	if (!count) {
		return SGPU_OK;
	}
	/* Small pages were taken in descending order. They are reversed, since a device maps frames
	 * that ascend without gaps in one call. */
	for (uint32_t i = 0; kind == SGPU_SMALL && i < count / 2; i++) {
		const uint32_t page = allocator->pages[i];

		allocator->pages[i] = allocator->pages[count - 1 - i];
		allocator->pages[count - 1 - i] = page;
	}
	rc = send_command(allocator, error);
	if (rc != SGPU_OK) {
		give_back(allocator, count, kind);
		return rc;
	}
	memcpy(&allocator->channels[channel]
			.tables[directory][kind]
			->entries[command->pte.table_index],
	       allocator->pages, count * sizeof(*allocator->pages));
	*done = count * layout->page_size[kind];
	return SGPU_OK;
}

/* Finds the first `size` bytes, from a multiple of `alignment` on, where no page is mapped. */
static int find_room(const struct sgpu_allocator *allocator, const struct channel *made,
		     uint64_t size, uint64_t alignment, uint64_t *va, struct sgpu_error *error)
{
	const struct sgpu_layout *layout = &allocator->layout;
	uint64_t begin = 0, at = 0;

	while (at < begin + size) {
		struct sgpu_table *const *tables = made->tables[at / layout->window];
		const int kind = sgpu_kind_at(layout, made->tables, at);

		if (kind != SGPU_KINDS) {
			at += layout->page_size[kind];
			begin = at = (at + alignment - 1) / alignment * alignment;
			if (begin > layout->space - size) {
				return sgpu_fail(
					error, SGPU_ENOMEM,
					"no %llu bytes of addresses are left in the context",
					(unsigned long long)size);
			}
		} else if (tables[SGPU_SMALL] || tables[SGPU_BIG]) {
			at += layout->page_size[SGPU_SMALL];
		} else {
			at = (at / layout->window + 1) * layout->window;
		}
	}
	*va = begin;
	return SGPU_OK;
}

int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel, uint64_t size,
		       uint64_t *va, uint64_t *mapped, sgpu_report_fn report, void *argument,
		       struct sgpu_error *error)
{
	const uint64_t small = allocator->layout.page_size[SGPU_SMALL],
		       big = allocator->layout.page_size[SGPU_BIG];
	struct channel *made = find(allocator, channel, error);
	uint64_t whole, at, done = 0;
	int kind = SGPU_BIG, rc;

	if (!made) {
		return SGPU_EUSAGE;
	}
	if (!size || size > allocator->layout.space) {
		return sgpu_fail(error, SGPU_ENOMEM, "%llu bytes do not fit into the channel",
				 (unsigned long long)size);
	}
	whole = (size + small - 1) / small * small;
	if (whole / small > allocator->free) {
		return no_pages(error);
	}
	rc = find_room(allocator, made, whole, whole >= big ? big : small, va, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	*mapped = whole;
	for (at = *va; rc == SGPU_OK && at < *va + whole; at += done) {
		rc = map_page_run(allocator, channel, at, *va + whole, kind, &done, error);
		if (rc == SGPU_OK && done) {
			rc = report ? report(argument, &allocator->reply.summary, error) : SGPU_OK;
		} else if (rc == SGPU_OK) {
			/* No big page fits any more, or none is free. */
			rc = kind == SGPU_SMALL ? no_pages(error) : SGPU_OK;
			kind = SGPU_SMALL;
		}
	}
	/* Pages stay mapped after an error until the channel is destroyed, since only the owner can
	 * authorise their unmapping. */
	return rc;
}

/* Unmaps adjacent pages of `kind` in one table. *done: the bytes unmapped. */
static int unmap_page_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			  uint64_t end, int kind, sgpu_authorise_fn authorise, void *argument,
			  uint64_t *done, struct sgpu_error *error)
{
	struct sgpu_command *command = begin_pages(allocator, channel, va, end, kind);
	uint32_t *entries = &allocator->channels[channel]
				     .tables[command->pte.directory_index][kind]
				     ->entries[command->pte.table_index];
	uint32_t count = 0;
	int rc;

	while (count < command->pte.count && entries[count] != SGPU_NO_FRAME) {
		count++;
	}
	if (!count) {
		return sgpu_fail(error, SGPU_EUSAGE, "a page at 0x%llx would be cut",
				 (unsigned long long)va);
	}
	*done = count * allocator->layout.page_size[kind];
	command->pte.count = count;
	command->pte.has_mac = true;
	authorise(argument, va, *done, &command->pte.mac_counter, command->pte.mac);
	memset(allocator->pages, 0xff, count * sizeof(*allocator->pages));
	rc = send_command(allocator, error);
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
	const struct sgpu_layout *layout = &allocator->layout;
	struct channel *made = find(allocator, channel, error);
	uint64_t done = 0, end;
	int rc = SGPU_OK;

	if (!made) {
		return SGPU_EUSAGE;
	}
	if (__builtin_add_overflow(va, mapped, &end) || va % layout->page_size[SGPU_SMALL]) {
		return sgpu_fail(error, SGPU_EUSAGE, "%llu bytes at 0x%llx",
				 (unsigned long long)mapped, (unsigned long long)va);
	}
	for (uint64_t at = va; rc == SGPU_OK && at < end; at += done) {
		const int kind =
			at < layout->space ? sgpu_kind_at(layout, made->tables, at) : SGPU_KINDS;

		rc = kind == SGPU_KINDS || at % layout->page_size[kind]
			     ? sgpu_fail(error, SGPU_EUSAGE, "nothing is mapped at 0x%llx",
					 (unsigned long long)at)
			     : unmap_page_run(allocator, channel, at, end, kind, authorise,
					      argument, &done, error);
		rc = rc ? rc : report(argument, &allocator->reply.summary, error);
	}
	return rc;
}
