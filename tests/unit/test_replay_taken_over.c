/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of the version before: it is taken over, and nothing that is in it or was sealed before
 * runs after that.
 */
#include <sys/wait.h>
#include <time.h>

#include "replay_harness.h"

/* Of the file that is there. */
static int version(void)
{
	char text[9] = "";
	FILE *file = fopen(data, "r");

	if (!file || fread(text, 8, 1, file) != 1 || memcmp(text, "sgpu rp", 7) != 0) {
		abort();
	}
	fclose(file);
	return text[7] - '0';
}

UNIT_TEST(nothing_that_was_sealed_before_the_record_was_taken_over_is_taken)
{
	const uint64_t counters[] = { NOW - 10 * SECOND, NOW + 5 * SECOND,
				      NOW - SECOND }; /* one clock was ahead */

	for (int other = 0; other < 2; other++) {
		struct sgpu_replay *replay = NULL, *second = NULL;

		new_folder();
		REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
		REQUIRE(sgpu_replay_create(folder, WINDOW, &second, &error) == 0);
		write_before(0, counters, 1, 0);
		CHECK(take_at(replay, 1, NOW - 1, NOW) == SGPU_EPOLICY &&
		      strstr(error.text, "too old"));
		/* Programs of that version do not know this one, so they take nothing any more. */
		CHECK(version() == 2 && size_of_data() == HEADER);
		CHECK(take(other ? second : replay, 1) == 0 && take(replay, 1) == SGPU_EPOLICY);
		write_before(0, counters, 3, 0);
		CHECK(take_at(other ? second : replay, 2, NOW + 5 * SECOND, NOW) == SGPU_EPOLICY);
		CHECK(strstr(error.text, "too old"));
		CHECK(take_at(replay, 2, NOW + 5 * SECOND + 1, NOW) == 0);
		write_before(NOW + SECOND, counters, 1, 0); /* what it had dropped stays dropped */
		CHECK(take_at(replay, 2, NOW + SECOND - 1, NOW) == SGPU_EPOLICY &&
		      take_at(second, 2, NOW + SECOND, NOW) == 0);
		sgpu_replay_free(&replay);
		sgpu_replay_free(&second);
		remove_folder();
	}
}

static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec / 1000;
}

UNIT_TEST(a_record_is_taken_over_when_it_is_opened_and_not_with_the_first_batch)
{
	struct sgpu_replay *replay = NULL;
	uint64_t before, after;

	new_folder();
	write_before(0, NULL, 0, 0);
	before = clock_us();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	after = clock_us();
	CHECK(version() == 2);
	CHECK(take_at(replay, 1, before - 1, after + SECOND) == SGPU_EPOLICY &&
	      strstr(error.text, "too old"));
	CHECK(take_at(replay, 1, after, after + SECOND) == 0);
	sgpu_replay_free(&replay);
	remove_folder();
}

/* It wrote two records for a batch. */
UNIT_TEST(what_a_crash_cut_short_in_the_version_before_is_no_damage)
{
	const uint64_t counters[] = { NOW - SECOND };

	new_folder();
	for (size_t torn = 1; torn <= 2 * RECORD; torn++) {
		write_before(0, counters, 1, torn);
		CHECK(take_afresh(1) == 0 && take_afresh(1) == SGPU_EPOLICY &&
		      size_of_data() == HEADER + RECORD);
	}
	write_before(0, counters, 1, 3 * RECORD);
	CHECK(take_afresh(1) == SGPU_ESYSTEM && strstr(error.text, "damaged") && version() == 1);
	remove_folder();
}

UNIT_TEST(a_record_that_cannot_be_taken_over_stays_as_it_was_or_is_taken_over)
{
	const uint64_t counters[] = { NOW + SECOND };
	struct sgpu_replay *replay = NULL;
	char left[96];

	for (int failing = 1; failing <= 3;
	     failing++) { /* the name as it is, the new file, and its name */
		for (int crash = 0; crash < 2; crash++) {
			new_folder();
			snprintf(left, sizeof(left), "%s.new", data);
			write_before(0, counters, 1, 0);
			if (!crash || fork() == 0) {
				failing_sync = failing;
				dying = crash;
				CHECK(sgpu_replay_create(folder, WINDOW, &replay, &error) ==
					      SGPU_ENOSPACE &&
				      !replay);
				CHECK(failing_sync == 0);
				if (crash) {
					_exit(1);
				}
			}
			CHECK(!crash || wait(NULL) > 0);
			CHECK(version() == (failing < 3 ? 1 : 2) &&
			      (access(left, F_OK) == 0) == (crash && failing == 2));
			REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
			CHECK(version() == 2 && access(left, F_OK) != 0);
			CHECK(take_at(replay, 1, NOW + SECOND, NOW) == SGPU_EPOLICY);
			CHECK(take_at(replay, 1, NOW + SECOND + 1, NOW) == 0);
			sgpu_replay_free(&replay);
			remove_folder();
		}
	}
}

int main(void)
{
	UNIT_RUN(nothing_that_was_sealed_before_the_record_was_taken_over_is_taken);
	UNIT_RUN(a_record_is_taken_over_when_it_is_opened_and_not_with_the_first_batch);
	UNIT_RUN(what_a_crash_cut_short_in_the_version_before_is_no_damage);
	UNIT_RUN(a_record_that_cannot_be_taken_over_stays_as_it_was_or_is_taken_over);
	return unit_done();
}
