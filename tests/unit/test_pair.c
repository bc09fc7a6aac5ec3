/* SPDX-License-Identifier: Apache-2.0
 *
 * Two processes of the cases transition and wake: nobody waits for one that has died.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tools/sgpu-bench/pair.c"
#include "../../tools/sgpu-bench/pair_ways.c"

#include "unit.h"

enum { PATIENCE_S = 60 };

static void answer(struct pair *pair)
{
	while (pair->way->await(pair, PAIR_THERE) && pair->way->send(pair, PAIR_BACK)) {
	}
}

/* Dies while this process waits for its answer. */
static void die(struct pair *pair)
{
	(void)pair->way->await(pair, PAIR_THERE);
	usleep(20000);
	(void)kill(getpid(), SIGKILL);
}

static void die_at_once(struct pair *pair)
{
	(void)pair;
	(void)kill(getpid(), SIGKILL);
}

/* SGPU_OK, or what ended the trips; SGPU_EUNAVAILABLE if this machine has no such way. */
static int trips(const struct pair_way *way, void (*serve)(struct pair *pair), bool is_killed)
{
	struct sgpu_error error = { 0 };
	struct pair pair;
	int rc = pair_start(&pair, way, NULL, serve, &error);

	for (int i = 0; rc == SGPU_OK && i < 3; i++) {
		rc = pair_trip(&pair, &error);
	}
	if (rc == SGPU_OK && is_killed) {
		kill(pair.child, SIGKILL);
		for (int i = 0; rc == SGPU_OK && i < 1000; i++) {
			rc = pair_trip(&pair, &error); /* it may answer some more before it dies */
			usleep(1000);
		}
		CHECK(rc == SGPU_ESYSTEM);
	}
	pair_end(&pair);
	return rc;
}

static void check_all(void (*serve)(struct pair *pair), bool is_killed, int expected)
{
	for (int w = 0; w < PAIR_WAYS; w++) {
		const int rc = trips(&pair_ways[w], serve, is_killed);

		CHECK(rc == expected || (rc == SGPU_EUNAVAILABLE && w == PAIR_UMWAIT));
	}
}

UNIT_TEST(every_way_leads_to_the_other_process_and_back)
{
	alarm(PATIENCE_S);
	check_all(answer, false, SGPU_OK);
}

UNIT_TEST(a_process_that_is_killed_between_trips_is_missed)
{
	alarm(PATIENCE_S);
	check_all(answer, true, SGPU_ESYSTEM);
}

UNIT_TEST(a_process_that_dies_before_it_answers_ends_the_wait)
{
	alarm(PATIENCE_S);
	check_all(die, false, SGPU_ESYSTEM);
}

UNIT_TEST(a_process_that_dies_at_once_ends_the_wait)
{
	alarm(PATIENCE_S);
	check_all(die_at_once, false, SGPU_ESYSTEM);
}

int main(void)
{
	UNIT_RUN(every_way_leads_to_the_other_process_and_back);
	UNIT_RUN(a_process_that_is_killed_between_trips_is_missed);
	UNIT_RUN(a_process_that_dies_before_it_answers_ends_the_wait);
	UNIT_RUN(a_process_that_dies_at_once_ends_the_wait);
	return unit_done();
}
