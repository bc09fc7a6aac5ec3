/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: the bounds of files and regions; and the sources of a batch, which take a region once
 * and share it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/stage.h"
#include "unit.h"

static char runtime[64], folder[80], file[96];

enum { BOTH = SGPU_REGION_INPUTS | SGPU_REGION_RESULTS };

static int publish_for(unsigned use, uint64_t size, bool keep, struct sgpu_location *location)
{
	struct sgpu_region_options options = { .use = use, .numa_node = -1, .keep = keep };
	struct sgpu_region region;
	int code = sgpu_region_create(size, &options, &region, NULL);

	if (code < 0) {
		return code;
	}
	code = sgpu_region_back(&region, 0, size, NULL);
	if (code == SGPU_OK) {
		memset(region.data, 'r', size);
		code = sgpu_region_publish(&region, NULL);
	}
	memset(location, 0, sizeof(*location));
	location->kind = SGPU_LOCATION_REGION;
	memcpy(location->region, region.id, sizeof(location->region));
	sgpu_region_close(&region);
	return code;
}

static int publish(uint64_t size, bool keep, struct sgpu_location *location)
{
	return publish_for(keep ? BOTH : SGPU_REGION_INPUTS, size, keep, location);
}

static bool there(const struct sgpu_location *location)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", folder, location->region);
	return access(path, F_OK) == 0;
}

UNIT_TEST(a_file_is_opened_within_its_bounds)
{
	struct sgpu_location location = { .kind = SGPU_LOCATION_FILE, .file = file, .offset = 3 };
	struct sgpu_source source;
	struct sgpu_error error;
	char bytes[8];
	int fd = open(file, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	REQUIRE(fd >= 0 && write(fd, "0123456789", 10) == 10);
	close(fd);
	REQUIRE(sgpu_source_open(&location, 7, &source, NULL) == SGPU_OK);
	CHECK(source.owned && source.offset == 3 && source.size == 7 &&
	      strcmp(source.name, file) == 0);
	CHECK(pread(source.fd, bytes, 7, (off_t)source.offset) == 7 &&
	      memcmp(bytes, "3456789", 7) == 0);
	sgpu_source_close(&source);
	CHECK(source.fd == -1);
	sgpu_source_close(&source);
	CHECK(sgpu_source_open(&location, 8, &source, &error) == SGPU_EINVALID && source.fd == -1);
	CHECK(strstr(error.text, file));
	CHECK(sgpu_source_open(&location, UINT64_MAX, &source, NULL) == SGPU_EINVALID);
	location.offset = 10;
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_OK);
	sgpu_source_close(&source);
	location.offset = UINT64_MAX;
	CHECK(sgpu_source_open(&location, 2, &source, NULL) == SGPU_EINVALID);
	unlink(file);
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_ESYSTEM);
}

UNIT_TEST(what_is_no_regular_file_is_refused_without_waiting)
{
	struct sgpu_location location = { .kind = SGPU_LOCATION_FILE, .file = file };
	struct sgpu_source source;

	REQUIRE(mkfifo(file, 0600) == 0);
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_EINVALID);
	unlink(file);
	location.file = runtime;
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_EINVALID);
	location.file = (char *)"/dev/zero";
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_EINVALID);
	location.kind = SGPU_LOCATION_INLINE;
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_EUSAGE);
}

UNIT_TEST(a_slice_must_lie_in_its_region)
{
	struct sgpu_location location;
	struct sgpu_source source;
	char byte;

	REQUIRE(publish(100, true, &location) == SGPU_OK);
	location.offset = 99;
	REQUIRE(sgpu_source_open(&location, 1, &source, NULL) == SGPU_OK);
	CHECK(pread(source.fd, &byte, 1, (off_t)source.offset) == 1 && byte == 'r');
	CHECK(strstr(source.name, location.region));
	sgpu_source_close(&source);
	CHECK(sgpu_source_open(&location, 2, &source, NULL) == SGPU_EPOLICY && source.fd == -1);
	CHECK(sgpu_source_open(&location, UINT64_MAX, &source, NULL) == SGPU_EPOLICY);
	location.offset = 101;
	CHECK(sgpu_source_open(&location, 0, &source, NULL) == SGPU_EPOLICY);
	location.offset = UINT64_MAX;
	CHECK(sgpu_source_open(&location, 1, &source, NULL) == SGPU_EPOLICY);
	CHECK(sgpu_region_release(location.region, NULL) == SGPU_OK);
}

UNIT_TEST(leases_take_a_region_once_and_share_it)
{
	struct sgpu_sources *sources, *others;
	struct sgpu_location location;
	struct sgpu_source a, b;

	REQUIRE(publish(100, false, &location) == SGPU_OK);
	REQUIRE(sgpu_sources_create(NULL, &sources, NULL) == SGPU_OK &&
		sgpu_sources_create(NULL, &others, NULL) == SGPU_OK);
	CHECK(there(&location));
	REQUIRE(sgpu_sources_open(sources, &location, 10, false, &a, NULL) == SGPU_OK);
	CHECK(!there(&location));
	location.offset = 50;
	REQUIRE(sgpu_sources_open(sources, &location, 50, false, &b, NULL) == SGPU_OK);
	CHECK(a.fd == b.fd && b.offset == a.offset + 50 && !a.owned);
	sgpu_source_close(&a);
	CHECK(sgpu_sources_open(sources, &location, 51, false, &a, NULL) == SGPU_EPOLICY);
	CHECK(sgpu_sources_open(sources, &location, 1, true, &a, NULL) == SGPU_EPOLICY);
	CHECK(sgpu_sources_open(others, &location, 1, false, &a, NULL) == SGPU_EUNAVAILABLE);
	CHECK(sgpu_sources_open(sources, &location, 1, false, &a, NULL) == SGPU_OK);
	sgpu_sources_free(&sources);
	CHECK(sources == NULL && fcntl(b.fd, F_GETFD) < 0);
	sgpu_sources_free(&sources);
	sgpu_sources_free(&others);
}

UNIT_TEST(outputs_are_written_to_a_region_that_is_kept)
{
	struct sgpu_sources *sources;
	struct sgpu_location location, plain = { .kind = SGPU_LOCATION_FILE, .file = file };
	struct sgpu_source in, out;
	char byte = 0;

	REQUIRE(publish(100, true, &location) == SGPU_OK);
	REQUIRE(sgpu_sources_create(NULL, &sources, NULL) == SGPU_OK);
	REQUIRE(sgpu_sources_open(sources, &location, 100, false, &in, NULL) == SGPU_OK);
	CHECK(pwrite(in.fd, "x", 1, (off_t)in.offset) < 0);
	location.offset = 20;
	REQUIRE(sgpu_sources_open(sources, &location, 1, true, &out, NULL) == SGPU_OK);
	CHECK(pwrite(out.fd, "x", 1, (off_t)out.offset) == 1);
	CHECK(pread(in.fd, &byte, 1, (off_t)in.offset + 20) == 1 && byte == 'x');
	CHECK(sgpu_sources_open(sources, &plain, 1, true, &out, NULL) == SGPU_EUSAGE);
	sgpu_sources_free(&sources);
	CHECK(there(&location));
	CHECK(sgpu_region_release(location.region, NULL) == SGPU_OK);
}

UNIT_TEST(a_region_is_used_for_what_it_is_made_for)
{
	static const unsigned uses[] = { SGPU_REGION_INPUTS, SGPU_REGION_RESULTS, BOTH };
	struct sgpu_source slice;
	struct sgpu_location location;
	struct sgpu_sources *sources;
	struct sgpu_source source;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(uses); i++) {
		const bool in = uses[i] & SGPU_REGION_INPUTS, out = uses[i] & SGPU_REGION_RESULTS;

		REQUIRE(publish_for(uses[i], 100, true, &location) == SGPU_OK);
		REQUIRE(sgpu_sources_create(NULL, &sources, NULL) == SGPU_OK);
		CHECK(sgpu_region_check(&location, 100, false, NULL) ==
		      (in ? SGPU_OK : SGPU_EPOLICY));
		CHECK(sgpu_region_check(&location, 100, true, NULL) ==
		      (out ? SGPU_OK : SGPU_EPOLICY));
		CHECK(sgpu_sources_open(sources, &location, 100, false, &source, NULL) ==
		      (in ? SGPU_OK : SGPU_EPOLICY));
		CHECK(sgpu_sources_open(sources, &location, 100, true, &source, NULL) ==
		      (out ? SGPU_OK : SGPU_EPOLICY));
		sgpu_sources_free(&sources);
		CHECK(sgpu_slice_open(&location, 100, &slice, NULL) ==
		      (in ? SGPU_OK : SGPU_EPOLICY));
		sgpu_source_close(&slice);
		CHECK(sgpu_region_release(location.region, NULL) == SGPU_OK);
	}
}

UNIT_TEST(a_slice_that_its_owner_fills_is_what_a_runner_reads)
{
	struct sgpu_source slice;
	struct sgpu_location location;
	struct sgpu_sources *sources;
	struct sgpu_source source;
	char bytes[7];

	REQUIRE(publish_for(SGPU_REGION_INPUTS, 100, true, &location) == SGPU_OK);
	location.offset = 90;
	CHECK(sgpu_slice_open(&location, 11, &slice, NULL) == SGPU_EPOLICY && slice.fd == -1);
	location.offset = UINT64_MAX - 3;
	CHECK(sgpu_slice_open(&location, 7, &slice, NULL) == SGPU_EPOLICY && slice.fd == -1);
	location.offset = 93;
	REQUIRE(sgpu_slice_open(&location, 7, &slice, NULL) == SGPU_OK);
	CHECK(pwrite(slice.fd, "payload", 7, (off_t)slice.offset) == 7);
	sgpu_source_close(&slice);
	REQUIRE(sgpu_sources_create(NULL, &sources, NULL) == SGPU_OK);
	REQUIRE(sgpu_sources_open(sources, &location, 7, false, &source, NULL) == SGPU_OK);
	CHECK(pread(source.fd, bytes, 7, (off_t)source.offset) == 7 &&
	      memcmp(bytes, "payload", 7) == 0);
	sgpu_sources_free(&sources);
	CHECK(sgpu_region_release(location.region, NULL) == SGPU_OK);
	CHECK(sgpu_slice_open(&location, 7, &slice, NULL) == SGPU_EUNAVAILABLE);
}

struct user {
	struct sgpu_sources *sources;
	const struct sgpu_location *location;
	int code;
};

static void *use(void *argument)
{
	struct user *user = argument;
	struct sgpu_source source;

	user->code = sgpu_sources_open(user->sources, user->location, 1, false, &source, NULL);
	sgpu_source_close(&source);
	return NULL;
}

UNIT_TEST(any_thread_may_use_leases)
{
	enum { USERS = 8 };
	struct sgpu_sources *sources;
	struct sgpu_location location;
	struct user users[USERS];
	pthread_t threads[USERS];
	int i;

	REQUIRE(publish(100, false, &location) == SGPU_OK);
	REQUIRE(sgpu_sources_create(NULL, &sources, NULL) == SGPU_OK);
	for (i = 0; i < USERS; i++) {
		users[i] = (struct user){ sources, &location, 1 };
		pthread_create(&threads[i], NULL, use, &users[i]);
	}
	for (i = 0; i < USERS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(users[i].code == SGPU_OK);
	}
	sgpu_sources_free(&sources);
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
	snprintf(file, sizeof(file), "%s/file", runtime);
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	UNIT_RUN(a_file_is_opened_within_its_bounds);
	UNIT_RUN(what_is_no_regular_file_is_refused_without_waiting);
	UNIT_RUN(a_slice_must_lie_in_its_region);
	UNIT_RUN(leases_take_a_region_once_and_share_it);
	UNIT_RUN(outputs_are_written_to_a_region_that_is_kept);
	UNIT_RUN(a_region_is_used_for_what_it_is_made_for);
	UNIT_RUN(a_slice_that_its_owner_fills_is_what_a_runner_reads);
	UNIT_RUN(any_thread_may_use_leases);
	rmdir(folder);
	rmdir(runtime);
	return unit_done();
}
