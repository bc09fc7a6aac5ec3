/* SPDX-License-Identifier: Apache-2.0
 *
 * The untrusted allocator decides which pages are mapped where, and reaches the processor only
 * through `send`. An error here costs memory or service, but no secret.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "channel/channel.h"

struct run {
	struct run *next; /* at a higher address */
	uint64_t va, size;
	int kind;
	uint32_t count, pages[];
};

/* `tables` is NULL if the channel does not exist. */
struct channel {
	uint32_t (*tables)[SGPU_KINDS]; /* their frames, SGPU_NO_FRAME for none */
	uint32_t directory;
	struct run *runs;
};

struct sgpu_allocator {
	sgpu_command_fn send;
	void *argument;
	struct sgpu_layout layout;
	/* Big pages are taken from the beginning, small ones from the end. */
	uint64_t *used; /* a bit for each frame */
	uint32_t frames, free;
	uint32_t low, high; /* no free big page lies below `low`, no free frame from `high` on */
	struct channel channels[SGPU_CHANNEL_MAX];
	struct sgpu_command command;
	struct sgpu_reply reply;
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

static bool take_page(struct sgpu_allocator *allocator, int kind, uint32_t *first)
{
	const uint32_t count = allocator->layout.frames_of[kind];
	uint32_t page = allocator->low;

	if (kind == SGPU_SMALL) {
		while (allocator->high > 0 && is_used(allocator, allocator->high - 1)) {
			allocator->high--;
		}
		if (allocator->high == 0) {
			return false;
		}
		page = --allocator->high;
	} else {
		while (allocator->frames - page >= count && !are_free(allocator, page, count)) {
			page += count;
		}
		if (allocator->frames - page < count) {
			return false;
		}
		allocator->low = page + count;
	}
	*first = page;
	for (uint32_t f = page; f < page + count; f++) {
		allocator->used[f / 64] |= (uint64_t)1 << f % 64;
	}
	allocator->free -= count;
	return true;
}

static void give_page(struct sgpu_allocator *allocator, int kind, uint32_t first)
{
	const uint32_t end = first + allocator->layout.frames_of[kind],
		       big = first - first % allocator->layout.frames_of[SGPU_BIG];

	for (uint32_t f = first; f < end; f++) {
		allocator->used[f / 64] &= ~((uint64_t)1 << f % 64);
	}
	allocator->free += end - first;
	allocator->low = big < allocator->low ? big : allocator->low;
	allocator->high = end > allocator->high ? end : allocator->high;
}

static void give_run(struct sgpu_allocator *allocator, struct run *run)
{
	for (uint32_t i = 0; i < run->count; i++) {
		give_page(allocator, run->kind, run->pages[i]);
	}
	free(run);
}

/* ---- commands ---- */
static int send_command(struct sgpu_allocator *allocator, struct sgpu_error *error)
{
	memset(&allocator->reply.error, 0, sizeof(allocator->reply.error));
	int rc = allocator->send(allocator->argument, &allocator->command, &allocator->reply);

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
	return sgpu_fail(error, SGPU_ENOMEM, "no pages are left");
}

/* ---- making and ending ---- */
int sgpu_allocator_create(const struct sgpu_pages_info *info,
			  const struct sgpu_processor_config *config, sgpu_command_fn send,
			  void *argument, struct sgpu_allocator **allocator,
			  struct sgpu_error *error)
{
	struct sgpu_allocator *made = calloc(1, sizeof(*made));

	*allocator = made;
	if (!made || !(made->used = calloc(config->frames / 64 + 1, sizeof(*made->used)))) {
		sgpu_allocator_free(allocator);
		return sgpu_fail_nomem(error);
	}
	made->send = send;
	made->argument = argument;
	made->layout = sgpu_layout_of(info, config);
	made->frames = made->free = made->high = config->frames;
	return SGPU_OK;
}

static void free_channel(struct sgpu_allocator *allocator, struct channel *channel)
{
	for (struct run *run = channel->runs, *next; run; run = next) {
		next = run->next;
		give_run(allocator, run);
	}
	for (uint32_t i = 0; i < allocator->layout.directory_entries * SGPU_KINDS; i++) {
		const uint32_t frame = channel->tables[i / SGPU_KINDS][i % SGPU_KINDS];

		if (frame != SGPU_NO_FRAME) {
			give_page(allocator, SGPU_SMALL, frame);
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
	for (uint32_t i = 0; i < SGPU_CHANNEL_MAX; i++) {
		/* If the processor refuses, it unmaps the pages when it is freed. */
		if (a->channels[i].tables &&
		    sgpu_allocator_destroy(a, i, 0, NULL, NULL) != SGPU_OK) {
			free_channel(a, &a->channels[i]);
		}
	}
	free(a->used);
	free(a);
	*allocator = NULL;
}

/* ---- channels ---- */
int sgpu_allocator_channel(struct sgpu_allocator *allocator, const uint8_t owner_key[32],
			   struct sgpu_grant *grant, struct sgpu_error *error)
{
	const size_t size = allocator->layout.directory_entries * sizeof(uint32_t[SGPU_KINDS]);
	struct channel *made = allocator->channels;
	int rc;

	while (made < allocator->channels + SGPU_CHANNEL_MAX && made->tables) {
		made++;
	}
	if (made == allocator->channels + SGPU_CHANNEL_MAX) {
		return sgpu_fail(error, SGPU_ENOMEM, "all %d channels are in use",
				 SGPU_CHANNEL_MAX);
	}
	if (!take_page(allocator, SGPU_SMALL, &made->directory)) {
		return no_pages(error);
	}
	made->tables = malloc(size);
	if (!made->tables) {
		give_page(allocator, SGPU_SMALL, made->directory);
		return sgpu_fail_nomem(error);
	}
	memset(made->tables, 0xff, size);
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_CREATE,
		.channel = (uint32_t)(made - allocator->channels),
		.create = { .directory = made->directory },
	};
	memcpy(allocator->command.create.owner_key, owner_key, 32);
	rc = send_command(allocator, error);
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
			   uint64_t size, bool keyed, struct sgpu_report *report,
			   struct sgpu_error *error)
{
	int rc;

	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_MEASURE,
		.channel = channel,
		.measure = { .va = va, .size = size, .keyed = keyed },
	};
	rc = send_command(allocator, error);
	if (rc == SGPU_OK) {
		*report = allocator->reply.report;
	}
	return rc;
}

/* ---- mapping ---- */
/* Makes a table for the directory's entry `index`, unless it has one. */
static int need_table(struct sgpu_allocator *allocator, uint32_t channel, uint32_t index, int kind,
		      struct sgpu_error *error)
{
	uint32_t *frame = &allocator->channels[channel].tables[index][kind];
	int rc;

	if (*frame != SGPU_NO_FRAME) {
		return SGPU_OK;
	}
	if (!take_page(allocator, SGPU_SMALL, frame)) {
		return no_pages(error);
	}
	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PDE,
		.channel = channel,
		.pde = { .index = index, .table = *frame, .big = kind == SGPU_BIG },
	};
	rc = send_command(allocator, error);
	if (rc != SGPU_OK) {
		give_page(allocator, SGPU_SMALL, *frame);
		*frame = SGPU_NO_FRAME;
	}
	return rc;
}

static int send_run(struct sgpu_allocator *allocator, uint32_t channel, const struct run *run,
		    const uint32_t *pages, struct sgpu_error *error)
{
	const struct sgpu_layout *layout = &allocator->layout;

	allocator->command = (struct sgpu_command){
		.op = SGPU_CH_PTE,
		.channel = channel,
		.pte = { .directory_index = (uint32_t)(run->va / layout->window),
			 .table_index = (uint32_t)(run->va % layout->window /
						   layout->page_size[run->kind]),
			 .big = run->kind == SGPU_BIG,
			 .count = run->count,
			 .pages = pages },
	};
	return send_command(allocator, error);
}

/* Maps as many pages of `kind` from `va` to `end` as one command can and as are free. *at: where
 * the run is entered. *run is NULL if no page fits or is free. */
static int map_run(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va, uint64_t end,
		   int kind, struct run **at, struct run **run, struct sgpu_error *error)
{
	const uint64_t window = allocator->layout.window, page = allocator->layout.page_size[kind];
	const uint64_t most = (sgpu_min_u64(end, (va / window + 1) * window) - va) / page;
	struct run *made;
	int rc;

	*run = NULL;
	if (most == 0) {
		return SGPU_OK;
	}
	rc = need_table(allocator, channel, (uint32_t)(va / window), kind, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	made = malloc(sizeof(*made) + most * sizeof(*made->pages));
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	*made = (struct run){ .va = va, .kind = kind };
	while (made->count < most && take_page(allocator, kind, &made->pages[made->count])) {
		made->count++;
	}
	/* Small pages were taken in descending order. A device maps frames that ascend without gaps
	 * in one call. */
	for (uint32_t i = 0; kind == SGPU_SMALL && i < made->count / 2; i++) {
		const uint32_t first = made->pages[i];

		made->pages[i] = made->pages[made->count - 1 - i];
		made->pages[made->count - 1 - i] = first;
	}
	made->size = made->count * page;
	rc = made->count ? send_run(allocator, channel, made, made->pages, error) : SGPU_OK;
	if (made->count == 0 || (rc != SGPU_OK && allocator->reply.refusal != SGPU_REFUSED_NOT)) {
		give_run(allocator, made);
		return rc;
	}
	/* The pages are mapped, even if the owner does not believe it. */
	made->next = *at;
	*at = *run = made;
	return rc;
}

/* Finds the first `size` unmapped bytes from a multiple of `alignment` on. Returns where a run at
 * *va is to be entered, or NULL. */
static struct run **find_room(const struct sgpu_allocator *allocator, struct channel *made,
			      uint64_t size, uint64_t alignment, uint64_t *va)
{
	struct run **at = &made->runs;

	for (*va = 0; *at && (*at)->va < *va + size; at = &(*at)->next) {
		*va = ((*at)->va + (*at)->size + alignment - 1) / alignment * alignment;
	}
	return size <= allocator->layout.space && *va <= allocator->layout.space - size ? at : NULL;
}

int sgpu_allocator_map(struct sgpu_allocator *allocator, uint32_t channel, uint64_t size,
		       uint64_t *va, uint64_t *mapped, struct sgpu_error *error)
{
	const uint64_t small = allocator->layout.page_size[SGPU_SMALL],
		       big = allocator->layout.page_size[SGPU_BIG];
	struct channel *made = find(allocator, channel, error);
	struct run **at, *run;
	uint64_t whole;
	int kind = SGPU_BIG, rc = SGPU_OK;

	*mapped = 0;
	if (!made) {
		return SGPU_EUSAGE;
	}
	if (size == 0 || size > allocator->free * small) {
		return no_pages(error);
	}
	whole = (size + small - 1) / small * small;
	at = find_room(allocator, made, whole, whole >= big ? big : small, va);
	if (!at) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "no %llu bytes of addresses are left in the context",
				 (unsigned long long)size);
	}
	while (rc == SGPU_OK && *mapped < whole) {
		rc = map_run(allocator, channel, *va + *mapped, *va + whole, kind, at, &run, error);
		if (rc == SGPU_OK && run) {
			*mapped += run->size;
			at = &run->next;
		} else if (rc == SGPU_OK) {
			/* No big page fits any more, or none is free. */
			rc = kind == SGPU_SMALL ? no_pages(error) : SGPU_OK;
			kind = SGPU_SMALL;
		}
	}
	/* Pages stay mapped after an error, since only the owner can authorise unmapping. */
	return rc;
}

int sgpu_allocator_unmap(struct sgpu_allocator *allocator, uint32_t channel, uint64_t va,
			 uint64_t size, struct sgpu_error *error)
{
	struct channel *made = find(allocator, channel, error);
	struct run **at, *run;
	int rc = SGPU_OK;

	if (!made) {
		return SGPU_EUSAGE;
	}
	for (at = &made->runs; *at && (*at)->va < va;) {
		at = &(*at)->next;
	}
	while (rc == SGPU_OK && size > 0) {
		run = *at;
		if (!run || run->va != va || run->size > size) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "nothing was mapped at 0x%llx by itself",
					 (unsigned long long)va);
		}
		rc = send_run(allocator, channel, run, NULL, error);
		if (rc == SGPU_OK) {
			va += run->size;
			size -= run->size;
			*at = run->next;
			give_run(allocator, run);
		}
	}
	return rc;
}
