/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler of sgpu-serve by itself: turns are counted, and the clock is the test's.
 */
#include "../../tools/sgpu-serve/shares.c"

#include "unit.h"

enum { MS = 1000000 };

static struct shares s;

static void set_work(unsigned i, unsigned waiting, unsigned turns)
{
	s.of[i].waiting = waiting;
	s.of[i].turns = turns;
	shares_settle(&s);
}

static void set_worker(unsigned i, bool held, bool lacks)
{
	s.of[i].held = held;
	s.of[i].lacks = lacks;
	shares_settle(&s);
}

/* Tenants with work, by number; how long a turn of each takes, and how many batches each has left
 * (-1: no end). */
static struct scene {
	unsigned count;
	uint64_t turn_ns[SHARES_MAX], end_ns[SHARES_MAX][8];
	long left[SHARES_MAX];
	unsigned granted[SHARES_MAX];
} scene;

static void begin(unsigned count)
{
	memset(&s, 0, sizeof(s));
	memset(&scene, 0, sizeof(scene));
	scene.count = count;
	for (unsigned i = 0; i < count; i++) {
		shares_add(&s, i, 1, false);
		scene.turn_ns[i] = 1 * MS;
		scene.left[i] = -1;
	}
	shares_advance(&s, 1);
}

static unsigned waiting(unsigned i)
{
	return scene.left[i] < 0 ? 1000 : (unsigned)scene.left[i];
}

static void tell(unsigned i)
{
	set_work(i, waiting(i), s.of[i].turns);
}

/* Grants what can be granted, then goes on to the end of the turn that ends first. Returns the last
 * tenant that got one. */
static int step(unsigned running)
{
	uint64_t first = UINT64_MAX;
	int got, last = -1;

	for (unsigned i = 0; i < scene.count; i++) {
		tell(i);
	}
	while ((got = shares_next(&s, running)) >= 0) {
		unsigned slot = 0;

		last = got;
		while (scene.end_ns[got][slot]) {
			slot++;
		}
		scene.end_ns[got][slot] = s.now_ns + scene.turn_ns[got];
		scene.left[got] -= scene.left[got] > 0;
		scene.granted[got]++;
		shares_grant(&s, (unsigned)got);
		tell((unsigned)got);
	}
	for (unsigned i = 0; i < scene.count; i++) {
		for (unsigned slot = 0; slot < 8; slot++) {
			first = scene.end_ns[i][slot] && scene.end_ns[i][slot] < first
					? scene.end_ns[i][slot]
					: first;
		}
	}
	if (first == UINT64_MAX) {
		return last;
	}
	shares_advance(&s, first);
	for (unsigned i = 0; i < scene.count; i++) {
		for (unsigned slot = 0; slot < 8; slot++) {
			if (scene.end_ns[i][slot] == first) {
				scene.end_ns[i][slot] = 0;
				set_work(i, waiting(i), s.of[i].turns - 1);
			}
		}
	}
	return last;
}

UNIT_TEST(weights_of_three_to_one_give_three_to_one)
{
	begin(2);
	shares_change(&s, 0, 3, false);
	for (int i = 0; i < 4000; i++) {
		step(1);
	}
	CHECK(scene.granted[0] + scene.granted[1] == 4000);
	CHECK(scene.granted[0] >= 2999 && scene.granted[0] <= 3001);
}

UNIT_TEST(what_counts_is_the_time_of_turns_and_not_their_number)
{
	begin(2);
	scene.turn_ns[0] = 50 * MS;
	scene.turn_ns[1] = 1 * MS;
	for (int i = 0; i < 5100; i++) {
		step(1);
	}
	CHECK(scene.granted[0] >= 99 && scene.granted[0] <= 101);
	CHECK(s.of[0].used_ns == 50 * MS * (uint64_t)scene.granted[0]);
	CHECK(s.of[1].used_ns == 1 * MS * (uint64_t)scene.granted[1]);
}

UNIT_TEST(several_turns_at_once_are_shared_by_weight_too)
{
	uint64_t sum;

	begin(3);
	shares_change(&s, 0, 5, false);
	shares_change(&s, 1, 2, false);
	scene.turn_ns[0] = 3 * MS;
	scene.turn_ns[1] = 7 * MS;
	scene.turn_ns[2] = 2 * MS;
	for (int i = 0; i < 8000; i++) {
		step(4);
	}
	sum = s.of[0].used_ns + s.of[1].used_ns + s.of[2].used_ns;
	CHECK(s.of[0].used_ns * 8 > sum * 5 - sum / 50 && s.of[0].used_ns * 8 < sum * 5 + sum / 50);
	CHECK(s.of[1].used_ns * 8 > sum * 2 - sum / 50 && s.of[1].used_ns * 8 < sum * 2 + sum / 50);
}

UNIT_TEST(three_that_flood_starve_nobody)
{
	unsigned before;

	begin(4);
	scene.left[3] = 0;
	for (int i = 0; i < 1000; i++) {
		step(2);
	}
	/* One batch now and then has its turn among the next three, at once two of them run. */
	for (int round = 0; round < 100; round++) {
		scene.left[3] = 1;
		before = scene.granted[3];
		for (int i = 0; i < 3; i++) {
			step(2);
		}
		CHECK(scene.granted[3] == before + 1);
	}
}

UNIT_TEST(high_priority_comes_first_and_waits_for_no_normal_turn)
{
	begin(3);
	shares_change(&s, 2, 1, true);
	scene.left[2] = 0;
	step(2);
	set_work(0, 1000, 2); /* both turns are a normal tenant's */
	CHECK(shares_next(&s, 2) == -1);
	set_work(2, 1, 0);
	CHECK(shares_next(&s, 2) == 2);
	shares_grant(&s, 2);
	set_work(2, 5, 2);
	CHECK(shares_next(&s, 2) == -1); /* it has as many as there are */
	set_work(0, 1000, 0);
	CHECK(shares_next(&s, 2) == -1); /* those leave none for the others */
	set_work(2, 0, 1);
	CHECK(shares_next(&s, 2) == 1 || shares_next(&s, 2) == 0);
	begin(2);
	shares_change(&s, 1, 1, true);
	scene.left[1] = 500;
	for (int i = 0; i < 500; i++) {
		CHECK(step(1) == 1);
	}
	CHECK(scene.granted[0] == 0);
	CHECK(step(1) == 0);
}

UNIT_TEST(one_that_was_idle_has_hoarded_nothing)
{
	begin(2);
	scene.left[1] = 0;
	for (int i = 0; i < 10000; i++) {
		step(1);
	}
	scene.left[1] = -1;
	scene.granted[0] = scene.granted[1] = 0;
	for (int i = 0; i < 100; i++) {
		step(1);
	}
	CHECK(scene.granted[1] >= 49 && scene.granted[1] <= 51);
}

UNIT_TEST(one_that_was_alone_owes_nothing_for_it)
{
	begin(2);
	scene.left[1] = 0;
	scene.turn_ns[0] = 3600000ull * MS;
	step(1); /* an hour */
	scene.turn_ns[0] = 1 * MS;
	scene.left[1] = -1;
	scene.granted[0] = scene.granted[1] = 0;
	for (int i = 0; i < 100; i++) {
		step(1);
	}
	CHECK(scene.granted[0] >= 49 && scene.granted[0] <= 51);
}

UNIT_TEST(one_that_is_barred_keeps_its_claim_and_stops_nobody)
{
	begin(2);
	step(1);
	s.of[1].barred = true;
	for (int i = 0; i < 100; i++) {
		CHECK(step(1) == 0);
	}
	s.of[1].barred = false;
	for (int i = 0; i < 99; i++) {
		CHECK(step(1) == 1);
	}
}

UNIT_TEST(sixty_four_tenants_are_equal_within_a_tenth)
{
	unsigned least = UINT32_MAX, most = 0;

	begin(64);
	for (unsigned i = 0; i < 64; i++) {
		scene.turn_ns[i] = (5 + i % 7) * MS / 8;
	}
	for (int i = 0; i < 24000; i++) {
		step(8);
	}
	for (unsigned i = 0; i < 64; i++) {
		const unsigned used = (unsigned)(s.of[i].used_ns / 1000);

		least = used < least ? used : least;
		most = used > most ? used : most;
	}
	CHECK(most - least <= least / 10);
}

UNIT_TEST(numbers_that_go_round_change_nothing)
{
	begin(2);
	shares_change(&s, 0, 3, false);
	for (int i = 0; i < 2; i++) {
		s.of[i].pass = UINT64_MAX - 300 * (uint64_t)MS;
	}
	s.clock[0] = s.of[0].pass;
	for (int i = 0; i < 4000; i++) {
		step(1);
	}
	CHECK(s.of[1].pass < UINT64_MAX / 2);
	CHECK(scene.granted[0] >= 2999 && scene.granted[0] <= 3001);
}

UNIT_TEST(small_parts_of_time_are_charged_as_large_ones)
{
	begin(1);
	shares_change(&s, 0, 1000, false);
	set_work(0, 0, 1);
	for (uint64_t now = 2; now <= 1000001; now += 7) {
		shares_advance(&s, now);
	}
	shares_advance(&s, 1000001);
	CHECK(s.of[0].used_ns == 1000000);
	CHECK(s.of[0].pass == 1000);
}

UNIT_TEST(nobody_is_next_when_nobody_waits)
{
	begin(1);
	set_work(0, 0, 0);
	CHECK(shares_next(&s, 1) == -1);
	memset(&s, 0, sizeof(s));
	CHECK(shares_next(&s, 1) == -1);
}

/* Otherwise nobody who has had turns would be served before one who keeps a worker without any. */
UNIT_TEST(who_keeps_what_another_waits_for_is_charged_and_gets_no_turn_by_it)
{
	const uint64_t second = 1000000000;

	s = (struct shares){ .now_ns = 0 };
	shares_advance(&s, second);
	shares_add(&s, 0, 1, false);
	shares_add(&s, 1, 1, false);
	set_work(1, 0, 1); /* it has had a turn */
	shares_advance(&s, 3 * second);
	set_work(1, 0, 0);
	set_worker(0, true, false);
	set_worker(1, false, true);
	for (uint64_t i = 4; i < 8; i++) {
		shares_advance(&s, i * second);
		set_work(0, 0, 0);
		set_work(1, 0, 0);
	}
	CHECK(share_is_before(&s.of[1], &s.of[0]));
	CHECK(s.of[0].used_ns == 4 * second && s.of[1].used_ns == 2 * second);
	CHECK(shares_next(&s, 4) == -1);
	set_worker(0, false, false);
	shares_advance(&s, 9 * second);
	CHECK(s.of[0].used_ns == 4 * second);
}

int main(void)
{
	UNIT_RUN(weights_of_three_to_one_give_three_to_one);
	UNIT_RUN(what_counts_is_the_time_of_turns_and_not_their_number);
	UNIT_RUN(several_turns_at_once_are_shared_by_weight_too);
	UNIT_RUN(three_that_flood_starve_nobody);
	UNIT_RUN(high_priority_comes_first_and_waits_for_no_normal_turn);
	UNIT_RUN(one_that_was_idle_has_hoarded_nothing);
	UNIT_RUN(one_that_was_alone_owes_nothing_for_it);
	UNIT_RUN(one_that_is_barred_keeps_its_claim_and_stops_nobody);
	UNIT_RUN(sixty_four_tenants_are_equal_within_a_tenth);
	UNIT_RUN(numbers_that_go_round_change_nothing);
	UNIT_RUN(small_parts_of_time_are_charged_as_large_ones);
	UNIT_RUN(nobody_is_next_when_nobody_waits);
	UNIT_RUN(who_keeps_what_another_waits_for_is_charged_and_gets_no_turn_by_it);
	return unit_done();
}
