/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of batches that were taken: each once, by whoever asks, and whatever is left of the
 * file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay_harness.h"

UNIT_TEST(a_batch_is_taken_once_in_memory_and_in_a_folder)
{
	const uint8_t last_of_key[SGPU_SHA256_SIZE] = { [0] = 1, [15] = 1 };

	new_folder();
	for (int in_file = 0; in_file < 2; in_file++) {
		struct sgpu_replay *replay = NULL;
		REQUIRE(sgpu_replay_create(in_file ? folder : NULL, WINDOW, &replay, &error) == 0);
		CHECK(take(replay, 1) == 0 && take(replay, 2) == 0);
		CHECK(take(replay, 1) == SGPU_ETAKEN && strstr(error.text, "taken before"));
		CHECK(take_at(replay, 1, NOW + SECOND, NOW) ==
		      SGPU_ETAKEN); /* the identity counts */
		CHECK(sgpu_replay_take(replay, last_of_key, NOW, NOW, &error) == 0);
		CHECK(sgpu_replay_take(replay, last_of_key, NOW, NOW, &error) == SGPU_ETAKEN);
		sgpu_replay_free(&replay);
		CHECK(!replay);
	}
	CHECK(take_afresh(2) == SGPU_ETAKEN && take_afresh(3) == 0 &&
	      take_afresh(3) == SGPU_ETAKEN);
	remove_folder();
}

/* ---- what fails ---- */
/* As on a full disk: of what is written, as many bytes as the file may have are there. */
static int take_within(struct sgpu_replay *replay, unsigned id, off_t size)
{
	struct rlimit before, limit;
	int rc;

	if (getrlimit(RLIMIT_FSIZE, &before) != 0) {
		abort();
	}
	limit = before;
	limit.rlim_cur = (rlim_t)size;
	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
		abort();
	}
	rc = take(replay, id);
	if (setrlimit(RLIMIT_FSIZE, &before) != 0) {
		abort();
	}
	return rc;
}

/* That it was not taken; by this process then, or by another one. */
static void check_free(struct sgpu_replay *replay, unsigned id, bool other)
{
	struct sgpu_replay *second = NULL;
	char expected[128];

	snprintf(expected, sizeof(expected), "cannot write '%s'", data);
	CHECK(strstr(error.text, expected));
	REQUIRE(sgpu_replay_create(folder, WINDOW, &second, &error) == 0);
	CHECK(take(other ? second : replay, id) == 0);
	CHECK(take(second, id) == SGPU_ETAKEN);
	CHECK(take(replay, id) == SGPU_ETAKEN);
	sgpu_replay_free(&second);
}

UNIT_TEST(a_batch_that_cannot_be_written_was_not_taken)
{
	struct sgpu_replay *replay = NULL;
	char left[96];
	off_t size;

	new_folder();
	snprintf(left, sizeof(left), "%s.new", data);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	/* The first one, of which the file is made. */
	for (off_t most = 0; most < HEADER; most += 5) {
		CHECK(take_within(replay, 1, most) == SGPU_ESYSTEM);
		CHECK(size_of_data() < 0 && access(left, F_OK) != 0);
	}
	CHECK(take_within(replay, 1, HEADER + RECORD - 1) == SGPU_ESYSTEM &&
	      size_of_data() == HEADER);
	check_free(replay, 1, true);
	/* Every part of the record of another. */
	for (unsigned part = 0; part < RECORD; part++) {
		size = size_of_data();
		CHECK(take_within(replay, 2 + part, size + (off_t)part) == SGPU_ESYSTEM);
		CHECK(size_of_data() == size);
		check_free(replay, 2 + part, part % 2);
		CHECK(size_of_data() == size + RECORD);
	}
	/* And when the old ones are dropped. */
	for (unsigned id = 1000; id < 2100; id++) {
		REQUIRE(take_at(replay, id, NOW - WINDOW / 2, NOW) == 0);
	}
	sgpu_replay_free(&replay);
	REQUIRE(sgpu_replay_create(folder, WINDOW / 4, &replay, &error) == 0);
	size = size_of_data();
	CHECK(take_within(replay, 500, HEADER + 20 * RECORD) == SGPU_ESYSTEM &&
	      size_of_data() == size);
	CHECK(access(left, F_OK) != 0);
	check_free(replay, 500, false);
	CHECK(size_of_data() == HEADER + (1 + RECORD + 1) * RECORD);
	sgpu_replay_free(&replay);
	remove_folder();
}

UNIT_TEST(a_batch_that_does_not_reach_the_disk_was_not_taken)
{
	enum { MAKING = 3 }; /* of the new file, the directory, and the file again */

	for (int failing = 1; failing <= MAKING; failing++) {
		struct sgpu_replay *replay = NULL;

		new_folder();
		REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
		failing_sync = failing;
		CHECK(take(replay, 1) == SGPU_ENOSPACE && failing_sync == 0);
		CHECK(size_of_data() == (failing == 1 ? -1 : HEADER));
		check_free(replay, 1, failing % 2);
		for (unsigned id = 2; id < 4; id++) {
			failing_sync = 1;
			CHECK(take(replay, id) == SGPU_ENOSPACE && failing_sync == 0);
			CHECK(size_of_data() == HEADER + (off_t)(id - 1) * RECORD);
			check_free(replay, id, id % 2);
		}
		sgpu_replay_free(&replay);
		remove_folder();
	}
}

UNIT_TEST(a_name_that_may_not_have_reached_the_disk_is_brought_there_by_whoever_comes_next)
{
	for (int other = 0; other < 2; other++) {
		struct sgpu_replay *replay = NULL, *second = NULL;

		new_folder();
		REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
		REQUIRE(sgpu_replay_create(folder, WINDOW, &second, &error) == 0);
		failing_sync = 2; /* the directory's, after the rename */
		CHECK(take(replay, 1) == SGPU_ENOSPACE && failing_sync == 0);
		CHECK(size_of_data() == HEADER);
		failing_sync = 1; /* it fails again */
		CHECK(take(other ? second : replay, 1) == SGPU_ENOSPACE && failing_sync == 0);
		CHECK(size_of_data() == HEADER);
		synced_directories = 0;
		CHECK(take(other ? second : replay, 1) == 0);
		CHECK(synced_directories == 1);
		CHECK(take(other ? second : replay, 2) == 0);
		CHECK(synced_directories == 1); /* once for a file */
		sgpu_replay_free(&replay);
		sgpu_replay_free(&second);
		remove_folder();
	}
}

UNIT_TEST(what_is_too_old_or_from_the_future_is_refused_and_not_remembered)
{
	struct sgpu_replay *replay = NULL;
	const uint64_t ahead = SGPU_REPLAY_AHEAD_SECONDS * SECOND;

	REQUIRE(sgpu_replay_create(NULL, WINDOW, &replay, &error) == 0);
	CHECK(take_at(replay, 1, NOW - WINDOW - 1, NOW) == SGPU_ETAKEN &&
	      strstr(error.text, "too old"));
	CHECK(take_at(replay, 1, NOW + ahead + 1, NOW) == SGPU_EPOLICY &&
	      strstr(error.text, "future"));
	CHECK(take_at(replay, 1, 0, NOW) == SGPU_ETAKEN);
	CHECK(take_at(replay, 1, NOW - WINDOW, NOW) == 0);
	CHECK(take_at(replay, 2, NOW + ahead, NOW) == 0);
	sgpu_replay_free(&replay);
}

UNIT_TEST(what_a_crash_cut_short_is_no_record_and_damage_is_told)
{
	struct stat status;
	char byte = 0;

	new_folder();
	CHECK(take_afresh(1) == 0 && take_afresh(2) == 0 && take_afresh(3) == 0);
	REQUIRE(stat(data, &status) == 0 && status.st_size == HEADER + 3 * RECORD);
	for (off_t cut = 1; cut < RECORD;
	     cut += 10) { /* of the last record some bytes are there: it never ran */
		REQUIRE(truncate(data, HEADER + 2 * RECORD + cut) == 0);
		CHECK(take_afresh(1) == SGPU_ETAKEN && take_afresh(2) == SGPU_ETAKEN &&
		      take_afresh(3) == 0);
		CHECK(take_afresh(3) == SGPU_ETAKEN);
	}
	const int fd = open(data, O_RDWR);
	REQUIRE(fd >= 0);
	CHECK(pwrite(fd, &byte, 1, HEADER + 3 * RECORD - 1) ==
	      1); /* its blocks came in another order */
	CHECK(take_afresh(3) == 0 && take_afresh(3) == SGPU_ETAKEN);
	CHECK(pread(fd, &byte, 1, HEADER + 3) == 1);
	byte ^= 1;
	CHECK(pwrite(fd, &byte, 1, HEADER + 3) == 1); /* not that of the last batch */
	CHECK(take_afresh(9) == SGPU_ESYSTEM && strstr(error.text, "damaged"));
	close(fd);
	REQUIRE(truncate(data, 3) == 0);
	CHECK(take_afresh(9) == SGPU_ESYSTEM);
	remove_folder();
}

UNIT_TEST(a_record_of_another_version_is_refused_and_stays)
{
	uint8_t digest[SGPU_SHA256_SIZE], text[HEADER] = "sgpu rp2";
	FILE *file;

	new_folder();
	REQUIRE(sgpu_sha256(text, 16, digest, &error) == 0);
	memcpy(text + 16, digest, 8);
	file = fopen(data, "w");
	REQUIRE(file && fwrite(text, sizeof(text), 1, file) == 1 && fclose(file) == 0);
	CHECK(take_afresh(1) == SGPU_ESYSTEM && strstr(error.text, "another version"));
	CHECK(size_of_data() == HEADER && take_afresh(1) == SGPU_ESYSTEM);
	REQUIRE(unlink(data) == 0);
	CHECK(take_afresh(1) == 0);
	remove_folder();
}

UNIT_TEST(old_records_go_and_a_clock_that_is_set_back_brings_none_again)
{
	struct sgpu_replay *replay = NULL;
	struct stat status;

	new_folder();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &replay, &error) == 0);
	for (unsigned i = 0; i < 1100; i++) {
		REQUIRE(take(replay, i) == 0);
	}
	CHECK(take_at(replay, 5000, NOW + 3 * WINDOW, NOW + 3 * WINDOW) == 0);
	REQUIRE(stat(data, &status) == 0);
	CHECK(status.st_size == HEADER + RECORD);
	CHECK(take(replay, 7) == SGPU_ETAKEN && strstr(error.text, "too old"));
	CHECK(take_at(replay, 5000, NOW + 3 * WINDOW, NOW + 3 * WINDOW) == SGPU_ETAKEN);
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

/* What one of them takes, another one that had read the record before knows at once: of each batch,
 * exactly one take. */
UNIT_TEST(processes_that_keep_the_record_see_what_the_others_append)
{
	enum { PROCESSES = 3, BATCHES = 600 };
	int taken = 0, first[2];

	new_folder();
	REQUIRE(pipe(first) == 0);
	for (int i = 0; i < PROCESSES; i++) {
		if (fork() == 0) {
			struct sgpu_replay *replay = NULL;
			char byte;
			int mine = 0;

			close(first[1]);
			if (read(first[0], &byte, 1) != 0 ||
			    sgpu_replay_create(folder, WINDOW, &replay, &error) != 0) {
				_exit(255);
			}
			for (unsigned id = 0; id < BATCHES; id++) {
				/* Some go the other way. */
				const int code = take(replay, i ? BATCHES - 1 - id : id);

				mine += code == 0;
				if (code != 0 &&
				    (code != SGPU_ETAKEN || !strstr(error.text, "taken before"))) {
					_exit(255);
				}
			}
			sgpu_replay_free(&replay);
			_exit(mine * 100 / BATCHES);
		}
	}
	close(first[0]);
	close(first[1]);
	for (int i = 0; i < PROCESSES; i++) {
		int status = 0;
		REQUIRE(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 255);
		taken += WEXITSTATUS(status);
	}
	CHECK(taken > 100 - PROCESSES && taken <= 100); /* each rounds down */
	struct stat status;
	REQUIRE(stat(data, &status) == 0);
	CHECK(status.st_size == HEADER + BATCHES * RECORD);
	remove_folder();
}

/* Two records of one process, as two processes have them: each sees what the other one appended,
 * left half done, dropped, or put in the place of the file. */
UNIT_TEST(a_record_that_is_kept_follows_the_file)
{
	struct sgpu_replay *one = NULL, *two = NULL;
	char byte = 0, kept[96];
	int fd;

	new_folder();
	REQUIRE(sgpu_replay_create(folder, WINDOW, &one, &error) == 0);
	REQUIRE(sgpu_replay_create(folder, WINDOW, &two, &error) == 0);
	CHECK(take(one, 1) == 0 && take(two, 1) == SGPU_ETAKEN);
	CHECK(take(two, 2) == 0 && take(two, 3) == 0);
	CHECK(take(one, 3) == SGPU_ETAKEN && take(one, 2) == SGPU_ETAKEN);
	/* A writer that was killed: of its record a part is there, or all but with other bytes. It
	 * never ran. */
	fd = open(data, O_RDWR);
	REQUIRE(fd >= 0);
	CHECK(pwrite(fd, "half", 4, HEADER + 3 * RECORD) == 4);
	CHECK(take(one, 3) == SGPU_ETAKEN && take(one, 4) == 0);
	CHECK(pwrite(fd, &byte, 1, HEADER + 5 * RECORD - 1) == 1);
	CHECK(take(two, 5) == 0 && take(one, 5) == SGPU_ETAKEN);
	CHECK(take(two, 4) == SGPU_ETAKEN);
	/* More than one batch has: damage, for whoever reads on and for whoever begins. */
	memset(kept, 7, sizeof(kept));
	CHECK(pwrite(fd, kept, 2 * RECORD, HEADER + 5 * RECORD) == 2 * RECORD);
	CHECK(take(one, 9) == SGPU_ESYSTEM && strstr(error.text, "damaged"));
	CHECK(take(one, 9) == SGPU_ESYSTEM && take_afresh(9) == SGPU_ESYSTEM);
	REQUIRE(ftruncate(fd, HEADER + 5 * RECORD) == 0);
	CHECK(take(one, 5) == SGPU_ETAKEN && take(one, 9) == 0);
	/* Another file in its place, as after a backup came back: what it says holds. */
	close(fd);
	snprintf(kept, sizeof(kept), "%s.old", data);
	REQUIRE(rename(data, kept) == 0);
	CHECK(take(one, 50) == 0 && take(two, 50) == SGPU_ETAKEN);
	REQUIRE(rename(kept, data) == 0);
	CHECK(take(one, 1) == SGPU_ETAKEN && take(one, 9) == SGPU_ETAKEN);
	CHECK(take(two, 50) == 0 && take(one, 50) == SGPU_ETAKEN);
	/* One of them drops the old ones. */
	for (unsigned id = 1000; id < 2100; id++) {
		REQUIRE(take(two, id) == 0);
	}
	CHECK(take(one, 1500) == SGPU_ETAKEN);
	CHECK(take_at(two, 5000, NOW + 3 * WINDOW, NOW + 3 * WINDOW) == 0);
	CHECK(take(one, 7000) == SGPU_ETAKEN && strstr(error.text, "too old"));
	CHECK(take_at(one, 5000, NOW + 3 * WINDOW, NOW + 3 * WINDOW) == SGPU_ETAKEN);
	CHECK(take_at(one, 1, NOW + 3 * WINDOW, NOW + 3 * WINDOW) == 0);
	sgpu_replay_free(&one);
	sgpu_replay_free(&two);
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

/* The keys of an index as it grows: nothing is found that is not there, and everything that is. */
UNIT_TEST(of_many_records_each_is_known)
{
	enum { BATCHES = 20000 };
	struct sgpu_replay *replay = NULL;

	REQUIRE(sgpu_replay_create(NULL, WINDOW, &replay, &error) == 0);
	for (unsigned id = 0; id < BATCHES; id++) {
		REQUIRE(take(replay, id) == 0);
	}
	for (unsigned id = 0; id < BATCHES; id++) {
		REQUIRE(take(replay, id) == SGPU_ETAKEN);
	}
	/* Half of them are old, and go; the others stay. */
	for (unsigned id = BATCHES; id < 2 * BATCHES; id++) {
		REQUIRE(take_at(replay, id, NOW + WINDOW, NOW + WINDOW) == 0);
	}
	CHECK(take_at(replay, 3 * BATCHES, NOW + WINDOW + WINDOW / 2, NOW + WINDOW + WINDOW / 2) ==
	      0);
	for (unsigned id = BATCHES; id < 2 * BATCHES; id++) {
		REQUIRE(take_at(replay, id, NOW + WINDOW, NOW + WINDOW) == SGPU_ETAKEN);
	}
	CHECK(take_at(replay, 1, NOW, NOW + WINDOW) == SGPU_ETAKEN &&
	      strstr(error.text, "too old"));
	sgpu_replay_free(&replay);
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
	UNIT_RUN(a_batch_is_taken_once_in_memory_and_in_a_folder);
	UNIT_RUN(a_batch_that_cannot_be_written_was_not_taken);
	UNIT_RUN(a_batch_that_does_not_reach_the_disk_was_not_taken);
	UNIT_RUN(a_name_that_may_not_have_reached_the_disk_is_brought_there_by_whoever_comes_next);
	UNIT_RUN(what_is_too_old_or_from_the_future_is_refused_and_not_remembered);
	UNIT_RUN(what_a_crash_cut_short_is_no_record_and_damage_is_told);
	UNIT_RUN(a_record_of_another_version_is_refused_and_stays);
	UNIT_RUN(old_records_go_and_a_clock_that_is_set_back_brings_none_again);
	UNIT_RUN(of_many_processes_one_takes_a_batch);
	UNIT_RUN(processes_that_keep_the_record_see_what_the_others_append);
	UNIT_RUN(a_record_that_is_kept_follows_the_file);
	UNIT_RUN(a_writer_that_is_killed_leaves_what_it_took);
	UNIT_RUN(of_many_records_each_is_known);
	UNIT_RUN(the_folder_is_made_and_has_to_be_of_this_user_alone);
	return unit_done();
}
