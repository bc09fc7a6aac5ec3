/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that fails at every possible moment: what was refused has changed nothing.
 */
#include "channel_check.h"

#include "channel_harness.h"

#define OK SGPU_REFUSED_NOT

/* Channel 1 has tables in frames 13 and 14, and pages 20 to 22 at entries 0 to 2. */
static struct sgpu_session *open_first(struct bench *b)
{
	const uint32_t pages[3] = { 20, 21, 22 };
	struct sgpu_session *session;

	CHECK(create(b, 1, 11, &b->owner[0]) == OK);
	session = session_of(b, &b->owner[0]);
	CHECK(pde(b, 1, 0, 13, false) == OK && pde(b, 1, 0, 14, true) == OK);
	CHECK(pte(b, 1, 0, 0, false, 3, pages) == OK);
	return session;
}

UNIT_TEST(a_context_ends_with_its_channel_and_its_key_with_it)
{
	struct bench b;
	struct sgpu_session *first, *again;
	uint8_t group[64];
	uint64_t counter;

	bench_open(&b);
	first = open_first(&b);
	REQUIRE(destroy(&b, 1, NULL) == OK && b.fake.cleared[20] == 1 && !b.fake.spaces[0]);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	again = session_of(&b, &b.owner[0]);
	REQUIRE(sgpu_session_seal(first, "", 0, group, &counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, group, SGPU_TAG_SIZE, counter) == SGPU_REFUSED_SEAL);
	REQUIRE(sgpu_session_seal(again, "", 0, group, &counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, group, SGPU_TAG_SIZE, counter) == OK);
	sgpu_session_close(&again);
	sgpu_session_close(&first);
	bench_close(&b);
}

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

		if (x->mapped != y->mapped || x->big != y->big || x->use != y->use ||
		    x->owner != y->owner || x->entries != y->entries || x->va != y->va ||
		    a->mapped[f] != b->mapped[f]) {
			printf("# frame %u has changed\n", f);
			return false;
		}
	}
	return true;
}

static enum sgpu_refusal map_small(struct bench *b, struct sgpu_session *session)
{
	static const uint32_t pages[4] = { 30, 31, 3, 34 };

	(void)session;
	return pte(b, 1, 0, 4, false, 4, pages);
}

static enum sgpu_refusal unmap_all(struct bench *b, struct sgpu_session *session)
{
	return pte_authorised(b, session, 1, 0, 0, false, 3, NULL);
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
static void fail_everywhere(enum sgpu_refusal (*command)(struct bench *, struct sgpu_session *))
{
	uint32_t n = 0;
	enum sgpu_refusal refusal = SGPU_REFUSED_DEVICE;

	while (refusal == SGPU_REFUSED_DEVICE && ++n < 50) {
		struct bench b;
		struct sgpu_session *session;
		struct state before, after;

		bench_open(&b);
		session = open_first(&b);
		CHECK(pte(&b, 1, 0, 10, false, 1, &(uint32_t){ 25 }) == OK);
		remember(&b, &before);
		b.fake.fail_in = n;
		refusal = command(&b, session);
		remember(&b, &after);
		if (refusal == SGPU_REFUSED_DEVICE) {
			CHECK(b.reply.code == SGPU_EDEVICE &&
			      strstr(b.reply.error.text, "on purpose"));
			CHECK(is_same(&before, &after));
			b.fake.fail_in = 0;
			CHECK(sound(&b));
			/* The same bytes again: the number of an authorisation was not used. */
			CHECK(say(&b, &b.command) == OK);
		} else {
			CHECK(refusal == OK);
		}
		b.fake.fail_in = 0;
		sgpu_session_close(&session);
		bench_close(&b);
	}
	CHECK(n > 1 && n < 50);
}

UNIT_TEST(a_device_that_fails_once_changes_nothing)
{
	fail_everywhere(map_small);
	fail_everywhere(unmap_all);
	fail_everywhere(map_big);
	fail_everywhere(destroy_first);
	fail_everywhere(create_other);
	fail_everywhere(measure_first);
}

UNIT_TEST(what_a_dead_device_does_not_give_back_nobody_gets)
{
	for (uint32_t n = 1; n < 12; n++) {
		struct bench b;
		struct sgpu_session *session;

		bench_open(&b);
		session = open_first(&b);
		b.fake.fail_in = n;
		b.fake.fail_on = true;
		(void)(n % 2 ? map_small(&b, session) : destroy(&b, 1, NULL));
		b.fake.fail_in = 0;
		b.fake.fail_on = false;
		/* A frame that is still in the context's space is not free for another. */
		REQUIRE(create(&b, 3, 50, &b.owner[1]) == OK && pde(&b, 3, 0, 51, false) == OK);
		for (uint32_t f = 20; f < 40; f++) {
			if (b.fake.mapped[f] != FAKE_NONE) {
				CHECK(pte(&b, 3, 0, f, false, 1, &f) != OK);
			}
		}
		CHECK(b.fake.faults == 0);
		sgpu_session_close(&session);
		sgpu_processor_free(&b.processor);
		fake_pager_clear(&b.fake);
	}
}

UNIT_TEST(a_processor_ends_each_channel_once_though_the_device_fails)
{
	struct sgpu_session *session;
	struct bench b;
	uint32_t before;

	bench_open(&b);
	session = open_first(&b);
	CHECK(create(&b, 3, 50, &b.owner[1]) == OK);
	CHECK(measure_first(&b, session) == OK); /* its context is the active one */
	sgpu_session_close(&session);
	b.fake.fail_in = 1;
	b.fake.fail_on = true;
	before = b.fake.calls[FAKE_ACCESS];
	sgpu_processor_free(&b.processor);
	CHECK(b.fake.calls[FAKE_ACCESS] == before + 1);
	fake_pager_clear(&b.fake);
}

int main(void)
{
	UNIT_RUN(a_context_ends_with_its_channel_and_its_key_with_it);
	UNIT_RUN(a_device_that_fails_once_changes_nothing);
	UNIT_RUN(what_a_dead_device_does_not_give_back_nobody_gets);
	UNIT_RUN(a_processor_ends_each_channel_once_though_the_device_fails);
	return unit_done();
}
