/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of batches that were taken: each once, by whoever asks.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay_harness.h"

UNIT_TEST(a_batch_is_taken_once)
{
	const uint8_t last_of_key[SGPU_SHA256_SIZE] = { [0] = 1, [15] = 1 };
	struct sgpu_replay *replay = NULL;

	new_folder();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	CHECK(take(replay, 1) == 0 && take(replay, 2) == 0);
	CHECK(take(replay, 1) == SGPU_ETAKEN && strstr(error.text, "taken before"));
	CHECK(take_at(replay, 1, NOW, NOW + SECOND) == SGPU_ETAKEN);
	CHECK(sgpu_replay_take(replay, last_of_key, NOW, NOW, &error) == 0);
	CHECK(sgpu_replay_take(replay, last_of_key, NOW, NOW, &error) == SGPU_ETAKEN);
	sgpu_replay_free(&replay);
	CHECK(!replay);
	CHECK(take_afresh(2) == SGPU_ETAKEN && take_afresh(3) == 0 &&
	      take_afresh(3) == SGPU_ETAKEN);
	remove_folder();
}

/* ---- what fails ---- */
UNIT_TEST(a_batch_that_does_not_reach_the_disk_was_not_taken)
{
	struct sgpu_replay *replay = NULL, *second = NULL;
	char expected[128];

	new_folder();
	snprintf(expected, sizeof(expected), "cannot write '%s'", data);
	failing_sync = 1; /* of the directory of names, whose own name is new */
	CHECK(sgpu_replay_create(folder, WINDOW, &replay, &error) == SGPU_ENOSPACE && !replay);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &second, &error) == 0);
	for (unsigned id = 0; id < 4; id++) {
		failing_sync = 1;
		CHECK(take(replay, id) == SGPU_ENOSPACE && failing_sync == 0);
		CHECK(strstr(error.text, expected) && recorded() == id);
		synced_directories = 0;
		CHECK(take(id % 2 ? second : replay, id) == 0 && synced_directories == 1);
		CHECK(take(second, id) == SGPU_ETAKEN && take(replay, id) == SGPU_ETAKEN);
	}
	REQUIRE(rmdir(data) != 0 && errno == ENOTEMPTY);
	snprintf(expected, sizeof(expected), "rm -r '%s'", data);
	REQUIRE(system(expected) == 0);
	CHECK(take(replay, 9) == SGPU_ESYSTEM && strstr(error.text, "cannot write"));
	sgpu_replay_free(&replay);
	sgpu_replay_free(&second);
	remove_folder();
}

UNIT_TEST(what_is_too_old_or_from_the_future_is_refused_and_not_remembered)
{
	struct sgpu_replay *replay = NULL;
	const uint64_t ahead = SGPU_REPLAY_AHEAD_SECONDS * SECOND;

	new_folder();
	for (int in_folder = 0; in_folder < 2; in_folder++) {
		REQUIRE(sgpu_replay_create(in_folder ? folder : NULL, WINDOW, &replay, &error) ==
			0);
		CHECK(take_at(replay, 1, NOW - WINDOW - 1, NOW) == SGPU_ETAKEN &&
		      strstr(error.text, "too old"));
		CHECK(take_at(replay, 1, NOW + ahead + 1, NOW) == SGPU_EPOLICY &&
		      strstr(error.text, "future"));
		CHECK(take_at(replay, 1, 0, NOW) == SGPU_ETAKEN && recorded() == 0);
		CHECK(take_at(replay, 1, NOW - WINDOW, NOW) == 0);
		CHECK(take_at(replay, 2, NOW + ahead, NOW) == 0);
		CHECK(recorded() == (in_folder ? 2 : 0));
		sgpu_replay_free(&replay);
	}
	remove_folder();
}

UNIT_TEST(a_record_of_another_version_is_refused_and_stays)
{
	FILE *file;

	new_folder();
	file = fopen(data, "w");
	REQUIRE(file && fputs("sgpu rp3", file) >= 0 && fclose(file) == 0);
	for (int again = 0; again < 2; again++) {
		CHECK(take_afresh(1) == SGPU_ESYSTEM && strstr(error.text, "another version"));
	}
	REQUIRE(unlink(data) == 0);
	CHECK(take_afresh(1) == 0);
	remove_folder();
}

UNIT_TEST(old_records_go_and_a_clock_that_is_set_back_brings_none_again)
{
	enum { OLD = 1100 };
	const uint64_t later = NOW + 3 * WINDOW;
	struct sgpu_replay *replay = NULL, *other = NULL;
	unsigned id = 5000;

	new_folder();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &other, &error) == 0);
	for (unsigned i = 0; i < OLD; i++) {
		REQUIRE(take(replay, i) == 0);
	}
	for (int i = 0; i < 2; i++) {
		failing_sync = 1; /* of the floor: nothing is dropped */
		CHECK(take_at(replay, id, later, later) == 0);
		CHECK(failing_sync == 0 && recorded() == OLD + ++id - 5000);
		sgpu_replay_free(&replay); /* which would not look again at once */
		REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	}
	CHECK(take_at(replay, id, later, later) == 0);
	CHECK(recorded() == 3);
	for (unsigned i = 0; i < OLD; i++) {
		CHECK(take(i % 2 ? replay : other, i) == SGPU_ETAKEN &&
		      strstr(error.text, "too old"));
	}
	CHECK(recorded() == 3);
	CHECK(take_at(other, id, later, later) == SGPU_ETAKEN);
	CHECK(take_at(other, 1, later, later) == 0);
	sgpu_replay_free(&replay);
	sgpu_replay_free(&other);
	remove_folder();
}

UNIT_TEST(no_name_goes_that_a_file_system_of_coarse_times_does_not_refuse)
{
	enum { OLD = 1100 };
	const uint64_t at = NOW + SECOND / 4, later = NOW + SECOND / 2 + WINDOW;
	struct sgpu_replay *replay = NULL;

	new_folder();
	coarse_times = true;
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	for (unsigned i = 0; i < OLD; i++) {
		REQUIRE(take_at(replay, i, i % 2 ? at : NOW - 1, at) == 0);
	}
	sgpu_replay_free(&replay);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	CHECK(take_at(replay, OLD, later, later) == 0 && recorded() == OLD / 2 + 1);
	for (unsigned i = 0; i < OLD; i++) {
		CHECK(take_at(replay, i, i % 2 ? at : NOW - 1, at) == SGPU_ETAKEN);
	}
	coarse_times = false;
	sgpu_replay_free(&replay);
	remove_folder();
}

static void drop_elsewhere(void)
{
	struct sgpu_replay *other = NULL;

	CHECK(sgpu_replay_create(folder, WINDOW, &other, &error) == 0);
	CHECK(take_at(other, 9999, NOW + WINDOW + SECOND, NOW + WINDOW + SECOND) == 0);
	sgpu_replay_free(&other);
}

UNIT_TEST(no_floor_is_lowered_by_a_host_that_was_slower)
{
	enum { OLD = 2100 };
	struct sgpu_replay *replay = NULL;

	new_folder();
	far = true;
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	for (unsigned i = 0; i < OLD; i++) {
		REQUIRE(take_at(replay, i, i % 2 ? NOW : NOW + SECOND - 1, NOW) == 0);
	}
	sgpu_replay_free(&replay);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	before_times = drop_elsewhere;
	CHECK(take_at(replay, OLD, NOW + WINDOW + 1, NOW + WINDOW + 1) == 0 && !before_times);
	for (unsigned i = 0; i < OLD; i++) {
		CHECK(take_at(replay, i, i % 2 ? NOW : NOW + SECOND - 1, NOW) == SGPU_ETAKEN);
	}
	far = false;
	sgpu_replay_free(&replay);
	remove_folder();
}

UNIT_TEST(a_floor_that_cannot_be_read_refuses_all_and_removes_nothing)
{
	enum { OLD = 1100 };
	const uint64_t later = NOW + 3 * WINDOW;
	struct sgpu_replay *replay = NULL;
	char path[128];

	new_folder();
	snprintf(path, sizeof(path), "%s/floor", folder);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	for (unsigned i = 0; i < OLD; i++) {
		REQUIRE(take(replay, i) == 0);
	}
	REQUIRE(unlink(path) == 0);
	CHECK(take_at(replay, OLD, later, later) == SGPU_ESYSTEM && recorded() == OLD);
	CHECK(strstr(error.text, "cannot read") && strstr(error.text, "/floor'"));
	sgpu_replay_free(&replay);
	remove_folder();
}

/* Each of several processes tries to take the same batches; each batch goes to one of them. */
UNIT_TEST(of_many_processes_one_takes_a_batch)
{
	enum { PROCESSES = 4, BATCHES = 40 };
	int taken = 0;

	new_folder();
	for (int i = 0; i < PROCESSES; i++) {
		if (fork() == 0) {
			int mine = 0;
			for (unsigned id = 0; id < BATCHES; id++) {
				const int code = take_afresh(id);
				mine += code == 0;
				if (code && code != SGPU_ETAKEN) {
					_exit(255);
				}
			}
			_exit(mine);
		}
	}
	for (int i = 0; i < PROCESSES; i++) {
		int status = 0;
		REQUIRE(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 255);
		taken += WEXITSTATUS(status);
	}
	CHECK(taken == BATCHES);
	remove_folder();
}

/* Killed at any moment, a writer leaves a record that others go on with, and all that it said it
 * took is in it. */
UNIT_TEST(a_writer_that_is_killed_leaves_what_it_took)
{
	enum { ROUNDS = 12, BATCHES = 100000 };
	struct sgpu_replay *replay = NULL;
	unsigned begin = 0;

	new_folder();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	for (int round = 0; round < ROUNDS; round++) {
		unsigned last = 0;
		int said[2], status;
		pid_t child;

		REQUIRE(pipe(said) == 0);
		child = fork();
		if (child == 0) {
			struct sgpu_replay *own = NULL;

			if (sgpu_replay_create(folder, WINDOW, &own, &error) != 0) {
				_exit(1);
			}
			for (unsigned id = begin; id < begin + BATCHES; id++) {
				if (take(own, id) != 0 ||
				    write(said[1], &id, sizeof(id)) != sizeof(id)) {
					_exit(1);
				}
			}
			_exit(0);
		}
		close(said[1]);
		for (int i = 0; i < 20 + round; i++) {
			REQUIRE(read(said[0], &last, sizeof(last)) == sizeof(last));
		}
		CHECK(kill(child, SIGKILL) == 0);
		while (read(said[0], &last, sizeof(last)) == sizeof(last)) {
		}
		close(said[0]);
		REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		for (unsigned id = begin; id <= last; id++) {
			CHECK(take(replay, id) == SGPU_ETAKEN);
		}
		begin = last + 2; /* of the next one nothing is known */
		CHECK(take(replay, begin) == 0);
		begin++;
	}
	sgpu_replay_free(&replay);
	remove_folder();
}

UNIT_TEST(the_folder_is_made_and_has_to_be_of_this_user_alone)
{
	struct sgpu_replay *replay = NULL;
	struct stat status;
	char inner[80];

	new_folder();
	snprintf(inner, sizeof(inner), "%s/state", folder);
	REQUIRE(sgpu_replay_create(inner, WINDOW, &replay, &error) == 0);
	sgpu_replay_free(&replay);
	CHECK(stat(inner, &status) == 0 && (status.st_mode & 07777) == 0700);
	REQUIRE(chmod(inner, 0750) == 0);
	CHECK(sgpu_replay_create(inner, WINDOW, &replay, &error) == SGPU_EPOLICY && !replay);
	REQUIRE(chmod(inner, 0700) == 0);
	if (geteuid() == 0) {
		REQUIRE(chown(inner, 4711, (gid_t)-1) == 0);
		CHECK(sgpu_replay_create(inner, WINDOW, &replay, &error) == SGPU_EPOLICY);
	}
	snprintf(inner, sizeof(inner), "%s/no/state", folder);
	CHECK(sgpu_replay_create(inner, WINDOW, &replay, &error) == SGPU_ESYSTEM);
	remove_folder();
}

int main(void)
{
	UNIT_RUN(a_batch_is_taken_once);
	UNIT_RUN(a_batch_that_does_not_reach_the_disk_was_not_taken);
	UNIT_RUN(what_is_too_old_or_from_the_future_is_refused_and_not_remembered);
	UNIT_RUN(a_record_of_another_version_is_refused_and_stays);
	UNIT_RUN(old_records_go_and_a_clock_that_is_set_back_brings_none_again);
	UNIT_RUN(no_name_goes_that_a_file_system_of_coarse_times_does_not_refuse);
	UNIT_RUN(no_floor_is_lowered_by_a_host_that_was_slower);
	UNIT_RUN(a_floor_that_cannot_be_read_refuses_all_and_removes_nothing);
	UNIT_RUN(of_many_processes_one_takes_a_batch);
	UNIT_RUN(a_writer_that_is_killed_leaves_what_it_took);
	UNIT_RUN(the_folder_is_made_and_has_to_be_of_this_user_alone);
	return unit_done();
}
