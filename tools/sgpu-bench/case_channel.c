/* SPDX-License-Identifier: Apache-2.0
 *
 * channel: what the commands of secure channels cost, beside the cost of plain memory of the same
 * size. The allocator sends the commands to the processor, as it does for a context. A point times
 * one kind of command; the other commands of a sample do not count. CH_MEASURE is in
 * case_digest.c.
 */
#include "cases.h"

/* ---- a channel with both of its ends ---- */
static int send(void *argument, const struct sgpu_command *command, struct sgpu_reply *reply)
{
	struct bench_channel *channel = argument;
	struct sgpu_command own = *command;
	uint64_t begin;
	int rc;

	if (own.op == SGPU_CH_PTE && !own.pte.pages) { /* the owner authorises it */
		const struct sgpu_pages_info *pages = &channel->pages;
		const uint64_t page = own.pte.big ? pages->big : pages->small;

		own.pte.has_mac = true;
		sgpu_session_authorise(
			channel->session,
			(const uint64_t[]){ own.pte.directory_index * SGPU_CHANNEL_ENTRIES *
							    pages->small +
						    own.pte.table_index * page,
					    own.pte.count * page },
			&own.pte.mac_counter, own.pte.mac);
	}
	begin = sgpu_now_ns();
	rc = sgpu_processor_command(channel->processor, &own, reply);
	channel->spent_ns[own.op] += sgpu_now_ns() - begin;
	if (rc == SGPU_OK && own.op == SGPU_CH_PTE && own.channel == channel->number) {
		rc = sgpu_session_report(channel->session, SGPU_CH_PTE, &reply->report,
					 &reply->error);
		channel->pages_told = reply->report.pages;
	}
	return rc;
}

static void end_channel(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct bench_channel *channel = (struct bench_channel *)what;

	(void)bench, (void)size;
	sgpu_session_close(&channel->session);
	sgpu_allocator_free(&channel->allocator);
	sgpu_processor_free(&channel->processor);
	sgpu_key_clear(&channel->owner);
}

int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages, struct bench_channel **made,
		      struct sgpu_error *error)
{
	struct sgpu_processor_config config = { .frames = 0 };
	struct bench_channel *channel = sgpu_bench_new(bench, sizeof(*channel), end_channel, error);
	struct sgpu_grant grant = { 0 };
	int rc = channel ? sgpu_device_pages(bench->device, &channel->pages, error) : SGPU_ENOMEM;

	*made = channel;
	rc = rc ? rc : sgpu_bench_fits(bench, 0, big_pages * channel->pages.big, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	config.frames = (uint32_t)(big_pages * channel->pages.big / channel->pages.small);
	rc = sgpu_key_generate(SGPU_KEY_X25519, &channel->owner, error);
	rc = rc ? rc : sgpu_processor_create(bench->device, &config, &channel->processor, error);
	rc = rc ? rc
		: sgpu_allocator_create(&channel->pages, &config, send, channel,
					&channel->allocator, error);
	rc = rc ? rc
		: sgpu_allocator_channel(channel->allocator, channel->owner.public_half, &grant,
					 error);
	rc = rc ? rc : sgpu_session_open(&channel->owner, &grant, &channel->session, error);
	channel->number = grant.channel;
	return rc;
}

/* ---- rows ---- */
/* A channel's big pages: those mapped, and one for small pages, directories and tables. */
enum { PAGES = 8, BIG_PAGES = PAGES + 1 };

struct row {
	/* pages: set if a variant only maps */
	const char *command, *pages;
	enum sgpu_channel_op op;
	unsigned big, small; /* pages to map and unmap */
	bool ends;	     /* times unmapping or destroying, not mapping */
};

static const struct row rows[] = {
	{ "CH_CREATE", NULL, SGPU_CH_CREATE, 0, 0, false },
	{ "CH_PDE-small", NULL, SGPU_CH_PDE, 0, PAGES, false },
	{ "CH_PDE-big", NULL, SGPU_CH_PDE, PAGES, 0, false },
	{ "CH_PTE", "small-8", SGPU_CH_PTE, 0, PAGES, false },
	{ "CH_PTE-unmap", "small-8", SGPU_CH_PTE, 0, PAGES, true },
	{ "CH_PTE", "big-8", SGPU_CH_PTE, PAGES, 0, false },
	{ "CH_PTE-unmap", "big-8", SGPU_CH_PTE, PAGES, 0, true },
	{ "CH_DESTROY", NULL, SGPU_CH_DESTROY, PAGES, PAGES, true },
};

struct scene {
	struct sgpu_bench *bench;
	struct bench_channel *channel; /* stays open for the whole case */
	struct sgpu_key owner; /* of a sample's channels with pages; not of `channel`, to share no
				* tables */
	struct sgpu_space *space; /* for pages mapped without a channel */
	sgpu_devptr base;
	const struct row *row;
	uint64_t sizes[2]; /* bytes in big and in small pages */
};

static int run_life(void *argument, struct sgpu_error *error)
{
	const struct scene *s = argument;
	const struct sgpu_key *owner =
		s->row->op == SGPU_CH_CREATE ? &s->channel->owner : &s->owner;
	struct sgpu_allocator *allocator = s->channel->allocator;
	uint64_t *spent_ns = &s->channel->spent_ns[s->row->op], counter, va, mapped;
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];
	struct sgpu_session *session = NULL;
	struct sgpu_grant grant;
	int rc;

	*spent_ns = 0;
	rc = sgpu_allocator_channel(allocator, owner->public_half, &grant, error);
	rc = rc ? rc : sgpu_session_open(owner, &grant, &session, error);
	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		rc = s->sizes[i] == 0 ? SGPU_OK
				      : sgpu_allocator_map(allocator, grant.channel, s->sizes[i],
							   &va, &mapped, error);
	}
	if (rc == SGPU_OK) {
		sgpu_session_authorise(session, NULL, &counter, mac);
		rc = sgpu_allocator_destroy(allocator, grant.channel, counter, mac, error);
	}
	sgpu_session_close(&session);
	s->bench->ns = *spent_ns;
	return rc;
}

/* ---- pages of the channel that stays open ---- */
static int run_pages(void *argument, struct sgpu_error *error)
{
	struct scene *s = argument;
	const struct bench_channel *channel = s->channel;
	uint64_t *spent_ns = &s->channel->spent_ns[SGPU_CH_PTE], size = s->sizes[0] + s->sizes[1],
		 va, mapping_ns;
	int rc;

	*spent_ns = 0;
	rc = sgpu_allocator_map(channel->allocator, channel->number, size, &va, &size, error);
	if (rc == SGPU_OK && channel->pages_told != PAGES) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "%u pages are mapped in place of %d",
			       channel->pages_told, PAGES);
	}
	mapping_ns = *spent_ns;
	if (rc == SGPU_OK) {
		rc = sgpu_allocator_unmap(channel->allocator, channel->number, va, size, error);
	}
	s->bench->ns = s->row->ends ? *spent_ns - mapping_ns : mapping_ns;
	return rc;
}

/* Maps and unmaps pages as the device does for CH_PTE, but without a channel. */
static int run_mapping(void *argument, struct sgpu_error *error)
{
	const struct scene *s = argument;
	const struct sgpu_pages_info *info = &s->channel->pages;
	const uint64_t page = s->row->big ? info->big : info->small;
	const uint64_t first = s->row->big ? 0 : BIG_PAGES - 1; /* apart, so that no page changes
								 * its size */
	struct sgpu_task task = { 0 };
	uint64_t begin, between;
	uint32_t pages[PAGES];
	int rc, ended;

	for (uint32_t i = 0; i < PAGES; i++) {
		pages[i] = (uint32_t)((first * info->big + i * page) / info->small);
	}
	begin = sgpu_now_ns();
	rc = sgpu_page_map(s->space, 0, pages, PAGES, page, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	between = sgpu_now_ns();
	rc = sgpu_device_synchronize(s->bench->device, error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_clear(s->bench->stream, s->base, PAGES * page, &task);
		rc = bench_finish(s->bench->stream, rc, &task, 1, "clear", error);
	}
	ended = sgpu_page_unmap(s->space, 0, PAGES * page, rc == SGPU_OK ? error : NULL);
	s->bench->ns = s->row->ends ? sgpu_now_ns() - between : between - begin;
	return rc ? rc : ended;
}

static int run_plain(void *argument, struct sgpu_error *error)
{
	const struct scene *s = argument;

	return bench_time_memory(s->bench, s->bench->device, s->sizes[0] + s->sizes[1],
				 s->row->ends, error);
}

/* ---- points ---- */
static int measure(struct scene *s, const struct row *row, struct sgpu_error *error)
{
	const struct sgpu_pages_info *info = &s->channel->pages;
	const struct sgpu_bench_variant variants[] = {
		{ "plain", NULL, run_plain, NULL, s },
		{ "channel", NULL, row->pages ? run_pages : run_life, NULL, s },
		{ "mapping alone", NULL, run_mapping, NULL, s },
	};
	/* The other commands need a channel. */
	const bool has_plain = row->op == SGPU_CH_PTE || row->op == SGPU_CH_DESTROY;
	const int first = has_plain ? 0 : 1, count = (row->pages ? 3 : 2) - first;
	const uint64_t big = row->big * info->big, small = row->small * info->small;
	const struct sgpu_bench_point point = {
		.parameters = { { "command", row->command, 0 },
				{ has_plain ? "size_bytes" : NULL, NULL, big + small },
				{ row->pages ? "pages" : NULL, row->pages, 0 } },
	};

	s->row = row;
	s->sizes[0] = big;
	s->sizes[1] = small;
	return sgpu_bench_measure(s->bench, &point, variants + first, count, error);
}

int bench_channel(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const void *const mark = bench->kept;
	struct scene s = { .bench = bench };
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &s.owner, error);

	rc = rc ? rc : bench_new_channel(bench, BIG_PAGES, &s.channel, error);
	rc = rc ? rc
		: sgpu_space_create(bench->device, PAGES * s.channel->pages.big, &s.space, &s.base,
				    error);
	rc = rc ? rc : sgpu_space_access(s.space, true, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(rows); i++) {
		rc = measure(&s, &rows[i], error);
	}
	sgpu_space_free(&s.space);
	sgpu_key_clear(&s.owner);
	sgpu_bench_release(bench, mark);
	return rc ? rc : bench_channel_measures(bench, error);
}
