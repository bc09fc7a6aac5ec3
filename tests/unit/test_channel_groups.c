/* SPDX-License-Identifier: Apache-2.0
 *
 * Sealed groups and their answers: their order, and what becomes of their items. Requests: which
 * context is reachable meanwhile. All of it from several threads.
 */
#include "channel/group.h"
#include "channel_check.h"

#include <pthread.h>
#include <stdatomic.h>

#include "channel_harness.h"

#define OK SGPU_REFUSED_NOT

/* A request: is the page at the beginning of the space ours, make it reachable, use it. */
static int request(struct bench *b, uint32_t channel)
{
	struct sgpu_device_range range = { 0, SMALL };
	uint8_t seen = 0;
	int rc = sgpu_processor_space(b->processor, channel, &range.address, NULL);

	if (rc == SGPU_OK) {
		rc = sgpu_processor_enter(b->processor, channel, &range, 1, NULL);
	}
	if (rc == SGPU_OK) {
		rc = fake_load(&b->fake, range.address, &seen, 1) ? SGPU_OK : SGPU_EDIFFERS;
		sgpu_processor_leave(b->processor);
	}
	return rc;
}

static enum sgpu_refusal seal_and_submit(struct bench *b, struct sgpu_session *session,
					 uint32_t channel, const char *items)
{
	uint8_t group[128];
	uint64_t counter;

	CHECK(sgpu_session_seal(session, items, strlen(items), group, &counter, NULL) == SGPU_OK);
	return submit(b, channel, group, strlen(items) + SGPU_TAG_SIZE, counter);
}

UNIT_TEST(a_group_arrives_once_and_in_order)
{
	struct bench b;
	uint8_t one[64], two[64], zero[SGPU_TAG_SIZE];
	uint64_t first, second;

	bench_open(&b);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	REQUIRE(sgpu_session_seal(session, "one", 3, one, &first, NULL) == SGPU_OK && first == 1);
	REQUIRE(sgpu_session_seal(session, "two", 3, two, &second, NULL) == SGPU_OK && second == 2);
	CHECK(submit(&b, 1, two, 3 + SGPU_TAG_SIZE, 2) == SGPU_REFUSED_COUNTER &&
	      b.reply.code == SGPU_EAUTH);
	CHECK(submit(&b, 1, two, 3 + SGPU_TAG_SIZE, 1) == SGPU_REFUSED_SEAL &&
	      b.reply.code == SGPU_EAUTH);
	one[0] ^= 1;
	CHECK(submit(&b, 1, one, 3 + SGPU_TAG_SIZE, 1) == SGPU_REFUSED_SEAL);
	one[0] ^= 1;
	CHECK(submit(&b, 1, one, 2 + SGPU_TAG_SIZE, 1) == SGPU_REFUSED_SEAL);
	CHECK(submit(&b, 1, one, 0, 1) == SGPU_REFUSED_MALFORMED);
	CHECK(submit(&b, 1, one, SGPU_GROUP_MAX + 1, 1) == SGPU_REFUSED_MALFORMED);
	CHECK(submit(&b, 2, one, 3 + SGPU_TAG_SIZE, 1) == SGPU_REFUSED_NO_CHANNEL);
	CHECK(b.items_size == 0);
	CHECK(submit(&b, 1, one, 3 + SGPU_TAG_SIZE, 1) == OK && b.items_size == 3 &&
	      !memcmp(b.items, "one", 3));
	CHECK(submit(&b, 1, one, 3 + SGPU_TAG_SIZE, 1) == SGPU_REFUSED_COUNTER);
	CHECK(submit(&b, 1, one, 3 + SGPU_TAG_SIZE, 2) == SGPU_REFUSED_SEAL);
	CHECK(submit(&b, 1, two, 3 + SGPU_TAG_SIZE, 2) == OK && !memcmp(b.items, "two", 3));
	REQUIRE(sgpu_session_seal(session, "", 0, zero, &first, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, zero, sizeof(zero), first) == OK && b.items_size == 0);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(a_group_is_for_its_own_channel_and_life)
{
	struct bench b;
	uint8_t group[64];
	uint64_t counter;

	bench_open(&b);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	struct sgpu_session *one = session_of(&b, &b.owner[0]);
	const uint32_t serial = b.reply.grant.serial;
	REQUIRE(create(&b, 2, 12, &b.owner[0]) == OK);
	struct sgpu_session *two = session_of(&b, &b.owner[0]);
	CHECK(b.reply.grant.serial != serial);
	REQUIRE(sgpu_session_seal(one, "one", 3, group, &counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 2, group, 3 + SGPU_TAG_SIZE, counter) == SGPU_REFUSED_SEAL);
	/* The channel's number comes again, its serial does not, although the context and its key
	 * are the same. */
	REQUIRE(destroy(&b, 1, NULL) == OK && create(&b, 1, 11, &b.owner[0]) == OK);
	CHECK(b.reply.grant.serial > serial);
	CHECK(submit(&b, 1, group, 3 + SGPU_TAG_SIZE, counter) == SGPU_REFUSED_SEAL);
	CHECK(b.items_size == 0);
	sgpu_session_close(&one);
	sgpu_session_close(&two);
	bench_close(&b);
}

UNIT_TEST(a_group_goes_to_nobody_as_a_command)
{
	struct bench b;

	bench_open(&b);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	uint8_t group[1 + SGPU_TAG_SIZE];
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.channel = 1,
					.submit = { .group = group, .size = sizeof(group) } };
	REQUIRE(sgpu_session_seal(session, "x", 1, group, &command.submit.counter, NULL) ==
		SGPU_OK);
	CHECK(say(&b, &command) == SGPU_REFUSED_MALFORMED && b.reply.code == SGPU_EINVALID);
	/* Its number is not used up by that. */
	CHECK(submit(&b, 1, group, sizeof(group), 1) == OK && b.items_size == 1 &&
	      b.items[0] == 'x');
	sgpu_session_close(&session);
	bench_close(&b);
}

/* Two contexts with a page each, at the same address. */
static void open_two(struct bench *b, struct sgpu_session *sessions[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		CHECK(create(b, i + 1, 11 + i, &b->owner[i]) == OK);
		sessions[i] = session_of(b, &b->owner[i]);
		CHECK(pde(b, i + 1, 0, 13 + i, false) == OK);
		CHECK(pte(b, i + 1, 0, 0, false, 1, &(uint32_t){ 20 + i }) == OK);
	}
}

UNIT_TEST(a_group_is_answered_once_under_its_number)
{
	struct bench b;
	uint8_t first[8 + SGPU_TAG_SIZE], second[8 + SGPU_TAG_SIZE],
		largest[SGPU_GROUP_MAX] = { 0 }, answer[8];
	uint64_t counter = 0;

	bench_open(&b);
	REQUIRE(create(&b, 1, 11, &b.owner[0]) == OK);
	struct sgpu_session *session = session_of(&b, &b.owner[0]);
	CHECK(sgpu_processor_answer(b.processor, 1, "answer 0", 8, first, &counter, NULL) ==
	      SGPU_EUSAGE);
	CHECK(seal_and_submit(&b, session, 1, "one") == OK);
	CHECK(sgpu_processor_answer(b.processor, 2, "answer 1", 8, first, &counter, NULL) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_processor_answer(b.processor, 1, first, SGPU_GROUP_MAX, first, &counter, NULL) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_processor_answer(b.processor, 1, "answer 1", 8, first, &counter, NULL) ==
		      SGPU_OK &&
	      counter == 1);
	CHECK(sgpu_processor_answer(b.processor, 1, "answer 1", 8, second, &counter, NULL) ==
	      SGPU_EUSAGE);
	CHECK(seal_and_submit(&b, session, 1, "two") == OK);
	CHECK(sgpu_processor_answer(b.processor, 1, "answer 2", 8, second, &counter, NULL) ==
		      SGPU_OK &&
	      counter == 2);
	/* Altered, cut, of another number, ahead. */
	second[0] ^= 1;
	CHECK(sgpu_session_answer(session, second, sizeof(second), 2, answer) == SGPU_EAUTH);
	second[0] ^= 1;
	CHECK(sgpu_session_answer(session, second, sizeof(second) - 1, 2, answer) == SGPU_EAUTH);
	CHECK(sgpu_session_answer(session, second, SGPU_TAG_SIZE - 1, 2, answer) == SGPU_EAUTH);
	CHECK(sgpu_session_answer(session, second, sizeof(second), 1, answer) == SGPU_EAUTH);
	CHECK(sgpu_session_answer(session, second, sizeof(second), 3, answer) == SGPU_EAUTH);
	CHECK(sgpu_session_answer(session, first, sizeof(first), 1, answer) == SGPU_OK &&
	      !memcmp(answer, "answer 1", 8));
	CHECK(sgpu_session_answer(session, first, sizeof(first), 1, answer) == SGPU_EAUTH);
	CHECK(sgpu_session_answer(session, second, sizeof(second), 2, answer) == SGPU_OK &&
	      !memcmp(answer, "answer 2", 8));
	CHECK(sgpu_session_seal(session, largest, sizeof(largest) - SGPU_TAG_SIZE, largest,
				&counter, NULL) == SGPU_OK);
	CHECK(submit(&b, 1, largest, sizeof(largest), counter) == OK);
	CHECK(sgpu_processor_answer(b.processor, 1, largest, sizeof(largest) - SGPU_TAG_SIZE,
				    largest, &counter, NULL) == SGPU_OK &&
	      counter == 3);
	CHECK(sgpu_session_answer(session, largest, sizeof(largest), 3, largest) == SGPU_OK);
	sgpu_session_close(&session);
	bench_close(&b);
}

UNIT_TEST(one_context_is_reachable_at_a_time_and_the_active_one_costs_nothing)
{
	struct bench b;
	struct sgpu_session *sessions[2];
	uint8_t seen;

	bench_open(&b);
	open_two(&b, sessions);
	CHECK(b.fake.calls[FAKE_ACCESS] == 0);
	CHECK(request(&b, 1) == SGPU_OK && b.fake.calls[FAKE_ACCESS] == 1);
	CHECK(request(&b, 1) == SGPU_OK && b.fake.calls[FAKE_ACCESS] == 1);
	CHECK(!fake_load(&b.fake, b.fake.spaces[1]->base, &seen, 1));
	CHECK(request(&b, 2) == SGPU_OK && b.fake.calls[FAKE_ACCESS] == 3);
	CHECK(!fake_load(&b.fake, b.fake.spaces[0]->base, &seen, 1) &&
	      fake_load(&b.fake, b.fake.spaces[1]->base, &seen, 1));
	/* Destroying the one that is not active, without its owner. */
	CHECK(destroy(&b, 1, NULL) == OK);
	CHECK(!fake_load(&b.fake, b.fake.spaces[1]->base, &seen, 1));
	CHECK(request(&b, 2) == SGPU_OK);
	for (int i = 0; i < 2; i++) {
		sgpu_session_close(&sessions[i]);
	}
	bench_close(&b);
}

UNIT_TEST(a_request_names_its_own_context_alone)
{
	struct bench b;
	struct sgpu_session *sessions[2];
	struct sgpu_error error = { 0 };
	uint8_t seen;

	bench_open(&b);
	open_two(&b, sessions);
	const struct sgpu_device_range ranges[3] = {
		{ b.fake.spaces[0]->base, SMALL },
		{ b.fake.spaces[1]->base, SMALL },
		{ b.fake.spaces[0]->base, SMALL + 1 },
	};
	CHECK(sgpu_processor_enter(b.processor, 1, ranges, 2, &error) == SGPU_EUSAGE);
	CHECK(strstr(error.text, "not of this context") != NULL);
	CHECK(sgpu_processor_enter(b.processor, 2, ranges, 2, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_processor_enter(b.processor, 1, &ranges[2], 1, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_processor_enter(b.processor, 3, ranges, 1, NULL) == SGPU_EUSAGE);
	CHECK(b.fake.calls[FAKE_ACCESS] == 0 && !b.fake.spaces[0]->reachable &&
	      !b.fake.spaces[1]->reachable);
	/* Nothing is left behind that a command would wait for. */
	CHECK(pte(&b, 1, 0, 1, false, 1, &(uint32_t){ 22 }) == OK);
	CHECK(sgpu_processor_enter(b.processor, 1, &ranges[2], 1, NULL) == SGPU_OK);
	CHECK(fake_load(&b.fake, ranges[0].address, &seen, 1));
	sgpu_processor_leave(b.processor);
	/* The device fails while it changes contexts: none is reachable, and the next request tries
	 * again. */
	CHECK(request(&b, 2) == SGPU_OK);
	b.fake.fail_in = 2;
	CHECK(sgpu_processor_enter(b.processor, 1, ranges, 1, NULL) < 0);
	CHECK(!b.fake.spaces[0]->reachable && !b.fake.spaces[1]->reachable);
	CHECK(request(&b, 1) == SGPU_OK && b.fake.spaces[0]->reachable);
	for (int i = 0; i < 2; i++) {
		sgpu_session_close(&sessions[i]);
	}
	bench_close(&b);
}

/* ---- threads ---- */
struct sender {
	struct bench *bench;
	struct sgpu_session *session;
	uint32_t channel, rounds;
	_Atomic uint32_t *bad;
};

static void *send_groups(void *argument)
{
	struct sender *s = argument;
	struct sgpu_reply *reply = calloc(1, sizeof(*reply));
	uint8_t group[1 + SGPU_TAG_SIZE], items[SGPU_GROUP_MAX];
	size_t size = 0;
	struct sgpu_command command = { .op = SGPU_CH_SUBMIT,
					.channel = s->channel,
					.submit = { .group = group, .size = sizeof(group) } };

	for (uint32_t i = 0; i < s->rounds; i++) {
		int rc =
			sgpu_session_seal(s->session, "n", 1, group, &command.submit.counter, NULL);

		*s->bad += rc != SGPU_OK ||
			   sgpu_processor_open_group(s->bench->processor, &command, items, &size,
						     reply) != SGPU_OK ||
			   size != 1 || items[0] != 'n';
		*s->bad += request(s->bench, s->channel) != SGPU_OK;
	}
	free(reply);
	return NULL;
}

/* The allocator meanwhile: pages come and go in a third context, and channels with them. */
static void *send_changes(void *argument)
{
	struct sender *s = argument;
	struct sgpu_reply *reply = calloc(1, sizeof(*reply));
	const uint32_t page = 30;

	for (uint32_t i = 0; i < s->rounds; i++) {
		struct sgpu_command command = create_command(s->channel, 29, &s->bench->owner[0]);

		*s->bad += sgpu_processor_command(s->bench->processor, &command, reply) != SGPU_OK;
		command = (struct sgpu_command){ .op = SGPU_CH_PDE,
						 .channel = s->channel,
						 .pde = { .table = 28 } };
		*s->bad += sgpu_processor_command(s->bench->processor, &command, reply) != SGPU_OK;
		command = (struct sgpu_command){ .op = SGPU_CH_PTE,
						 .channel = s->channel,
						 .pte = { .count = 1, .pages = &page } };
		*s->bad += sgpu_processor_command(s->bench->processor, &command, reply) != SGPU_OK;
		*s->bad += sgpu_processor_check(s->bench->processor, NULL) != SGPU_OK;
		command = (struct sgpu_command){ .op = SGPU_CH_DESTROY, .channel = s->channel };
		*s->bad += sgpu_processor_command(s->bench->processor, &command, reply) != SGPU_OK;
	}
	free(reply);
	return NULL;
}

UNIT_TEST(channels_submit_at_once_and_each_sees_its_own_context)
{
	struct bench b;
	struct sgpu_session *sessions[2], *streams[2];
	_Atomic uint32_t bad = 0;
	const uint32_t rounds = getenv("SGPU_TEST_SMALL") ? 50 : 500;
	pthread_t threads[5];

	bench_open(&b);
	open_two(&b, sessions);
	for (uint32_t i = 0; i < 2; i++) {
		REQUIRE(create(&b, i + 3, 40 + i, &b.owner[i]) == OK);
		streams[i] = session_of(&b, &b.owner[i]);
		REQUIRE(pde(&b, i + 3, 0, 42 + i, false) == OK);
		REQUIRE(pte(&b, i + 3, 0, 0, false, 1, &(uint32_t){ 24 + i }) == OK);
	}
	struct sender senders[5] = {
		{ &b, sessions[0], 1, rounds, &bad }, { &b, sessions[1], 2, rounds, &bad },
		{ &b, streams[0], 3, rounds, &bad },  { &b, streams[1], 4, rounds, &bad },
		{ &b, NULL, 9, rounds / 5, &bad },
	};
	for (int i = 0; i < 5; i++) {
		REQUIRE(!pthread_create(&threads[i], NULL, i < 4 ? send_groups : send_changes,
					&senders[i]));
	}
	for (int i = 0; i < 5; i++) {
		pthread_join(threads[i], NULL);
	}
	CHECK(bad == 0);
	for (int i = 0; i < 2; i++) {
		sgpu_session_close(&sessions[i]);
		sgpu_session_close(&streams[i]);
	}
	bench_close(&b);
}

int main(void)
{
	UNIT_RUN(a_group_arrives_once_and_in_order);
	UNIT_RUN(a_group_is_for_its_own_channel_and_life);
	UNIT_RUN(a_group_goes_to_nobody_as_a_command);
	UNIT_RUN(a_group_is_answered_once_under_its_number);
	UNIT_RUN(one_context_is_reachable_at_a_time_and_the_active_one_costs_nothing);
	UNIT_RUN(a_request_names_its_own_context_alone);
	UNIT_RUN(channels_submit_at_once_and_each_sees_its_own_context);
	return unit_done();
}
