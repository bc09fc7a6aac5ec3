/* SPDX-License-Identifier: Apache-2.0
 *
 * What each command of the processor does, and every reason to refuse it.
 */
#include "channel_check.h"
#include <channel/keys.h>
#include <channel/session.c>

#include "channel_harness.h"

#define OK SGPU_REFUSED_NOT

/* Channel 1 of the first owner, with tables of small pages in frame 12 and of big pages in 13, both
 * at index 0. */
static struct sgpu_session *open_channel(struct bench *b)
{
	CHECK(create(b, 1, 11, &b->owner[0]) == OK);
	struct sgpu_session *session = session_of(b, &b->owner[0]);
	CHECK(pde(b, 1, 0, 12, false) == OK);
	CHECK(pde(b, 1, 0, 13, true) == OK);
	return session;
}

static sgpu_devptr base_of(struct bench *b, uint32_t channel)
{
	sgpu_devptr base = 0;

	CHECK(sgpu_processor_space(b->processor, channel, &base, NULL) == SGPU_OK);
	return base;
}

UNIT_TEST(a_channel_is_refused)
{
	struct bench b;
	struct sgpu_key low = { .kind = SGPU_KEY_X25519 };

	bench_open(&b);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	CHECK(create(&b, 1, 12, &b.owner[0]) == SGPU_REFUSED_EXISTS);
	CHECK(create(&b, 2, 11, &b.owner[0]) == SGPU_REFUSED_FOREIGN);
	CHECK(create(&b, 2, 11, &b.owner[1]) == SGPU_REFUSED_FOREIGN);
	CHECK(create(&b, 2, FRAMES, &b.owner[1]) == SGPU_REFUSED_RANGE);
	CHECK(create(&b, 2, SGPU_NO_FRAME, &b.owner[1]) == SGPU_REFUSED_RANGE);
	CHECK(create(&b, SGPU_CHANNEL_MAX, 12, &b.owner[1]) == SGPU_REFUSED_RANGE);
	CHECK(create(&b, 2, 12, &low) == SGPU_REFUSED_MALFORMED);
	for (int op = SGPU_CH_DESTROY + 1; op < 80; op++) { /* a group is a message of its own */
		b.command.op = (enum sgpu_channel_op)op;
		CHECK(say(&b, &b.command) == SGPU_REFUSED_MALFORMED &&
		      b.reply.code == SGPU_EINVALID && b.reply.error.text[0]);
	}
	CHECK(!frame(&b, 12).mapped);
	bench_close(&b);
}

UNIT_TEST(no_serial_number_is_given_twice_even_at_the_last)
{
	struct bench b;

	bench_open(&b);
	b.processor->serials = UINT32_MAX - 1;
	CHECK(create(&b, 1, 11, &b.owner[0]) == OK && b.reply.grant.serial == UINT32_MAX);
	CHECK(create(&b, 2, 12, &b.owner[0]) == SGPU_REFUSED_LIMIT);
	CHECK(destroy(&b, 1, NULL) == OK && create(&b, 1, 11, &b.owner[0]) == SGPU_REFUSED_LIMIT);
	bench_close(&b);
}

UNIT_TEST(a_table_is_refused)
{
	const uint32_t page = 20;
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(create(&b, 2, 30, &b.owner[1]) == OK);
	REQUIRE(create(&b, 3, 31, &b.owner[0]) == OK);
	CHECK(pde(&b, 9, 0, 40, false) == SGPU_REFUSED_NO_CHANNEL);
	CHECK(pde(&b, 1, 3, 40, false) == SGPU_REFUSED_RANGE);
	CHECK(pde(&b, 1, 1, FRAMES, false) == SGPU_REFUSED_RANGE);
	CHECK(pde(&b, 2, 0, 12, false) == SGPU_REFUSED_FOREIGN);
	CHECK(pde(&b, 2, 0, 11, false) == SGPU_REFUSED_FOREIGN);
	CHECK(pde(&b, 3, 0, 12, false) == SGPU_REFUSED_FOREIGN);
	CHECK(pde(&b, 1, 1, 11, false) == SGPU_REFUSED_NOT_FREE);
	CHECK(pde(&b, 1, 1, 12, false) == SGPU_REFUSED_NOT_FREE);
	CHECK(pde(&b, 1, 0, 12, true) == SGPU_REFUSED_NOT_FREE);
	REQUIRE(pte(&b, 1, 0, 0, false, 1, &page) == OK);
	CHECK(pde(&b, 1, 0, SGPU_NO_FRAME, false) == SGPU_REFUSED_LOCKED);
	CHECK(pde(&b, 1, 0, 40, false) == SGPU_REFUSED_ALIAS);
	CHECK(pde(&b, 1, 1, 20, false) == SGPU_REFUSED_ALIAS);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(pages_are_mapped_and_reported)
{
	const uint32_t first[1] = { 20 }, small[2] = { 3, 22 }, big[1] = { 40 };
	uint8_t hash[SGPU_KT128_SIZE];
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(pte(&b, 1, 0, 5, false, 1, first) == OK && pte(&b, 1, 0, 7, false, 2, small) == OK);
	struct sgpu_report *s = &b.reply.report;
	sgpu_kt128(small, sizeof(small), NULL, 0, hash, sizeof(hash));
	CHECK(s->channel == 1 && s->va == 7 * SMALL && s->size == 2 * SMALL && s->pages == 2);
	CHECK(!memcmp(s->digest, hash, sizeof(hash)));
	CHECK(sgpu_session_report(session, SGPU_CH_PTE, s, NULL) == SGPU_OK);
	CHECK(frame(&b, 20).va == 5 * SMALL && frame(&b, 22).va == 8 * SMALL);
	CHECK(frame(&b, 12).entries == 3 && b.fake.calls[FAKE_MAP] == 2);
	REQUIRE(pte(&b, 1, 0, 3, true, 1, big) == OK);
	CHECK(frame(&b, 40).big && frame(&b, 43).big && frame(&b, 43).va == 3 * BIG + 3 * SMALL);
	CHECK(!frame(&b, 44).mapped);
	CHECK(b.fake.calls[FAKE_CLEAR] == 0 && b.fake.calls[FAKE_ACCESS] == 0);
	const sgpu_devptr base = base_of(&b, 1);
	CHECK(sgpu_processor_reaches(b.processor, 1, base + 5 * SMALL, SMALL));
	CHECK(!sgpu_processor_reaches(b.processor, 1, base + 5 * SMALL, SMALL + 1));
	CHECK(!sgpu_processor_reaches(b.processor, 1, base + 5 * SMALL - 1, 2));
	CHECK(sgpu_processor_reaches(b.processor, 1, base + 7 * SMALL + 1, 2 * SMALL - 1));
	CHECK(sgpu_processor_reaches(b.processor, 1, base + 3 * BIG, BIG));
	CHECK(!sgpu_processor_reaches(b.processor, 1, base - 1, 1));
	CHECK(!sgpu_processor_reaches(b.processor, 1, base + 5 * SMALL, UINT64_MAX));
	CHECK(!sgpu_processor_reaches(b.processor, 1, base + SPACE - 1, 2));
	CHECK(!sgpu_processor_reaches(b.processor, 2, base + 5 * SMALL, SMALL));
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(pages_are_refused)
{
	static const uint32_t twice[2] = { 20, 20 }, over[2] = { 3, FRAMES }, some[2] = { 61, 20 },
			      mixed[2] = { 20, SGPU_NO_FRAME };
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(create(&b, 2, 30, &b.owner[1]) == OK);
	REQUIRE(pde(&b, 2, 0, 31, false) == OK && pde(&b, 2, 0, 32, true) == OK);
	REQUIRE(pte(&b, 2, 0, 0, false, 1, &(uint32_t){ 60 }) == OK);
	REQUIRE(pte(&b, 1, 0, 0, false, 1, &(uint32_t){ 61 }) == OK);
	REQUIRE(pte(&b, 1, 0, 4, true, 1, &(uint32_t){ 64 }) == OK);
	CHECK(pte(&b, 9, 0, 0, false, 1, NULL) == SGPU_REFUSED_NO_CHANNEL);
	CHECK(pte(&b, 1, 0, 0, false, 0, NULL) == SGPU_REFUSED_MALFORMED);
	CHECK(pte(&b, 1, 0, 0, false, SGPU_CHANNEL_PAGES_MAX + 1, NULL) == SGPU_REFUSED_MALFORMED);
	CHECK(pte(&b, 1, 3, 0, false, 1, NULL) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, SGPU_CHANNEL_ENTRIES, false, 1, NULL) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, SGPU_CHANNEL_ENTRIES / RATIO, true, 1, NULL) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, SGPU_CHANNEL_ENTRIES - 1, false, 2, NULL) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 1, 0, false, 1, NULL) == SGPU_REFUSED_NO_TABLE);
	CHECK(pte(&b, 1, 0, 8, false, 2, over) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, 8, true, 1, &(uint32_t){ 41 }) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, 8, true, 1, &(uint32_t){ FRAMES }) == SGPU_REFUSED_RANGE);
	CHECK(pte(&b, 1, 0, 8, false, 1, &(uint32_t){ 60 }) == SGPU_REFUSED_FOREIGN);
	CHECK(pte(&b, 1, 0, 8, true, 1, &(uint32_t){ 60 }) == SGPU_REFUSED_FOREIGN);
	CHECK(pte(&b, 1, 0, 8, false, 1, &(uint32_t){ 31 }) == SGPU_REFUSED_FOREIGN);
	CHECK(pte(&b, 1, 0, 8, false, 1, &(uint32_t){ 12 }) == SGPU_REFUSED_NOT_FREE);
	CHECK(pte(&b, 1, 0, 8, false, 1, &(uint32_t){ 61 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 8, false, 1, &(uint32_t){ 65 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 8, false, 2, twice) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 17, false, 1, &(uint32_t){ 20 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 0, true, 1, &(uint32_t){ 40 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 0, false, 1, &(uint32_t){ 20 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 0, false, 2, some) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 8, false, 2, mixed) == SGPU_REFUSED_RANGE);
	CHECK(pte_authorised(&b, session, 1, 0, 0, false, 2, NULL) == SGPU_REFUSED_NOT_MAPPED);
	CHECK(pte(&b, 1, 0, 0, false, 1, &(uint32_t){ 61 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 1, 0, 0, false, 1, NULL) == SGPU_REFUSED_LOCKED);
	CHECK(pte(&b, 1, 0, 4, true, 1, NULL) == SGPU_REFUSED_LOCKED);
	CHECK(!frame(&b, 20).mapped && frame(&b, 12).entries == 1 && frame(&b, 13).entries == 1);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_page_goes_with_its_owners_word_and_is_cleared)
{
	const uint32_t pages[3] = { 20, 21, 22 }, other[1] = { 23 };
	const uint8_t secret[SMALL] = "a secret";
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(pte(&b, 1, 0, 0, false, 3, pages) == OK);
	REQUIRE(sgpu_processor_activate(b.processor, 1, NULL) == SGPU_OK);
	REQUIRE(fake_store(&b.fake, base_of(&b, 1), secret, SMALL));
	CHECK(pte_authorised(&b, session, 1, 0, 0, false, 2, NULL) == OK);
	CHECK(!frame(&b, 20).mapped && !frame(&b, 21).mapped && frame(&b, 22).mapped);
	CHECK(b.fake.cleared[20] == 1 && b.fake.cleared[22] == 0 && !b.fake.memory[20 * SMALL]);
	CHECK(b.reply.report.pages == 0 &&
	      sgpu_session_report(session, SGPU_CH_PTE, &b.reply.report, NULL) == SGPU_OK);
	/* Not one in place of another. */
	CHECK(pte_authorised(&b, session, 1, 0, 2, false, 1, other) == SGPU_REFUSED_ALIAS);
	CHECK(b.fake.cleared[22] == 0 && frame(&b, 22).mapped && frame(&b, 12).entries == 1);
	/* A refused command used no authorisation. */
	b.command.pte.pages = NULL;
	CHECK(say(&b, &b.command) == OK && frame(&b, 12).entries == 0);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(adjacent_pages_take_one_call_of_the_device)
{
	const uint32_t pages[8] = { 20, 31, 22, 33, 24, 35, 26, 37 };
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(pte(&b, 1, 0, 0, false, 8, pages) == OK);
	CHECK(b.fake.calls[FAKE_MAP] == 1 && b.fake.calls[FAKE_CLEAR] == 0);
	REQUIRE(pte_authorised(&b, session, 1, 0, 0, false, 8, NULL) == OK);
	CHECK(b.fake.calls[FAKE_CLEAR] == 1 && b.fake.calls[FAKE_UNMAP] == 1);
	REQUIRE(pte(&b, 1, 0, 0, false, 8, pages) == OK);
	REQUIRE(destroy(&b, 1, session) == OK);
	CHECK(b.fake.calls[FAKE_CLEAR] == 2 && b.fake.cleared[37] == 2);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(an_authorisation_is_for_one_range_and_one_time)
{
	const uint32_t pages[3] = { 20, 21, 22 };
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(pte(&b, 1, 0, 0, false, 3, pages) == OK);
	CHECK(pte_authorised(&b, session, 1, 0, 0, false, 1, NULL) == OK);
	/* Again, with what was used. */
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	/* For another entry, a longer range; the right one still works. */
	b.command.pte.mac_counter = 2;
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	sgpu_session_authorise(session, (const uint64_t[]){ SMALL, SMALL },
			       &b.command.pte.mac_counter, b.command.pte.mac);
	b.command.pte.table_index = 2;
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	b.command.pte.table_index = 1;
	b.command.pte.count = 2;
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	b.command.pte.count = 1;
	b.command.pte.mac[31] ^= 1;
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	b.command.pte.mac[31] ^= 1;
	CHECK(say(&b, &b.command) == OK);
	CHECK(frame(&b, 22).mapped && !frame(&b, 21).mapped);
	/* One that was left out makes the next one useless. */
	uint8_t lost[SGPU_CHANNEL_MAC_SIZE];
	uint64_t counter;
	sgpu_session_authorise(session, (const uint64_t[]){ 0, SMALL }, &counter, lost);
	CHECK(pte_authorised(&b, session, 1, 0, 2, false, 1, NULL) == SGPU_REFUSED_MAC);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_measurement_is_of_the_contents_and_for_the_owner_alone)
{
	const uint32_t pages[2] = { 21, 20 };
	const uint8_t text[2 * SMALL] = "what a page holds";
	uint8_t plain[SGPU_KT128_SIZE], keyed[SGPU_KT128_SIZE], masked[SGPU_KT128_SIZE];
	struct bench b;

	bench_open(&b);
	struct sgpu_session *session = open_channel(&b);
	REQUIRE(pte(&b, 1, 0, 1, false, 2, pages) == OK);
	REQUIRE(sgpu_processor_activate(b.processor, 1, NULL) == SGPU_OK);
	REQUIRE(fake_store(&b.fake, base_of(&b, 1) + SMALL, text, sizeof(text)));
	sgpu_measure_pages(text + 2, 100, NULL, plain);
	sgpu_measure_pages(text + 2, 100, session->keys->measure, keyed);
	for (int with = 0; with < 2; with++) {
		REQUIRE(measure(&b, 1, SMALL + 2, 100, with) == OK);
		memcpy(masked, b.reply.report.digest, sizeof(masked));
		CHECK(memcmp(masked, with ? keyed : plain, sizeof(masked)));
		b.reply.report.size++;
		CHECK(sgpu_session_report(session, SGPU_CH_MEASURE, &b.reply.report, NULL) ==
		      SGPU_EAUTH);
		b.reply.report.size--;
		CHECK(sgpu_session_report(session, SGPU_CH_MEASURE, &b.reply.report, NULL) ==
		      SGPU_OK);
		CHECK(!memcmp(b.reply.report.digest, with ? keyed : plain, sizeof(plain)));
		memcpy(b.reply.report.digest, masked, sizeof(masked));
		CHECK(sgpu_session_report(session, SGPU_CH_MEASURE, &b.reply.report, NULL) ==
		      SGPU_EAUTH);
	}
	CHECK(measure(&b, 1, 0, SMALL, false) == SGPU_REFUSED_NOT_MAPPED);
	CHECK(measure(&b, 1, SMALL, 2 * SMALL + 1, false) == SGPU_REFUSED_NOT_MAPPED);
	CHECK(measure(&b, 1, SMALL, 0, false) == SGPU_REFUSED_RANGE);
	CHECK(measure(&b, 1, SPACE, 1, false) == SGPU_REFUSED_RANGE);
	CHECK(measure(&b, 1, 1, UINT64_MAX, false) == SGPU_REFUSED_RANGE);
	CHECK(measure(&b, 7, SMALL, 1, false) == SGPU_REFUSED_NO_CHANNEL);
	/* The last bytes of the space. */
	CHECK(pde(&b, 1, 2, 60, false) == OK);
	CHECK(pte(&b, 1, 2, SGPU_CHANNEL_ENTRIES - 1, false, 1, &(uint32_t){ 61 }) == OK);
	CHECK(measure(&b, 1, SPACE - SMALL, SMALL, false) == OK);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_channel_goes_with_or_without_its_owners_word)
{
	const uint8_t secret[SMALL] = "a secret";
	struct bench b;

	bench_open(&b);
	for (int with = 0; with < 2; with++) {
		struct sgpu_session *session = open_channel(&b);

		REQUIRE(pte(&b, 1, 0, 0, false, 1, &(uint32_t){ 20 }) == OK);
		REQUIRE(pte(&b, 1, 0, 1, true, 1, &(uint32_t){ 40 }) == OK);
		REQUIRE(sgpu_processor_activate(b.processor, 1, NULL) == SGPU_OK);
		REQUIRE(fake_store(&b.fake, base_of(&b, 1), secret, SMALL));
		CHECK(destroy(&b, 1, with ? session : NULL) == OK);
		CHECK(!frame(&b, 11).mapped && !frame(&b, 12).mapped && !frame(&b, 20).mapped &&
		      !frame(&b, 43).mapped);
		CHECK(b.fake.memory[20 * SMALL] == 0 && b.fake.cleared[20] == with + 1u &&
		      b.fake.cleared[43] == with + 1u);
		CHECK(sound(&b));
		sgpu_session_close(&session);
	}
	struct sgpu_session *session = open_channel(&b);
	b.command = (struct sgpu_command){ .op = SGPU_CH_DESTROY,
					   .channel = 1,
					   .destroy = { .has_mac = true, .mac_counter = 1 } };
	CHECK(say(&b, &b.command) == SGPU_REFUSED_MAC);
	CHECK(destroy(&b, 1, session) == OK);
	CHECK(say(&b, &b.command) == SGPU_REFUSED_NO_CHANNEL);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_processor_needs_sizes_that_make_sense)
{
	struct fake_pager fake;
	struct sgpu_device *device;
	struct sgpu_processor *processor;
	struct sgpu_processor_config config = { .frames = 16 };

	device = fake_pager_init(&fake, 16, SMALL, RATIO);
	REQUIRE(sgpu_processor_create(device, &config, &processor, NULL) == SGPU_OK);
	sgpu_processor_free(&processor);
	config.frames = 17;
	CHECK(sgpu_processor_create(device, &config, &processor, NULL) == SGPU_EUSAGE &&
	      !processor);
	config.frames = 0;
	CHECK(sgpu_processor_create(device, &config, &processor, NULL) == SGPU_EUSAGE);
	fake.device.frames.big = SMALL * 3;
	config.frames = 16;
	CHECK(sgpu_processor_create(device, &config, &processor, NULL) == SGPU_EUSAGE);
	fake_pager_clear(&fake);
}

int main(void)
{
	UNIT_RUN(a_channel_is_refused);
	UNIT_RUN(no_serial_number_is_given_twice_even_at_the_last);
	UNIT_RUN(a_table_is_refused);
	UNIT_RUN(pages_are_mapped_and_reported);
	UNIT_RUN(pages_are_refused);
	UNIT_RUN(a_page_goes_with_its_owners_word_and_is_cleared);
	UNIT_RUN(adjacent_pages_take_one_call_of_the_device);
	UNIT_RUN(an_authorisation_is_for_one_range_and_one_time);
	UNIT_RUN(a_measurement_is_of_the_contents_and_for_the_owner_alone);
	UNIT_RUN(a_channel_goes_with_or_without_its_owners_word);
	UNIT_RUN(a_processor_needs_sizes_that_make_sense);
	return unit_done();
}
