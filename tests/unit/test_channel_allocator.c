/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator that works: channels, memory in pages of both sizes, and back again until
 * everything is free.
 */
#include "channel_check.h"

#include "channel_harness.h"

enum { MANY = 4096, ALLOCATOR_BIG = 16 };

/* A processor of more memory, an allocator, a channel of the first owner. */
struct world {
	struct fake_pager fake;
	struct sgpu_device *device;
	struct sgpu_processor_config config;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_grant grant;
	struct sgpu_session *session;
	uint32_t reports, refuse;
	uint64_t reported;
};

static uint64_t space_size; /* 0: the usual one */

/* The owner's side: authorises what is to be unmapped, and takes the summaries. */
static int pass(void *argument, const struct sgpu_command *given, struct sgpu_reply *reply)
{
	struct world *w = argument;
	struct sgpu_command c = *given;
	int rc;

	if (c.op == SGPU_CH_PTE && !c.pte.pages) {
		const uint64_t page = c.pte.big ? SMALL * ALLOCATOR_BIG : SMALL;

		c.pte.has_mac = true;
		sgpu_session_authorise(
			w->session,
			(const uint64_t[]){ c.pte.directory_index * (uint64_t)TABLE_SPAN +
						    c.pte.table_index * page,
					    c.pte.count * page },
			&c.pte.mac_counter, c.pte.mac);
	}
	rc = sgpu_processor_command(w->processor, &c, reply);
	if (rc == SGPU_OK && c.op == SGPU_CH_PTE && c.channel == w->grant.channel) {
		if (++w->reports == w->refuse) {
			return sgpu_fail(&reply->error, SGPU_EAUTH, "not believed");
		}
		rc = sgpu_session_report(w->session, SGPU_CH_PTE, &reply->report, &reply->error);
		w->reported += reply->report.size;
	}
	return rc;
}

static void world_open(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->device = fake_pager_init(&w->fake, MANY, SMALL, ALLOCATOR_BIG);
	w->config = (struct sgpu_processor_config){ .frames = MANY, .space_size = space_size };
	CHECK(sgpu_processor_create(w->device, &w->config, &w->processor, NULL) == SGPU_OK);
	CHECK(sgpu_allocator_create(&w->fake.info, &w->config, pass, w, &w->allocator, NULL) ==
	      SGPU_OK);
	CHECK(sgpu_key_generate(SGPU_KEY_X25519, &w->owner, NULL) == SGPU_OK);
	CHECK(sgpu_allocator_channel(w->allocator, w->owner.public_half, &w->grant, NULL) ==
	      SGPU_OK);
	CHECK(sgpu_session_open(&w->owner, &w->grant, &w->session, NULL) == SGPU_OK);
}

static void world_close(struct world *w)
{
	struct sgpu_error error = { 0 };

	CHECK(sgpu_processor_check(w->processor, &error) == SGPU_OK);
	CHECK(w->fake.faults == 0);
	sgpu_session_close(&w->session);
	sgpu_allocator_free(&w->allocator);
	CHECK(!w->allocator);
	for (uint32_t f = 0; f < MANY; f++) {
		struct sgpu_frame about;

		CHECK(sgpu_processor_frame(w->processor, f, &about) == SGPU_OK && !about.mapped);
	}
	sgpu_processor_free(&w->processor);
	fake_pager_clear(&w->fake);
}

UNIT_TEST(memory_comes_in_big_pages_as_far_as_they_fit)
{
	const uint64_t big = SMALL * ALLOCATOR_BIG, size = 3 * big + 2 * SMALL - 5;
	struct world w;
	uint64_t va, mapped, other, other_mapped;
	sgpu_devptr base;

	world_open(&w);
	REQUIRE(sgpu_allocator_map(w.allocator, w.grant.channel, size, &va, &mapped, NULL) ==
		SGPU_OK);
	CHECK(mapped == 3 * big + 2 * SMALL && va % big == 0 && w.reported == mapped &&
	      w.reports == 2);
	REQUIRE(sgpu_allocator_map(w.allocator, w.grant.channel, 1, &other, &other_mapped, NULL) ==
		SGPU_OK);
	CHECK(other_mapped == SMALL && (other >= va + mapped || other + SMALL <= va));
	REQUIRE(sgpu_processor_space(w.processor, w.grant.channel, &base, NULL) == SGPU_OK);
	CHECK(sgpu_processor_reaches(w.processor, w.grant.channel, base + va, mapped));
	CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, va, mapped, NULL) == SGPU_OK);
	CHECK(!sgpu_processor_reaches(w.processor, w.grant.channel, base + va, 1));
	CHECK(sgpu_processor_reaches(w.processor, w.grant.channel, base + other, SMALL));
	CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, va, mapped, NULL) == SGPU_EUSAGE);
	world_close(&w);
}

/* So that a device maps them at once. */
UNIT_TEST(small_pages_stand_in_the_order_of_their_frames)
{
	enum { PAGES = 7 };
	struct sgpu_frame about;
	uint64_t va, mapped;
	uint32_t first = 0;
	struct world w;

	world_open(&w);
	REQUIRE(sgpu_allocator_map(w.allocator, w.grant.channel, PAGES * SMALL, &va, &mapped,
				   NULL) == SGPU_OK);
	do {
		REQUIRE(first < MANY &&
			sgpu_processor_frame(w.processor, first, &about) == SGPU_OK);
	} while ((!about.mapped || about.use != SGPU_FRAME_DATA) && ++first);
	for (uint32_t i = 0; i < PAGES; i++) {
		REQUIRE(sgpu_processor_frame(w.processor, first + i, &about) == SGPU_OK);
		CHECK(about.mapped && about.use == SGPU_FRAME_DATA && about.va == va + i * SMALL);
	}
	world_close(&w);
}

UNIT_TEST(what_is_given_back_comes_again_and_all_of_it_can_be_had)
{
	struct world w;
	uint64_t va[200], mapped[200], all = 0;
	int n = 0;
	uint32_t random = 1;

	world_open(&w);
	for (int round = 0; round < 2000; round++) {
		random = random * 1664525 + 1013904223;
		if (n < 200 && random >> 31) {
			uint64_t size = 1 + (random >> 8) % 6000;
			int rc = sgpu_allocator_map(w.allocator, w.grant.channel, size, &va[n],
						    &mapped[n], NULL);

			CHECK(rc == SGPU_OK || rc == SGPU_ENOMEM);
			n += rc == SGPU_OK;
		} else if (n) {
			int i = (int)((random >> 8) % (uint32_t)n);

			CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, va[i], mapped[i],
						   NULL) == SGPU_OK);
			va[i] = va[--n];
			mapped[i] = mapped[n];
		}
	}
	CHECK(sgpu_processor_check(w.processor, NULL) == SGPU_OK);
	while (n--) {
		CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, va[n], mapped[n], NULL) ==
		      SGPU_OK);
	}
	/* All but the regions, and what directories and tables take. */
	for (all = MANY;
	     sgpu_allocator_map(w.allocator, w.grant.channel, all * SMALL, va, mapped, NULL);
	     all--) {
		REQUIRE(all > MANY - 16);
	}
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, 1, va, mapped, NULL) == SGPU_ENOMEM);
	world_close(&w);
}

UNIT_TEST(a_failure_loses_neither_books_nor_service)
{
	struct world w;
	uint64_t va, mapped;
	int failed = 0;

	world_open(&w);
	for (uint32_t n = 1; n < 4; n++) {
		w.fake.fail_in = n;
		int rc = sgpu_allocator_map(w.allocator, w.grant.channel, 3000, &va, &mapped, NULL);

		CHECK(rc == SGPU_OK || rc == SGPU_EDEVICE);
		failed += rc != SGPU_OK;
		w.fake.fail_in = 0;
		CHECK(sgpu_processor_check(w.processor, NULL) == SGPU_OK);
	}
	CHECK(failed > 0);
	w.refuse = w.reports + 2;
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, 3000, &va, &mapped, NULL) ==
	      SGPU_EAUTH);
	w.refuse = 0;
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, 3000, &va, &mapped, NULL) ==
	      SGPU_OK);
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, 0, &va, &mapped, NULL) ==
	      SGPU_ENOMEM);
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, UINT64_MAX, &va, &mapped, NULL) ==
	      SGPU_ENOMEM);
	CHECK(sgpu_allocator_map(w.allocator, 77, 1, &va, &mapped, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, 1, SMALL, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_allocator_unmap(w.allocator, w.grant.channel, SMALL, UINT64_MAX, NULL) ==
	      SGPU_EUSAGE);
	world_close(&w);
	space_size = SMALL * ALLOCATOR_BIG; /* fewer addresses than memory */
	world_open(&w);
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, space_size, &va, &mapped, NULL) ==
	      SGPU_OK);
	CHECK(sgpu_allocator_map(w.allocator, w.grant.channel, 1, &va, &mapped, NULL) ==
	      SGPU_ENOMEM);
	space_size = 0;
	world_close(&w);
}

UNIT_TEST(channels_come_and_go)
{
	struct world w;
	struct sgpu_key keys[12];
	struct sgpu_grant grants[12];
	uint32_t serial = 0;

	world_open(&w);
	for (int i = 0; i < 12; i++) {
		REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &keys[i], NULL) == SGPU_OK);
	}
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 12; i++) {
			uint64_t va, mapped;

			REQUIRE(sgpu_allocator_channel(w.allocator, keys[i].public_half, &grants[i],
						       NULL) == SGPU_OK);
			CHECK(grants[i].serial > serial);
			serial = grants[i].serial;
			CHECK(sgpu_allocator_map(w.allocator, grants[i].channel, 1500, &va, &mapped,
						 NULL) == SGPU_OK);
		}
		CHECK(sgpu_processor_check(w.processor, NULL) == SGPU_OK);
		for (int i = 0; i < 12; i++) {
			CHECK(sgpu_allocator_destroy(w.allocator,
						     grants[(i * 5 + round) % 12].channel, 0, NULL,
						     NULL) == SGPU_OK);
			CHECK(sgpu_processor_check(w.processor, NULL) == SGPU_OK);
		}
	}
	world_close(&w);
}

int main(void)
{
	UNIT_RUN(memory_comes_in_big_pages_as_far_as_they_fit);
	UNIT_RUN(small_pages_stand_in_the_order_of_their_frames);
	UNIT_RUN(what_is_given_back_comes_again_and_all_of_it_can_be_had);
	UNIT_RUN(a_failure_loses_neither_books_nor_service);
	UNIT_RUN(channels_come_and_go);
	return unit_done();
}
