/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of an earlier version: an empty one takes its place, and nothing that was sealed
 * before runs after that.
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

UNIT_TEST(what_was_sealed_before_the_record_was_taken_over_is_too_old)
{
	for (int former = 1; former <= 2; former++) {
		for (int other = 0; other < 2; other++) {
			struct sgpu_replay *replay = NULL, *second = NULL;

			new_folder();
			REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
			REQUIRE(sgpu_replay_create(folder, WINDOW, &second, &error) == 0);
			write_before(former, 0, 3);
			CHECK(take_at(replay, 1, NOW - 1, NOW) == SGPU_ETAKEN &&
			      strstr(error.text, "too old"));
			/* Programs of that version do not know this one, so they take nothing any
			 * more. */
			CHECK(version() == 3 && size_of_data() == HEADER);
			CHECK(take(other ? second : replay, 1) == 0 &&
			      take(replay, 1) == SGPU_ETAKEN);
			write_before(former, NOW + SECOND, 1); /* what it had dropped */
			CHECK(take_at(replay, 2, NOW + SECOND - 1, NOW) == SGPU_ETAKEN &&
			      take_at(second, 2, NOW + SECOND, NOW) == 0);
			sgpu_replay_free(&replay);
			sgpu_replay_free(&second);
			remove_folder();
		}
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
	write_before(1, 0, 0);
	before = clock_us();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	after = clock_us();
	CHECK(version() == 3);
	CHECK(take_at(replay, 1, before - 1, after + SECOND) == SGPU_ETAKEN &&
	      strstr(error.text, "too old"));
	CHECK(take_at(replay, 1, after, after + SECOND) == 0);
	sgpu_replay_free(&replay);
	remove_folder();
}

UNIT_TEST(a_record_that_cannot_be_taken_over_stays_as_it_was_or_is_taken_over)
{
	struct sgpu_replay *replay = NULL;
	char left[96];

	for (int failing = 1; failing <= 3;
	     failing++) { /* the name as it is, the new file, and its name */
		for (int crash = 0; crash < 2; crash++) {
			new_folder();
			snprintf(left, sizeof(left), "%s.new", data);
			write_before(2, NOW + SECOND, 1);
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
			CHECK(version() == (failing < 3 ? 2 : 3) &&
			      (access(left, F_OK) == 0) == (crash && failing == 2));
			REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
			CHECK(version() == 3 && access(left, F_OK) != 0);
			CHECK(take_at(replay, 1, NOW + SECOND - 1, NOW) == SGPU_ETAKEN);
			CHECK(take_at(replay, 1, NOW + SECOND, NOW) == 0);
			sgpu_replay_free(&replay);
			remove_folder();
		}
	}
}

int main(void)
{
	UNIT_RUN(what_was_sealed_before_the_record_was_taken_over_is_too_old);
	UNIT_RUN(a_record_is_taken_over_when_it_is_opened_and_not_with_the_first_batch);
	UNIT_RUN(a_record_that_cannot_be_taken_over_stays_as_it_was_or_is_taken_over);
	return unit_done();
}
