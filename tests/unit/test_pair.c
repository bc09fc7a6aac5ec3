/* SPDX-License-Identifier: Apache-2.0
 *
 * Two processes of the case transition: nobody waits for one that has died.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tools/sgpu-bench/pair.c"

#include "unit.h"

enum { PATIENCE_S = 60 };

static pid_t parent;
static const struct pair_way *way; /* that the processes have but for how the other one waits */

/* The other process dies when it has something to answer. */
static bool await_and_die(struct pair *pair, enum pair_direction direction)
{
	const bool came = way->await(pair, direction);

	if (getpid() != parent) {
		usleep(20000);
		(void)kill(getpid(), SIGKILL);
	}
	return came;
}

static bool die_at_once(struct pair *pair, enum pair_direction direction)
{
	if (getpid() != parent) {
		(void)kill(getpid(), SIGKILL);
	}
	return way->await(pair, direction);
}

/* What ended the trips, or SGPU_OK. */
static int trips(bool (*await)(struct pair *pair, enum pair_direction direction), bool is_killed)
{
	struct pair_way changed = *way;
	struct sgpu_error error = { 0 };
	struct pair pair;
	int rc;

	changed.await = await ? await : way->await;
	rc = pair_start(&pair, &changed, NULL, &error);
	for (int i = 0; rc == SGPU_OK && i < 3; i++) {
		rc = pair_trip(&pair, &error);
	}
	if (rc == SGPU_OK && is_killed) {
		kill(pair.child, SIGKILL);
		for (int i = 0; rc == SGPU_OK && i < 1000; i++) {
			rc = pair_trip(&pair, &error); /* it may answer some more before it dies */
			usleep(1000);
		}
	}
	pair_end(&pair);
	return rc;
}

static void check_all(bool (*await)(struct pair *pair, enum pair_direction direction),
		      bool is_killed, int expected)
{
	alarm(PATIENCE_S);
	parent = getpid();
	for (int w = 0; w < PAIR_WAYS; w++) {
		way = &pair_ways[w];
		CHECK(trips(await, is_killed) == expected);
	}
}

UNIT_TEST(every_way_leads_to_the_other_process_and_back)
{
	check_all(NULL, false, SGPU_OK);
}

UNIT_TEST(a_process_that_is_killed_between_trips_is_missed)
{
	check_all(NULL, true, SGPU_ESYSTEM);
}

UNIT_TEST(a_process_that_dies_before_it_answers_ends_the_wait)
{
	check_all(await_and_die, false, SGPU_ESYSTEM);
}

UNIT_TEST(a_process_that_dies_at_once_ends_the_wait)
{
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
