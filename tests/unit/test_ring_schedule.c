/* SPDX-License-Identifier: Apache-2.0
 *
 * Fences, drains, batches and cancellation, without shared memory.
 */
#include <sgpu/base.h>

#include "ring/schedule.h"
#include "unit.h"

enum { ROOM = 64, OP = 16, POSTS = 4096 };

static struct {
	struct {
		uint64_t cookie, value;
		int status;
	} done[POSTS];
	int count;
	struct sgpu_ring_descriptor area[SGPU_RING_BATCH_MAX];
	int read_result, post_result;
} host;

static struct sgpu_schedule *s;
static struct sgpu_error error;
static const uint8_t members[SGPU_RING_OPCODES] = { [OP] = SGPU_RING_KNOWN | SGPU_RING_ARGUMENT };

static int post(void *context, uint64_t cookie, int status, uint64_t value, struct sgpu_error *e)
{
	(void)context;
	(void)e;
	if (host.count < POSTS) {
		host.done[host.count].cookie = cookie;
		host.done[host.count].status = status;
		host.done[host.count].value = value;
	}
	host.count++;
	return host.post_result;
}

static int read_area(void *context, uint64_t handle, uint64_t offset, void *data, size_t size,
		     struct sgpu_error *e)
{
	(void)context;
	(void)e;
	CHECK(handle == 5 && offset == 0 && size <= sizeof(host.area));
	memcpy(data, host.area, size);
	return host.read_result;
}

static bool set_up(void)
{
	const struct sgpu_schedule_config config = {
		.submissions = ROOM, .members = members, .post = post, .read = read_area
	};

	sgpu_schedule_free(&s);
	memset(&host, 0, sizeof(host));
	return sgpu_schedule_create(&config, &s, &error) == SGPU_OK;
}

static void add(uint8_t opcode, uint8_t flags, uint64_t cookie, uint64_t argument)
{
	const struct sgpu_ring_descriptor d = { .opcode = opcode,
						.flags = flags,
						.cookie = cookie,
						.argument = argument,
						.client = 9 };

	CHECK(sgpu_schedule_add(s, &d, &error) == SGPU_OK);
}

static void add_batch(uint64_t count, uint8_t flags, uint64_t cookie)
{
	const struct sgpu_ring_descriptor d = { .opcode = SGPU_RING_BATCH,
						.flags = flags,
						.cookie = cookie,
						.handle = 5,
						.length = count * SGPU_RING_DESCRIPTOR_SIZE,
						.client = 9 };

	CHECK(sgpu_schedule_add(s, &d, &error) == SGPU_OK);
}

/* `count` members, with the arguments 100, 101 and so on. */
static void fill_area(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		host.area[i] = (struct sgpu_ring_descriptor){ .opcode = OP, .argument = 100 + i };
	}
}

static struct sgpu_ring_operation operation;

static enum sgpu_ring_event next(void)
{
	enum sgpu_ring_event event = SGPU_RING_BUSY;

	CHECK(sgpu_schedule_next(s, &operation, &event, &error) == SGPU_OK);
	return event;
}

/* The next operation starts, and is the one with this argument. */
static uint32_t start(uint64_t argument)
{
	CHECK(next() == SGPU_RING_START);
	CHECK(operation.descriptor.argument == argument && operation.descriptor.client == 9);
	return operation.ticket;
}

static void finish(uint32_t ticket, int status)
{
	CHECK(sgpu_schedule_finish(s, ticket, status, 7, &error) == SGPU_OK);
}

static bool completed(int index, uint64_t cookie, int status, uint64_t value)
{
	return host.count > index && host.done[index].cookie == cookie &&
	       host.done[index].status == status && host.done[index].value == value;
}

UNIT_TEST(operations_start_in_order_and_end_in_any)
{
	uint32_t a, b;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	add(OP, 0, 2, 20);
	a = start(10);
	b = start(20);
	CHECK(next() == SGPU_RING_IDLE && sgpu_schedule_outstanding(s) == 2);
	finish(b, SGPU_EDEVICE);
	finish(a, SGPU_OK);
	CHECK(completed(0, 2, SGPU_EDEVICE, 7) && completed(1, 1, SGPU_OK, 7) && host.count == 2);
	CHECK(sgpu_schedule_outstanding(s) == 0);
	CHECK(sgpu_schedule_finish(s, a, SGPU_OK, 0, &error) == SGPU_EUSAGE);
	CHECK(sgpu_schedule_finish(s, 1u << 31, SGPU_OK, 0, &error) == SGPU_EUSAGE);
}

UNIT_TEST(a_status_that_cannot_be_is_refused_and_changes_nothing)
{
	uint32_t a;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	a = start(10);
	CHECK(sgpu_schedule_finish(s, a, 1, 0, &error) == SGPU_EUSAGE);
	CHECK(sgpu_schedule_finish(s, a, -256, 0, &error) == SGPU_EUSAGE);
	finish(a, SGPU_OK);
	CHECK(host.count == 1);
}

UNIT_TEST(a_fence_holds_back_itself_and_what_follows)
{
	uint32_t a, b, c, d;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	add(OP, 0, 2, 20);
	add(OP, SGPU_RING_FENCE, 3, 30);
	add(OP, 0, 4, 40);
	a = start(10);
	b = start(20);
	CHECK(next() == SGPU_RING_IDLE);
	finish(a, SGPU_OK);
	CHECK(next() == SGPU_RING_IDLE);
	finish(b, SGPU_OK);
	c = start(30);
	d = start(40); /* it waits for the fence to start, not to end */
	finish(d, SGPU_OK);
	finish(c, SGPU_OK);
	CHECK(host.count == 4);
	/* With nothing before it, it holds back nothing. */
	add(OP, SGPU_RING_FENCE, 5, 50);
	finish(start(50), SGPU_OK);
	/* An empty fence is one. */
	add(OP, 0, 6, 60);
	add(SGPU_RING_NOP, SGPU_RING_FENCE, 7, 0);
	a = start(60);
	CHECK(next() == SGPU_RING_IDLE && host.count == 5);
	finish(a, SGPU_OK);
	CHECK(next() == SGPU_RING_IDLE && completed(6, 7, SGPU_OK, 0));
}

UNIT_TEST(a_drain_completes_after_what_came_before_and_holds_back_nothing)
{
	uint32_t a, b;

	REQUIRE(set_up());
	add(SGPU_RING_DRAIN, 0, 1, 0);
	CHECK(completed(0, 1, SGPU_OK, 0));
	add(OP, 0, 2, 20);
	add(SGPU_RING_DRAIN, 0, 3, 0);
	add(SGPU_RING_DRAIN, 0, 4, 0);
	add(OP, 0, 5, 50);
	a = start(20);
	b = start(50);
	finish(b, SGPU_OK);
	CHECK(host.count == 2 && completed(1, 5, SGPU_OK, 7));
	finish(a, SGPU_OK);
	CHECK(host.count == 5 && completed(3, 3, SGPU_OK, 0) && completed(4, 4, SGPU_OK, 0));
}

UNIT_TEST(a_batch_completes_once_after_its_last_member)
{
	uint32_t tickets[3], after;

	REQUIRE(set_up());
	fill_area(3);
	add_batch(3, 0, 1);
	add(SGPU_RING_DRAIN, 0, 2, 0);
	add(OP, 0, 3, 30);
	for (uint64_t i = 0; i < 3; i++) {
		tickets[i] = start(100 + i);
		CHECK(operation.descriptor.cookie == 1);
	}
	after = start(30);
	finish(after, SGPU_OK);
	finish(tickets[2], SGPU_OK);
	finish(tickets[0], SGPU_OK);
	CHECK(host.count == 1);
	finish(tickets[1], SGPU_OK);
	CHECK(host.count == 3 && completed(1, 1, SGPU_OK, 3) && completed(2, 2, SGPU_OK, 0));
}

UNIT_TEST(a_batch_has_the_status_of_its_first_member_that_failed)
{
	uint32_t tickets[4];

	REQUIRE(set_up());
	fill_area(4);
	add_batch(4, 0, 1);
	for (uint64_t i = 0; i < 4; i++) {
		tickets[i] = start(100 + i);
	}
	finish(tickets[3], SGPU_ENOMEM);
	finish(tickets[1], SGPU_EDEVICE);
	finish(tickets[2], SGPU_EAUTH);
	finish(tickets[0], SGPU_OK);
	CHECK(host.count == 1 && completed(0, 1, SGPU_EDEVICE, 1));
}

UNIT_TEST(members_are_copied_before_the_first_one_starts)
{
	REQUIRE(set_up());
	fill_area(2);
	add_batch(2, 0, 1);
	finish(start(100), SGPU_OK);
	memset(host.area, 0xff, sizeof(host.area));
	finish(start(101), SGPU_OK);
	CHECK(completed(0, 1, SGPU_OK, 2));
}

UNIT_TEST(fences_work_for_batches_and_within_them)
{
	uint32_t a, b;

	REQUIRE(set_up());
	fill_area(3);
	host.area[1].flags = SGPU_RING_FENCE;
	add(OP, 0, 1, 10);
	add_batch(3, SGPU_RING_FENCE, 2);
	add(OP, SGPU_RING_FENCE, 3, 30);
	a = start(10);
	CHECK(next() == SGPU_RING_IDLE);
	finish(a, SGPU_OK);
	a = start(100);
	CHECK(next() == SGPU_RING_IDLE); /* the second member waits for the first */
	finish(a, SGPU_OK);
	a = start(101);
	b = start(102);
	CHECK(next() == SGPU_RING_IDLE); /* what follows waits for the whole batch */
	finish(a, SGPU_OK);
	finish(b, SGPU_OK);
	finish(start(30), SGPU_OK);
	CHECK(host.count == 3 && completed(1, 2, SGPU_OK, 3));
}

UNIT_TEST(batches_wait_for_room_for_their_members)
{
	static uint32_t tickets[SGPU_RING_BATCH_MAX];

	REQUIRE(set_up());
	fill_area(SGPU_RING_BATCH_MAX);
	add_batch(SGPU_RING_BATCH_MAX, 0, 1);
	add_batch(2, 0, 2);
	for (uint64_t i = 0; i < SGPU_RING_BATCH_MAX; i++) {
		tickets[i] = start(100 + i);
	}
	CHECK(next() == SGPU_RING_IDLE);
	finish(tickets[9], SGPU_OK);
	CHECK(next() == SGPU_RING_IDLE);
	finish(tickets[8], SGPU_OK);
	finish(start(100), SGPU_OK);
	finish(start(101), SGPU_OK);
	CHECK(host.count == 1 && completed(0, 2, SGPU_OK, 2));
	for (int i = 0; i < SGPU_RING_BATCH_MAX; i++) {
		if (i != 8 && i != 9) {
			finish(tickets[i], SGPU_OK);
		}
	}
	CHECK(host.count == 2 && completed(1, 1, SGPU_OK, SGPU_RING_BATCH_MAX));
}

UNIT_TEST(a_batch_that_cannot_be_read_fails_alone)
{
	REQUIRE(set_up());
	host.read_result = SGPU_EPOLICY;
	add_batch(2, 0, 1);
	add(SGPU_RING_DRAIN, 0, 2, 0);
	add(OP, 0, 3, 30);
	finish(start(30), SGPU_OK);
	CHECK(host.count == 3 && completed(0, 1, SGPU_EPOLICY, 0) && completed(1, 2, SGPU_OK, 0));
}

UNIT_TEST(members_that_may_not_be_are_a_fault)
{
	static const struct sgpu_ring_descriptor bad[] = {
		{ .opcode = SGPU_RING_BATCH, .handle = 5, .length = 64 },
		{ .opcode = SGPU_RING_DRAIN },
		{ .opcode = SGPU_RING_CANCEL },
		{ .opcode = 0 },
		{ .opcode = 17 },
		{ .opcode = OP, .cookie = 1 },
		{ .opcode = OP, .client = 9 },
		{ .opcode = OP, .generation = 1 },
		{ .opcode = OP, .reserved = 1 },
		{ .opcode = OP, .reserved2 = 1 },
		{ .opcode = OP, .flags = 128 },
		{ .opcode = OP, .handle = 1 },
	};
	enum sgpu_ring_event event;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		REQUIRE(set_up());
		fill_area(3);
		host.area[2] = bad[i];
		add_batch(3, 0, 1);
		CHECK(sgpu_schedule_next(s, &operation, &event, &error) == SGPU_EINVALID &&
		      host.count == 0);
	}
}

UNIT_TEST(cancellation_keeps_what_is_held_from_starting)
{
	uint32_t a;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	add(OP, SGPU_RING_FENCE, 2, 20);
	add(OP, 0, 3, 30);
	add(SGPU_RING_DRAIN, 0, 4, 0);
	a = start(10);
	add(SGPU_RING_CANCEL, 0, 5, 2);
	CHECK(host.count == 2 && completed(0, 2, SGPU_ECANCELED, 0) && completed(1, 5, SGPU_OK, 1));
	finish(start(30), SGPU_OK); /* no fence before it any more */
	add(SGPU_RING_CANCEL, 0, 6, 4);
	CHECK(completed(3, 4, SGPU_ECANCELED, 0) && completed(4, 6, SGPU_OK, 1));
	add(SGPU_RING_CANCEL, 0, 7, 99);
	CHECK(completed(5, 7, SGPU_OK, 0));
	finish(a, SGPU_OK);
	CHECK(host.count == 7 && sgpu_schedule_outstanding(s) == 0 && next() == SGPU_RING_IDLE);
}

UNIT_TEST(cancellation_asks_once_to_stop_what_has_started)
{
	uint32_t a, b;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	add(OP, 0, 2, 20);
	a = start(10);
	b = start(20);
	add(SGPU_RING_CANCEL, 0, 3, 1);
	add(SGPU_RING_CANCEL, 0, 4, 1);
	add(SGPU_RING_CANCEL, 0, 5, 2);
	CHECK(host.count == 3 && completed(0, 3, SGPU_OK, 1) && completed(1, 4, SGPU_OK, 1));
	CHECK(next() == SGPU_RING_STOP && operation.ticket == a &&
	      operation.descriptor.argument == 10);
	finish(b, SGPU_OK); /* it ended by itself before anybody was asked */
	CHECK(next() == SGPU_RING_IDLE);
	finish(a, SGPU_ECANCELED);
	CHECK(host.count == 5 && completed(4, 1, SGPU_ECANCELED, 7));
}

UNIT_TEST(cancellation_of_a_batch_reaches_each_member)
{
	uint32_t a, b, other;

	REQUIRE(set_up());
	fill_area(4);
	host.area[2].flags = SGPU_RING_FENCE;
	add(OP, 0, 9, 90);
	other = start(90);
	add_batch(4, 0, 1);
	add(OP, 0, 2, 20);
	add(SGPU_RING_DRAIN, 0, 3, 0);
	a = start(100);
	b = start(101);
	CHECK(next() == SGPU_RING_IDLE); /* 102 and what follows are held */
	add(SGPU_RING_CANCEL, 0, 4, 1);
	CHECK(host.count == 1 && completed(0, 4, SGPU_OK, 1));
	CHECK(next() == SGPU_RING_STOP && operation.ticket == a);
	CHECK(next() == SGPU_RING_STOP && operation.ticket == b);
	finish(start(20), SGPU_OK);
	finish(a, SGPU_OK);
	finish(b, SGPU_ECANCELED);
	CHECK(host.count == 3 && completed(2, 1, SGPU_ECANCELED, 1));
	finish(other, SGPU_OK);
	CHECK(host.count == 5 && completed(4, 3, SGPU_OK, 0));
	/* One of which no member has started ends at once, and so does one that was
	 * not read yet. */
	host.area[0].flags = SGPU_RING_FENCE;
	add(OP, 0, 5, 50);
	a = start(50);
	add_batch(4, 0, 6);
	CHECK(next() == SGPU_RING_IDLE);
	add_batch(4, 0, 7);
	add(SGPU_RING_CANCEL, 0, 8, 6);
	CHECK(completed(5, 6, SGPU_ECANCELED, 0) && completed(6, 8, SGPU_OK, 1));
	add(SGPU_RING_CANCEL, 0, 8, 7);
	CHECK(completed(7, 7, SGPU_ECANCELED, 0));
	finish(a, SGPU_OK);
	CHECK(next() == SGPU_RING_IDLE && sgpu_schedule_outstanding(s) == 0);
}

UNIT_TEST(an_error_of_the_host_comes_back)
{
	struct sgpu_ring_descriptor d = { .opcode = SGPU_RING_CANCEL };
	uint32_t a;

	REQUIRE(set_up());
	add(OP, 0, 1, 10);
	a = start(10);
	host.post_result = SGPU_EINVALID;
	CHECK(sgpu_schedule_finish(s, a, SGPU_OK, 0, &error) == SGPU_EINVALID);
	CHECK(sgpu_schedule_add(s, &d, &error) == SGPU_EINVALID);
}

/* ---- against a plain restatement of the rules ----
 * Random submissions, ends and cancellations. What the schedule starts is compared with what may
 * start by the rules. */
enum { STEPS = 20000 };

struct plain {
	uint64_t cookie;
	uint8_t opcode, flags;
	bool started, done;
	uint32_t ticket;
};

static struct plain plain[STEPS];
static int plain_count;

static uint64_t random_below(uint64_t limit)
{
	static uint64_t seed = 20261122;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % limit;
}

static bool all_done_before(int index)
{
	for (int i = 0; i < index; i++) {
		if (!plain[i].done) {
			return false;
		}
	}
	return true;
}

/* The first that is held, if it may start; -1. */
static int may_start(void)
{
	for (int i = 0; i < plain_count; i++) {
		if (!plain[i].done && !plain[i].started && plain[i].opcode == OP) {
			return !(plain[i].flags & SGPU_RING_FENCE) || all_done_before(i) ? i : -1;
		}
	}
	return -1;
}

/* Marks what has been posted since, and checks that it may have been. */
static void take_posts(int *posts)
{
	for (; *posts < host.count; (*posts)++) {
		int i = 0;

		while (i < plain_count && plain[i].cookie != host.done[*posts].cookie) {
			i++;
		}
		REQUIRE(i < plain_count);
		CHECK(!plain[i].done);
		CHECK(plain[i].opcode != SGPU_RING_DRAIN ||
		      host.done[*posts].status == SGPU_ECANCELED || all_done_before(i));
		plain[i].done = true;
	}
}

UNIT_TEST(random_operations_follow_the_rules)
{
	uint64_t cookie = 1;
	int posts = 0, index;

	REQUIRE(set_up());
	plain_count = 0;
	for (int step = 0; step < STEPS && !unit_bad; step++) {
		const uint64_t what = random_below(10);

		if (host.count > POSTS - 8 ||
		    plain_count > 300) { /* begin again, with nothing open */
			REQUIRE(set_up());
			posts = plain_count = 0;
		}
		if (what < 4 && sgpu_schedule_outstanding(s) < ROOM) {
			struct plain *p = &plain[plain_count++];

			*p = (struct plain){ .cookie = cookie++,
					     .opcode = random_below(4) ? OP : SGPU_RING_DRAIN };
			p->flags = p->opcode == OP && !random_below(4) ? SGPU_RING_FENCE : 0;
			add(p->opcode, p->flags, p->cookie, p->opcode == OP ? p->cookie : 0);
		} else if (what == 4 && plain_count) {
			plain[plain_count++] =
				(struct plain){ .cookie = cookie++, .opcode = SGPU_RING_CANCEL };
			add(SGPU_RING_CANCEL, 0, cookie - 1, cookie - 1 - random_below(20));
		} else if (what < 8) {
			index = may_start();
			switch (next()) {
			case SGPU_RING_START:
				REQUIRE(index >= 0 &&
					plain[index].cookie == operation.descriptor.cookie);
				plain[index].started = true;
				plain[index].ticket = operation.ticket;
				break;
			case SGPU_RING_IDLE:
				CHECK(index < 0);
				break;
			default: /* SGPU_RING_STOP */
				break;
			}
		} else if (plain_count) {
			index = (int)random_below((uint64_t)plain_count);
			if (plain[index].started && !plain[index].done) {
				finish(plain[index].ticket, SGPU_OK);
			}
		}
		take_posts(&posts);
	}
}

int main(void)
{
	UNIT_RUN(operations_start_in_order_and_end_in_any);
	UNIT_RUN(a_status_that_cannot_be_is_refused_and_changes_nothing);
	UNIT_RUN(a_fence_holds_back_itself_and_what_follows);
	UNIT_RUN(a_drain_completes_after_what_came_before_and_holds_back_nothing);
	UNIT_RUN(a_batch_completes_once_after_its_last_member);
	UNIT_RUN(a_batch_has_the_status_of_its_first_member_that_failed);
	UNIT_RUN(members_are_copied_before_the_first_one_starts);
	UNIT_RUN(fences_work_for_batches_and_within_them);
	UNIT_RUN(batches_wait_for_room_for_their_members);
	UNIT_RUN(a_batch_that_cannot_be_read_fails_alone);
	UNIT_RUN(members_that_may_not_be_are_a_fault);
	UNIT_RUN(cancellation_keeps_what_is_held_from_starting);
	UNIT_RUN(cancellation_asks_once_to_stop_what_has_started);
	UNIT_RUN(cancellation_of_a_batch_reaches_each_member);
	UNIT_RUN(an_error_of_the_host_comes_back);
	UNIT_RUN(random_operations_follow_the_rules);
	sgpu_schedule_free(&s);
	return unit_done();
}
