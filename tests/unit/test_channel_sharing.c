/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels of one context: what they share is counted and stays until the last one goes. And a
 * device that fails at every possible moment: what was refused has changed nothing.
 */
#include "channel_check.h"

#include "channel_harness.h"

#define OK SGPU_REFUSED_NOT
static const uint32_t none[4] = { SGPU_NO_FRAME, SGPU_NO_FRAME, SGPU_NO_FRAME, SGPU_NO_FRAME };

/* Channels 1 and 2 of one owner; the first has tables in frames 13 and 14, and pages 20 to 22 at
 * entries 0 to 2. */
static void open_both(struct bench *b, struct sgpu_session *sessions[2])
{
	const uint32_t pages[3] = { 20, 21, 22 };

	for (uint32_t i = 0; i < 2; i++) {
		CHECK(create(b, i + 1, 11 + i, &b->owner[0]) == OK);
		sessions[i] = session_of(b, &b->owner[0]);
	}
	CHECK(pde(b, 1, 0, 13, false) == OK && pde(b, 1, 0, 14, true) == OK);
	CHECK(pte(b, 1, 0, 0, false, 3, pages) == OK);
}

static void close_both(struct bench *b, struct sgpu_session *sessions[2])
{
	sgpu_session_close(&sessions[0]);
	sgpu_session_close(&sessions[1]);
	bench_close(b);
}

UNIT_TEST(a_table_is_shared_and_outlives_its_first_channel)
{
	struct bench b;
	struct sgpu_session *sessions[2];

	bench_open(&b, true);
	open_both(&b, sessions);
	REQUIRE(pde(&b, 2, 0, 13, false) == OK);
	CHECK(frame(&b, 13).references == 2 && frame(&b, 20).references == 1);
	CHECK(measure(&b, 2, 0, 3 * SMALL, true) == OK);
	CHECK(pde(&b, 2, 0, SGPU_NO_FRAME, false) == SGPU_REFUSED_LOCKED);
	CHECK(destroy(&b, 1, sessions[0]) == OK && sound(&b));
	CHECK(frame(&b, 13).references == 1 && frame(&b, 13).owner == 2 &&
	      frame(&b, 20).owner == 2);
	CHECK(frame(&b, 20).mapped && b.fake.cleared[20] == 0 && !frame(&b, 14).mapped);
	/* Another context that gets the number 1 does not get the pages. */
	REQUIRE(create(&b, 1, 15, &b.owner[1]) == OK && pde(&b, 1, 0, 16, false) == OK);
	CHECK(pte(&b, 1, 0, 0, false, 1, &(uint32_t){ 20 }) == SGPU_REFUSED_FOREIGN);
	CHECK(pde(&b, 1, 0, 13, false) == SGPU_REFUSED_FOREIGN);
	CHECK(pte_authorised(&b, sessions[1], 2, 0, 0, false, 3, none) == OK &&
	      !frame(&b, 20).mapped);
	close_both(&b, sessions);
}

UNIT_TEST(a_page_in_two_tables_is_mapped_once_and_goes_with_the_last)
{
	const uint32_t pages[3] = { 20, 21, 22 }, moved[1] = { 21 }, other[1] = { 23 };
	struct bench b;
	struct sgpu_session *sessions[2];

	bench_open(&b, true);
	open_both(&b, sessions);
	const uint32_t maps = b.fake.calls[FAKE_MAP];
	REQUIRE(pde(&b, 2, 0, 15, false) == OK);
	CHECK(pte(&b, 2, 0, 0, false, 1, moved) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 2, 0, 0, false, 1, other) == SGPU_REFUSED_ALIAS);
	REQUIRE(pte(&b, 2, 0, 0, false, 3, pages) == OK);
	CHECK(b.reply.summary.pages == 3 &&
	      sgpu_session_summary(sessions[1], &b.reply.summary, NULL) == SGPU_OK);
	CHECK(b.fake.calls[FAKE_MAP] == maps && frame(&b, 20).references == 2 &&
	      frame(&b, 20).owner == 1);
	CHECK(measure(&b, 2, 0, 3 * SMALL, false) == OK);
	CHECK(pte_authorised(&b, sessions[0], 1, 0, 0, false, 2, none) == OK);
	CHECK(b.fake.calls[FAKE_UNMAP] == 0 && b.fake.cleared[20] == 0 &&
	      frame(&b, 20).references == 1);
	CHECK(measure(&b, 1, 0, SMALL, false) == SGPU_REFUSED_NOT_MAPPED &&
	      measure(&b, 2, 0, SMALL, false) == OK);
	CHECK(sound(&b));
	/* The first channel owned what only the second has now. */
	CHECK(destroy(&b, 1, NULL) == OK && frame(&b, 20).owner == 2 &&
	      frame(&b, 22).references == 1 && sound(&b));
	CHECK(pte_authorised(&b, sessions[1], 2, 0, 0, false, 1, none) == OK &&
	      b.fake.cleared[20] == 1);
	CHECK(destroy(&b, 2, sessions[1]) == OK && b.fake.cleared[22] == 1 && !b.fake.spaces[0]);
	close_both(&b, sessions);
}

UNIT_TEST(one_page_in_place_of_another_only_where_nobody_else_has_it)
{
	const uint32_t page[1] = { 20 }, other[1] = { 23 };
	struct bench b;
	struct sgpu_session *sessions[2];

	bench_open(&b, true);
	open_both(&b, sessions);
	REQUIRE(pde(&b, 2, 0, 15, false) == OK && pte(&b, 2, 0, 0, false, 1, page) == OK);
	CHECK(pte_authorised(&b, sessions[0], 1, 0, 0, false, 1, other) == SGPU_REFUSED_ALIAS);
	CHECK(frame(&b, 20).references == 2);
	/* A refused command used no authorisation. */
	b.command.pte.pages = none;
	CHECK(say(&b, &b.command) == OK);
	CHECK(pte_authorised(&b, sessions[1], 2, 0, 0, false, 1, other) == OK &&
	      b.fake.cleared[20] == 1);
	close_both(&b, sessions);
}

UNIT_TEST(no_empty_page_takes_the_place_of_one_that_was_taken_by_force)
{
	const uint32_t page[1] = { 21 };
	struct bench b;
	struct sgpu_session *sessions[2], *third;
	sgpu_devptr base;
	uint64_t space;

	bench_open(&b, true);
	open_both(&b, sessions);
	REQUIRE(sgpu_processor_space(b.processor, 2, &base, &space, NULL) == SGPU_OK);
	REQUIRE(pte(&b, 1, 0, 2, true, 1, &(uint32_t){ 40 }) == OK);
	REQUIRE(pde(&b, 2, 0, 15, false) == OK && pde(&b, 2, 0, 16, true) == OK);
	REQUIRE(pte(&b, 2, 0, 1, false, 1, page) == OK);
	REQUIRE(destroy(&b, 1, NULL) == OK && sound(&b));
	CHECK(sgpu_processor_reaches(b.processor, 2, base + SMALL, SMALL));
	CHECK(!sgpu_processor_reaches(b.processor, 2, base, 1) &&
	      !sgpu_processor_reaches(b.processor, 2, base + 2 * BIG, 1));
	CHECK(pte(&b, 2, 0, 0, false, 1, &(uint32_t){ 30 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 2, 0, 2, true, 1, &(uint32_t){ 44 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 2, 0, 2 * RATIO, false, 1, &(uint32_t){ 30 }) == SGPU_REFUSED_ALIAS);
	CHECK(pte(&b, 2, 0, 0, true, 1, &(uint32_t){ 44 }) == SGPU_REFUSED_ALIAS);
	/* The pages themselves are free, elsewhere and for others. */
	CHECK(pte(&b, 2, 0, 5, false, 1, &(uint32_t){ 20 }) == OK &&
	      pte(&b, 2, 0, 5, true, 1, &(uint32_t){ 40 }) == OK);
	/* With the owner's word the addresses are free as well. */
	REQUIRE(create(&b, 3, 50, &b.owner[0]) == OK);
	third = session_of(&b, &b.owner[0]);
	REQUIRE(destroy(&b, 2, sessions[1]) == OK && pde(&b, 3, 0, 51, false) == OK);
	CHECK(pte(&b, 3, 0, 5, false, 1, &(uint32_t){ 30 }) == OK);
	CHECK(pte(&b, 3, 0, 0, false, 1, &(uint32_t){ 31 }) == SGPU_REFUSED_ALIAS);
	sgpu_session_close(&third);
	close_both(&b, sessions);
}

UNIT_TEST(a_context_ends_with_its_last_channel_and_its_key_with_it)
{
	struct bench b;
	struct sgpu_session *sessions[2], *again;
	uint8_t group[64];
	uint64_t counter;

	bench_open(&b, true);
	open_both(&b, sessions);
	REQUIRE(destroy(&b, 1, NULL) == OK && destroy(&b, 2, NULL) == OK);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	again = session_of(&b, &b.owner[0]);
	REQUIRE(sgpu_session_seal(sessions[0], "", 0, group, &counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, group, SGPU_TAG_SIZE, counter) == SGPU_REFUSED_SEAL);
	REQUIRE(sgpu_session_seal(again, "", 0, group, &counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, group, SGPU_TAG_SIZE, counter) == OK);
	sgpu_session_close(&again);
	close_both(&b, sessions);
}

/* ---- failures ---- */
struct state {
	struct sgpu_frame frames[FRAMES];
	int mapped[FRAMES];
};

static void remember(struct bench *b, struct state *state)
{
	memset(state, 0, sizeof(*state));
	for (uint32_t f = 0; f < FRAMES; f++) {
		state->frames[f] = frame(b, f);
		state->mapped[f] = b->fake.mapped[f];
	}
}

static bool is_same(const struct state *a, const struct state *b)
{
	for (uint32_t f = 0; f < FRAMES; f++) {
		const struct sgpu_frame *x = &a->frames[f], *y = &b->frames[f];

		if (x->mapped != y->mapped || x->locked != y->locked || x->big != y->big ||
		    x->use != y->use || x->owner != y->owner || x->references != y->references ||
		    x->entries != y->entries || x->va != y->va || a->mapped[f] != b->mapped[f]) {
			printf("# frame %u has changed\n", f);
			return false;
		}
	}
	return true;
}

/* One command with some of everything: pages that come, go, stay, take another's place. */
static enum sgpu_refusal change_all(struct bench *b, struct sgpu_session *session)
{
	static const uint32_t pages[8] = { 20, 30, SGPU_NO_FRAME, 31, 32, SGPU_NO_FRAME, 3, 34 };

	return pte_authorised(b, session, 1, 0, 0, false, 8, pages);
}

static enum sgpu_refusal map_big(struct bench *b, struct sgpu_session *session)
{
	static const uint32_t pages[2] = { 40, 44 };

	(void)session;
	return pte(b, 1, 0, 4, true, 2, pages);
}

static enum sgpu_refusal destroy_first(struct bench *b, struct sgpu_session *session)
{
	(void)session;
	return destroy(b, 1, NULL);
}

static enum sgpu_refusal create_other(struct bench *b, struct sgpu_session *session)
{
	(void)session;
	return create(b, 3, 50, &b->owner[1]);
}

static enum sgpu_refusal measure_first(struct bench *b, struct sgpu_session *session)
{
	(void)session;
	return measure(b, 1, 0, 2 * SMALL, true);
}

/* Fails at the first, second, third call of the device, until it is through. */
static void fail_everywhere(enum sgpu_refusal (*command)(struct bench *, struct sgpu_session *),
			    bool fresh, bool both)
{
	uint32_t n = 0;
	enum sgpu_refusal refusal = SGPU_REFUSED_DEVICE;

	while (refusal == SGPU_REFUSED_DEVICE && ++n < 50) {
		struct bench b;
		struct sgpu_session *sessions[2];
		struct state before, after;

		bench_open(&b, fresh);
		open_both(&b, sessions);
		if (both) {
			CHECK(pde(&b, 2, 0, 15, false) == OK &&
			      pte(&b, 2, 0, 1, false, 1, &(uint32_t){ 21 }) == OK);
		} else {
			CHECK(destroy(&b, 2, NULL) == OK);
		}
		CHECK(pte(&b, 1, 0, 10, false, 1, &(uint32_t){ 25 }) == OK);
		remember(&b, &before);
		b.fake.fail_in = n;
		refusal = command(&b, sessions[0]);
		remember(&b, &after);
		if (refusal == SGPU_REFUSED_DEVICE) {
			CHECK(b.reply.code == SGPU_EDEVICE &&
			      strstr(b.reply.error.text, "on purpose"));
			/* The host's window on a frame that was to be mapped may be closed. */
			after.mapped[3] = before.mapped[3];
			CHECK(is_same(&before, &after));
			b.fake.fail_in = 0;
			CHECK(sound(&b));
			/* The same bytes again: the number of an authorisation was not used. */
			CHECK(say(&b, &b.command) == OK);
		} else {
			CHECK(refusal == OK);
		}
		b.fake.fail_in = 0;
		close_both(&b, sessions);
	}
	CHECK(n > 1 && n < 50);
}

UNIT_TEST(a_device_that_fails_once_changes_nothing)
{
	for (int fresh = 0; fresh < 2; fresh++) {
		for (int both = 0; both < 2; both++) {
			if (!both) {
				fail_everywhere(change_all, fresh, both);
			}
			fail_everywhere(map_big, fresh, both);
			fail_everywhere(destroy_first, fresh, both);
			fail_everywhere(create_other, fresh, both);
		}
		fail_everywhere(measure_first, fresh, true);
	}
}

UNIT_TEST(what_a_dead_device_does_not_give_back_nobody_gets)
{
	for (uint32_t n = 1; n < 12; n++) {
		struct bench b;
		struct sgpu_session *sessions[2];

		bench_open(&b, true);
		open_both(&b, sessions);
		b.fake.fail_in = n;
		b.fake.fail_on = true;
		(void)change_all(&b, sessions[0]);
		b.fake.fail_in = 0;
		/* A frame that is still in the context's space is not free for another. */
		REQUIRE(create(&b, 3, 50, &b.owner[1]) == OK && pde(&b, 3, 0, 51, false) == OK);
		for (uint32_t f = 20; f < 40; f++) {
			if (b.fake.mapped[f] != FAKE_NONE) {
				CHECK(pte(&b, 3, 0, f, false, 1, &f) != OK);
			}
		}
		CHECK(b.fake.faults == 0);
		sgpu_session_close(&sessions[0]);
		sgpu_session_close(&sessions[1]);
		sgpu_processor_free(&b.processor);
		fake_pager_clear(&b.fake);
	}
}

/* Alice has left what was in her pages; none of it may be seen by Bob, though his pages are not
 * cleared when the device fails at the wrong moment and cannot be taken back either. */
UNIT_TEST(a_context_is_shut_when_a_page_stays_in_it_uncleared)
{
	const uint32_t page = 24;
	int shut = 0;

	for (uint32_t n = 1; n < 8; n++) {
		struct sgpu_session *sessions[2];
		struct bench b;

		bench_open(&b, false);
		open_both(&b, sessions);
		REQUIRE(create(&b, 3, 50, &b.owner[1]) == OK && pde(&b, 3, 0, 51, false) == OK);
		memset(b.fake.memory + page * SMALL, 0xa5, SMALL);
		b.fake.fail_in = n;
		b.fake.fail_on = true;
		const bool mapped = pte(&b, 3, 0, 0, false, 1, &page) == OK;
		b.fake.fail_in = 0;
		b.fake.fail_on = false;
		const bool exposed = !mapped && b.fake.mapped[page] != FAKE_NONE;
		CHECK((sgpu_processor_activate(b.processor, 3, NULL) == SGPU_OK) == !exposed);
		CHECK(sgpu_processor_activate(b.processor, 1, NULL) == SGPU_OK);
		shut += exposed;
		CHECK(destroy(&b, 3, NULL) == OK && sound(&b));
		CHECK(create(&b, 3, 50, &b.owner[1]) == OK &&
		      sgpu_processor_activate(b.processor, 3, NULL) == SGPU_OK);
		close_both(&b, sessions);
	}
	CHECK(shut == 1);
}

/* After a failure and a failed undoing the device lacks pages that stand in tables. It is asked for
 * none of them. */
UNIT_TEST(a_missing_page_is_only_taken_out)
{
	static enum sgpu_refusal (*const actions[])(
		struct bench *, struct sgpu_session *) = { change_all, destroy_first };
	int missing = 0;

	for (uint32_t n = 0; n < 24; n++) {
		const bool both = n % 2;
		struct sgpu_session *sessions[2];
		struct bench b;

		bench_open(&b, true);
		open_both(&b, sessions);
		CHECK(!both || map_big(&b, sessions[0]) == OK);
		b.fake.fail_in = 1 + n / 2;
		b.fake.fail_on = true;
		(void)actions[both](&b, sessions[0]);
		b.fake.fail_in = 0;
		b.fake.fail_on = false;
		for (uint32_t channel = 1; channel < 3; channel++) {
			for (uint64_t va = 0; va < 16 * SMALL; va += SMALL) {
				const enum sgpu_refusal refusal =
					measure(&b, channel, va, SMALL, false);

				CHECK(refusal == OK || refusal == SGPU_REFUSED_NOT_MAPPED ||
				      refusal == SGPU_REFUSED_NO_CHANNEL);
			}
		}
		for (uint32_t f = 16; f < 48; f++) {
			const struct sgpu_frame about = frame(&b, f);

			if (about.mapped && about.use == SGPU_FRAME_DATA &&
			    b.fake.mapped[f] == FAKE_NONE) {
				missing++;
				CHECK(measure(&b, about.owner, about.va, SMALL, false) ==
				      SGPU_REFUSED_NOT_MAPPED);
				CHECK(pte(&b, about.owner, 0, (uint32_t)(about.va / SMALL), false,
					  1, &f) == SGPU_REFUSED_DEVICE);
			}
		}
		CHECK(sound(&b));
		CHECK(destroy(&b, 2, NULL) == OK);
		if (measure(&b, 1, 0, 0, false) != SGPU_REFUSED_NO_CHANNEL) {
			CHECK(destroy(&b, 1, NULL) == OK);
		}
		CHECK(b.fake.faults == 0 && sgpu_processor_check(b.processor, NULL) == SGPU_OK);
		sgpu_session_close(&sessions[0]);
		sgpu_session_close(&sessions[1]);
		sgpu_processor_free(&b.processor);
		CHECK(b.fake.faults == 0);
		fake_pager_clear(&b.fake);
	}
	CHECK(missing > 2);
}

int main(void)
{
	UNIT_RUN(a_table_is_shared_and_outlives_its_first_channel);
	UNIT_RUN(a_page_in_two_tables_is_mapped_once_and_goes_with_the_last);
	UNIT_RUN(one_page_in_place_of_another_only_where_nobody_else_has_it);
	UNIT_RUN(no_empty_page_takes_the_place_of_one_that_was_taken_by_force);
	UNIT_RUN(a_context_ends_with_its_last_channel_and_its_key_with_it);
	UNIT_RUN(a_device_that_fails_once_changes_nothing);
	UNIT_RUN(what_a_dead_device_does_not_give_back_nobody_gets);
	UNIT_RUN(a_context_is_shut_when_a_page_stays_in_it_uncleared);
	UNIT_RUN(a_missing_page_is_only_taken_out);
	return unit_done();
}
