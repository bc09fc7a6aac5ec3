/* SPDX-License-Identifier: Apache-2.0
 *
 * Staged regions: what creating one promises, and that every rule on using one refuses when it is
 * broken.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "stage/stage.h"
#include "stage/region.h"
#include "unit.h"

static char runtime[64], folder[80];

static int publish(uint64_t size, bool keep, uint64_t lifetime, char id[SGPU_REGION_ID_TEXT + 1])
{
	struct sgpu_region_options options = { .numa_node = -1,
					       .keep = keep,
					       .lifetime_ns = lifetime };
	struct sgpu_region region;
	uint64_t i;
	int code = sgpu_region_create(size, &options, &region, NULL);

	if (code < 0) {
		return code;
	}
	code = sgpu_region_back(&region, 0, size, NULL);
	for (i = 0; code == SGPU_OK && i < size; i++) {
		region.data[i] = (uint8_t)(i * 3 + 1);
	}
	if (code == SGPU_OK) {
		code = sgpu_region_publish(&region, NULL);
	}
	memcpy(id, region.id, SGPU_REGION_ID_TEXT + 1);
	sgpu_region_close(&region);
	return code;
}

static void path_of(const char *id, char path[160])
{
	snprintf(path, 160, "%s/%s", folder, id);
}

static int count_files(void)
{
	struct sgpu_region *list = NULL;
	int count = 0;

	CHECK(sgpu_region_list(&list, &count, NULL) == SGPU_OK);
	sgpu_region_list_free(&list, count);
	return count;
}

static int open_code(const char *id)
{
	struct sgpu_region region;
	struct sgpu_error error;
	int code = sgpu_region_open(id, false, false, &region, &error);

	if (code == SGPU_OK) {
		sgpu_region_close(&region);
	} else {
		CHECK(error.code == code && error.text[0] != '\0');
	}
	return code;
}

UNIT_TEST(the_folder_is_made_for_its_user_alone)
{
	struct stat status;
	char *path = NULL;

	REQUIRE(sgpu_stage_directory(&path, NULL) == SGPU_OK);
	CHECK(strcmp(path, folder) == 0);
	CHECK(stat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
	      (status.st_mode & 07777) == 0700);
	free(path);
}

UNIT_TEST(a_folder_that_others_could_use_is_refused)
{
	char *path = NULL, other[128];
	struct sgpu_error error;

	CHECK(chmod(folder, 0770) == 0);
	CHECK(sgpu_stage_directory(&path, &error) == SGPU_EPOLICY && path == NULL && error.hint[0]);
	CHECK(chmod(folder, 0701) == 0);
	CHECK(sgpu_stage_directory(&path, NULL) == SGPU_EPOLICY);
	CHECK(chmod(folder, 0700) == 0);
	snprintf(other, sizeof(other), "%s-real", folder);
	CHECK(rename(folder, other) == 0 && symlink(other, folder) == 0);
	CHECK(sgpu_stage_directory(&path, NULL) == SGPU_EPOLICY);
	CHECK(unlink(folder) == 0 && close(open(folder, O_CREAT | O_WRONLY, 0600)) == 0);
	CHECK(sgpu_stage_directory(&path, NULL) == SGPU_EPOLICY);
	CHECK(unlink(folder) == 0 && rename(other, folder) == 0);
	CHECK(setenv("XDG_RUNTIME_DIR", "/nonexistent/folder", 1) == 0);
	CHECK(sgpu_stage_directory(&path, NULL) == SGPU_ESYSTEM);
	CHECK(setenv("XDG_RUNTIME_DIR", runtime, 1) == 0);
}

UNIT_TEST(a_folder_of_another_user_is_refused)
{
	char *path = NULL;

	if (geteuid() != 0) {
		SKIP("not root");
	}
	CHECK(chown(folder, 12345, 12345) == 0);
	CHECK(sgpu_stage_directory(&path, NULL) == SGPU_EPOLICY);
	CHECK(chown(folder, 0, 0) == 0);
}

UNIT_TEST(a_region_keeps_what_was_put_into_it)
{
	static const uint64_t sizes[] = { 0, 1, 4096, 100001, 5 << 20 };
	char id[SGPU_REGION_ID_TEXT + 1], path[160];
	struct sgpu_region region;
	struct stat status;
	uint8_t *bytes = malloc(6 << 20);
	size_t i, got, k;

	for (i = 0; i < 5; i++) {
		REQUIRE(publish(sizes[i], true, 0, id) == SGPU_OK);
		REQUIRE(sgpu_region_open(id, false, false, &region, NULL) == SGPU_OK);
		CHECK(strcmp(region.id, id) == 0 && region.size == sizes[i] &&
		      region.owner == geteuid());
		CHECK(region.maker == getpid() && region.keep && !region.expired);
		CHECK(region.expires - region.created == 3600 && region.numa_node == -1 &&
		      region.data == NULL);
		CHECK(sgpu_pread(region.fd, "region", bytes, sizes[i], SGPU_REGION_HEADER, &got,
				 NULL) == SGPU_OK);
		for (k = 0; k < got && bytes[k] == (uint8_t)(k * 3 + 1); k++) {
		}
		CHECK(got == sizes[i] && k == got);
		CHECK(write(region.fd, "x", 1) < 0);
		sgpu_region_close(&region);
		path_of(id, path);
		CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600 &&
		      status.st_nlink == 1);
		CHECK(sgpu_region_release(id, NULL) == SGPU_OK);
		CHECK(stat(path, &status) != 0);
		CHECK(sgpu_region_release(id, NULL) == SGPU_ESYSTEM);
	}
	free(bytes);
}

UNIT_TEST(ids_are_not_to_be_guessed)
{
	char a[SGPU_REGION_ID_TEXT + 1], b[SGPU_REGION_ID_TEXT + 1];

	REQUIRE(publish(1, true, 0, a) == SGPU_OK && publish(1, true, 0, b) == SGPU_OK);
	CHECK(strlen(a) == 32 && strcmp(a, b) != 0 && strncmp(a, b, 8) != 0);
	CHECK(sgpu_region_release(a, NULL) == SGPU_OK && sgpu_region_release(b, NULL) == SGPU_OK);
}

UNIT_TEST(what_is_not_published_has_no_name)
{
	struct sgpu_region_options options = { .numa_node = -1 };
	struct sgpu_region region;
	int status;
	pid_t child;

	REQUIRE(sgpu_region_create(100000, &options, &region, NULL) == SGPU_OK);
	CHECK(count_files() == 0 && open_code(region.id) == SGPU_EUNAVAILABLE);
	sgpu_region_close(&region);
	CHECK(region.fd == -1 && count_files() == 0);
	child = fork();
	if (child == 0) {
		if (sgpu_region_create(100000, &options, &region, NULL) == SGPU_OK &&
		    sgpu_region_back(&region, 0, 100000, NULL) == SGPU_OK) {
			memset(region.data, 1, 100000);
			raise(SIGKILL);
		}
		_exit(1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(count_files() == 0 && rmdir(folder) == 0);
}

UNIT_TEST(ids_of_another_form_are_refused)
{
	static const char *const bad[] = { "",
					   "a",
					   "0123456789abcdef0123456789abcde",
					   "0123456789abcdef0123456789abcdef0",
					   "0123456789ABCDEF0123456789abcdef",
					   "../../../../../../../../../etc/pas",
					   "0123456789abcdef0123456789abcde/",
					   "0123456789abcdef\n123456789abcdef" };
	struct sgpu_region region;
	size_t i;

	for (i = 0; i < 8; i++) {
		CHECK(open_code(bad[i]) == SGPU_EINVALID);
		CHECK(sgpu_region_open(bad[i], false, true, &region, NULL) == SGPU_EINVALID);
		CHECK(sgpu_region_release(bad[i], NULL) == SGPU_EINVALID);
	}
	CHECK(open_code("0123456789abcdef0123456789abcdef") == SGPU_EUNAVAILABLE);
}

UNIT_TEST(each_rule_on_the_file_is_enforced)
{
	char id[SGPU_REGION_ID_TEXT + 1], path[160], other[200];
	struct sgpu_region *list = NULL;
	int count = 0;

	REQUIRE(publish(5000, true, 0, id) == SGPU_OK);
	path_of(id, path);
	snprintf(other, sizeof(other), "%s-other", path);
	CHECK(open_code(id) == SGPU_OK);
	CHECK(chmod(path, 0640) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(chmod(path, 0400) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(chmod(path, 0600) == 0 && open_code(id) == SGPU_OK);
	CHECK(link(path, other) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(unlink(path) == 0 && symlink(other, path) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(sgpu_region_list(&list, &count, NULL) == SGPU_OK && count == 1);
	CHECK(count == 1 && list[0].why[0] && strcmp(list[0].id, id) == 0);
	sgpu_region_list_free(&list, count);
	CHECK(rmdir(path) == 0 && rename(other, path) == 0 && open_code(id) == SGPU_OK);
	if (geteuid() == 0) {
		CHECK(chown(path, 12345, 0) == 0 && open_code(id) == SGPU_EPOLICY);
		CHECK(chown(path, 0, 0) == 0 && open_code(id) == SGPU_OK);
	}
	CHECK(truncate(path, 4096) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(truncate(path, 100) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(truncate(path, 0) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK && count_files() == 0);
}

UNIT_TEST(a_region_under_another_name_is_refused)
{
	char id[SGPU_REGION_ID_TEXT + 1], path[160], other[160];

	REQUIRE(publish(10, true, 0, id) == SGPU_OK);
	path_of(id, path);
	id[0] = id[0] == '0' ? '1' : '0';
	path_of(id, other);
	CHECK(rename(path, other) == 0 && open_code(id) == SGPU_EPOLICY);
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK);
}

/* Puts `text` where the metadata were; %ld in it is the owner, then %s the id. */
static int with_metadata(const char *text, size_t extra, char byte)
{
	char id[SGPU_REGION_ID_TEXT + 1], path[160], page[SGPU_REGION_HEADER] = { 0 };
	int fd, code;

	if (publish(10, true, 0, id) != SGPU_OK) {
		return 1;
	}
	path_of(id, path);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(page, sizeof(page), text, (long)geteuid(), id);
#pragma GCC diagnostic pop
	if (extra) {
		page[extra] = byte;
	}
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && pwrite(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page));
	close(fd);
	code = open_code(id);
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK);
	return code;
}

#define META(id, owner, size, created, expires, more)                                 \
	"{\"created\":" created ",\"expires\":" expires ",\"keep\":true,\"maker\":1," \
	"\"owner\":" owner ",\"region\":\"" id "\","                                  \
	"\"size\":" size ",\"use\":\"inputs\",\"version\":3" more "}\n"

UNIT_TEST(hostile_metadata_are_refused)
{
	static const char good[] = META("%s", "%ld", "10", "1000", "4000000000", "");
	static const char *const bad[] = {
		META("%s", "%ld", "10", "1000", "2000", ""), /* expired; and the rest are worse */
		META("%s", "%ld", "5000", "3900000000", "4000000000", ""), /* size */
		META("%s", "%ld", "-1", "3900000000", "4000000000", ""),
		META("%s", "%ld", "18446744073709551615", "3900000000", "4000000000", ""),
		META("%s", "%ld", "9007199254740993", "3900000000", "4000000000", ""),
		META("%s", "%ld", "\"10\"", "3900000000", "4000000000", ""),
		META("%s", "%ld1", "10", "3900000000", "4000000000", ""), /* owner */
		META("%s", "%ld", "10", "4000000000", "4000000000", ""),  /* dies when it is born */
		META("%s", "%ld", "10", "3900000000", "4000000000", ",\"more\":1"),
		META("%s", "%ld", "10", "3900000000", "4000000000", ",\"size\":10"),
		META("0%s", "%ld", "10", "3900000000", "4000000000", ""),
		META("", "0", "10", "3900000000", "4000000000", ""),
		"{\"created\":3900000000,\"expires\":4000000000,\"keep\":false,\"maker\":1,"
		"\"owner\":%ld,\"region\":\"%s\","
		"\"size\":10,\"use\":\"both\",\"version\":2}\n", /* results, and not kept */
		"",
		"\n",
		"{}\n",
		"[]\n",
		"{",
		"null\n",
		"no JSON\n",
	};
	size_t i;

	(void)good;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(with_metadata(bad[i], 0, 0) == SGPU_EPOLICY);
	}
	/* The text that they differ from is taken, and nothing may follow it. */
	CHECK(with_metadata(META("%s", "%ld", "10", "3900000000", "4000000000", ""), 0, 0) ==
	      SGPU_OK);
	CHECK(with_metadata(META("%s", "%ld", "10", "3900000000", "4000000000", ""), 4095, 1) ==
	      SGPU_EPOLICY);
	CHECK(with_metadata(good, 0, 0) == SGPU_EPOLICY); /* lives too long */
}

/* Sets back the clock of a region by writing other times into it. */
static void expire(const char *id)
{
	char path[160], page[SGPU_REGION_HEADER];
	char *created, *expires;
	int fd;

	path_of(id, path);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && pread(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page));
	created = strstr(page, "\"created\":");
	expires = strstr(page, "\"expires\":");
	CHECK(created && expires);
	memcpy(created + 10, "1000000000", 10);
	memcpy(expires + 10, "1000000001", 10);
	CHECK(pwrite(fd, page, sizeof(page), 0) == (ssize_t)sizeof(page));
	close(fd);
}

UNIT_TEST(an_expired_region_is_refused_listed_and_reaped)
{
	char id[SGPU_REGION_ID_TEXT + 1], other[SGPU_REGION_ID_TEXT + 1];
	struct sgpu_region *list = NULL, region;
	int count = 0;

	REQUIRE(publish(10, false, 0, id) == SGPU_OK && publish(20, false, 0, other) == SGPU_OK);
	expire(id);
	CHECK(open_code(id) == SGPU_EPOLICY && open_code(other) == SGPU_OK);
	CHECK(sgpu_region_open(id, false, true, &region, NULL) == SGPU_EPOLICY);
	CHECK(sgpu_region_list(&list, &count, NULL) == SGPU_OK);
	REQUIRE(count == 2);
	CHECK(list[0].expired && list[0].why[0] && strcmp(list[0].id, id) == 0 && !list[1].why[0]);
	CHECK(list[0].fd == -1 && list[0].path && strstr(list[0].path, id));
	sgpu_region_list_free(&list, count);
	CHECK(sgpu_region_reap(&count, NULL) == SGPU_OK && count == 1);
	CHECK(open_code(id) == SGPU_EUNAVAILABLE && open_code(other) == SGPU_OK);
	CHECK(sgpu_region_reap(NULL, NULL) == SGPU_OK);
	CHECK(sgpu_region_release(other, NULL) == SGPU_OK);
}

UNIT_TEST(a_lifetime_is_rounded_up_and_bounded)
{
	char id[SGPU_REGION_ID_TEXT + 1];
	struct sgpu_region region;

	REQUIRE(publish(1, true, 1, id) == SGPU_OK);
	if (sgpu_region_open(id, false, false, &region, NULL) == SGPU_OK) {
		CHECK(region.expires - region.created == 1);
		sgpu_region_close(&region);
	}
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK);
	CHECK(publish(1, true, (uint64_t)11 * 366 * 86400 * 1000000000, id) == SGPU_EUSAGE);
}

UNIT_TEST(taking_unlinks_unless_it_is_kept)
{
	char id[SGPU_REGION_ID_TEXT + 1], byte;
	struct sgpu_region region, again;

	REQUIRE(publish(10, false, 0, id) == SGPU_OK);
	REQUIRE(sgpu_region_open(id, false, true, &region, NULL) == SGPU_OK);
	CHECK(count_files() == 0);
	CHECK(sgpu_region_open(id, false, true, &again, NULL) == SGPU_EUNAVAILABLE);
	CHECK(pread(region.fd, &byte, 1, SGPU_REGION_HEADER + 2) == 1 && byte == 7);
	sgpu_region_close(&region);

	REQUIRE(publish(10, true, 0, id) == SGPU_OK);
	REQUIRE(sgpu_region_open(id, false, true, &region, NULL) == SGPU_OK);
	CHECK(sgpu_region_open(id, false, true, &again, NULL) == SGPU_OK);
	sgpu_region_close(&again);
	/* Released while it is open: the name goes, the holder can finish. */
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK && count_files() == 0);
	CHECK(pread(region.fd, &byte, 1, SGPU_REGION_HEADER + 2) == 1 && byte == 7);
	sgpu_region_close(&region);
}

static char race_id[SGPU_REGION_ID_TEXT + 1];
static pthread_barrier_t start;
static void *race(void *won)
{
	struct sgpu_region region;

	pthread_barrier_wait(&start);
	if (sgpu_region_open(race_id, false, true, &region, NULL) == SGPU_OK) {
		*(int *)won = 1;
		sgpu_region_close(&region);
	}
	return NULL;
}

UNIT_TEST(of_many_that_take_at_once_one_wins)
{
	enum { TAKERS = 6 };
	pthread_t threads[TAKERS];
	int won[TAKERS], i, round, sum;

	for (round = 0; round < 50; round++) {
		REQUIRE(publish(1, false, 0, race_id) == SGPU_OK);
		pthread_barrier_init(&start, NULL, TAKERS);
		memset(won, 0, sizeof(won));
		for (i = 0; i < TAKERS; i++) {
			pthread_create(&threads[i], NULL, race, &won[i]);
		}
		for (i = sum = 0; i < TAKERS; i++) {
			pthread_join(threads[i], NULL);
			sum += won[i];
		}
		pthread_barrier_destroy(&start);
		CHECK(sum == 1);
	}
	CHECK(count_files() == 0);
}

UNIT_TEST(release_overwrites_with_zeros)
{
	char id[SGPU_REGION_ID_TEXT + 1], path[160], bytes[10000];
	size_t i;
	int fd;

	REQUIRE(publish(10000, true, 0, id) == SGPU_OK);
	path_of(id, path);
	fd = open(path, O_RDONLY); /* without a lock: not a runner */
	CHECK(sgpu_region_release(id, NULL) == SGPU_OK);
	CHECK(pread(fd, bytes, sizeof(bytes), SGPU_REGION_HEADER) == (ssize_t)sizeof(bytes));
	for (i = 0; i < sizeof(bytes) && bytes[i] == 0; i++) {
	}
	CHECK(i == sizeof(bytes));
	close(fd);
}

UNIT_TEST(what_does_not_fit_is_refused_at_once)
{
	static const uint64_t sizes[] = { (uint64_t)1 << 50, (uint64_t)1 << 53,
					  ((uint64_t)1 << 53) + 1, UINT64_MAX, UINT64_MAX - 4096 };
	struct sgpu_region region;
	size_t i;
	int code;

	for (i = 0; i < 5; i++) {
		code = sgpu_region_create(sizes[i], NULL, &region, NULL);
		CHECK(code == SGPU_ENOMEM || code == SGPU_ESYSTEM);
		CHECK(region.fd == -1 && region.data == NULL);
	}
	REQUIRE(sgpu_region_create(100, NULL, &region, NULL) == SGPU_OK);
	CHECK(sgpu_region_back(&region, 0, 101, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_region_back(&region, UINT64_MAX, 2, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_region_back(&region, 100, 0, NULL) == SGPU_OK);
	sgpu_region_close(&region);
}

UNIT_TEST(numa_nodes_that_are_not_there_are_refused)
{
	struct sgpu_region_options options = { .numa_node = 4000 };
	struct sgpu_region region;
	int code;

	code = sgpu_region_create(100, &options, &region, NULL);
	CHECK(code == SGPU_EUSAGE || code == SGPU_EUNAVAILABLE);
	CHECK(region.fd == -1);
	options.numa_node = 0;
	code = sgpu_region_create(100, &options, &region, NULL);
	CHECK(code == SGPU_OK ? region.numa_node == 0 : code == SGPU_EUNAVAILABLE);
	sgpu_region_close(&region);
}

int main(void)
{
	snprintf(runtime, sizeof(runtime), "/dev/shm/sgpu-test-XXXXXX");
	if (!mkdtemp(runtime)) {
		snprintf(runtime, sizeof(runtime), "/tmp/sgpu-test-XXXXXX");
		if (!mkdtemp(runtime)) {
			return 1;
		}
	}
	snprintf(folder, sizeof(folder), "%s/sgpu", runtime);
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	UNIT_RUN(the_folder_is_made_for_its_user_alone);
	UNIT_RUN(a_folder_that_others_could_use_is_refused);
	UNIT_RUN(a_folder_of_another_user_is_refused);
	UNIT_RUN(a_region_keeps_what_was_put_into_it);
	UNIT_RUN(ids_are_not_to_be_guessed);
	UNIT_RUN(what_is_not_published_has_no_name);
	UNIT_RUN(ids_of_another_form_are_refused);
	UNIT_RUN(each_rule_on_the_file_is_enforced);
	UNIT_RUN(a_region_under_another_name_is_refused);
	UNIT_RUN(hostile_metadata_are_refused);
	UNIT_RUN(an_expired_region_is_refused_listed_and_reaped);
	UNIT_RUN(a_lifetime_is_rounded_up_and_bounded);
	UNIT_RUN(taking_unlinks_unless_it_is_kept);
	UNIT_RUN(of_many_that_take_at_once_one_wins);
	UNIT_RUN(release_overwrites_with_zeros);
	UNIT_RUN(what_does_not_fit_is_refused_at_once);
	UNIT_RUN(numa_nodes_that_are_not_there_are_refused);
	rmdir(folder);
	rmdir(runtime);
	return unit_done();
}
