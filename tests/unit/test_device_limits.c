/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and streams of the CPU device where the kernel gives no more mappings, addresses, files or
 * threads: what cannot be done is refused and changes nothing, and what is taken away is never left
 * within reach.
 */
#include <errno.h>
#include <sys/mman.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages_harness.h"

enum { PAGES = 8 };
/* More mappings than this take too long to use up. */
#define MANY 200000

static struct {
	char *base;
	size_t size;
} filler;

static long most_mappings(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
	long most = 0;

	if (file) {
		if (fscanf(file, "%ld", &most) != 1) {
			most = 0;
		}
		fclose(file);
	}
	return most;
}

/* Every second page of a range is given a protection of its own, until the kernel refuses. */
static bool use_up_mappings(void)
{
	size_t i;

	filler.size = ((size_t)most_mappings() + 64) * 4096;
	filler.base = mmap(NULL, filler.size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (filler.base == MAP_FAILED) {
		return false;
	}
	for (i = 0; i + 1 < filler.size / 4096; i += 2) {
		if (mprotect(filler.base + i * 4096, 4096, PROT_READ) != 0) {
			return true;
		}
	}
	return false;
}

static void give_mappings_back(void)
{
	CHECK(munmap(filler.base, filler.size) == 0);
}

/* In a child, which the checks of a parent see nothing of. Whether it found nothing wrong. */
static bool in_child(void (*what)(void))
{
	const struct rlimit none = { 0 };
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		unit_bad = 0;
		what();
		fflush(stdout);
		_exit(unit_bad != 0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* Whether the kernel gives an address to somebody else, who asks for as much as fits there. */
static bool is_given_away(const struct room *room, uint64_t page)
{
	const uintptr_t at = room->base + page * info.small;
	void *taken = mmap((void *)at, info.small, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return taken != MAP_FAILED || errno != EEXIST;
}

static void work_without_mappings(void)
{
	static const uint32_t run[] = { 10, 11, 12 };
	struct room room, other;
	int code;

	open_all(0);
	room = make_room(PAGES);
	other = make_room(PAGES);
	REQUIRE(sgpu_page_map(room.space, info.small, run, 3, info.small, &error) == SGPU_OK);
	for (uint64_t i = 1; i <= 3; i++) {
		CHECK(put(room.base + i * info.small, i) == SGPU_OK);
	}
	REQUIRE(use_up_mappings());
	/* A page in the midst of others cannot even be mapped, let alone taken out of them. */
	CHECK(sgpu_page_map(other.space, 2 * info.small, (const uint32_t[]){ 20, 30, 40 }, 3,
			    info.small, &error) == SGPU_ENOMEM);
	CHECK(strstr(error.hint, "vm.max_map_count"));
	CHECK(put(other.base + 2 * info.small, 1) == SGPU_EUSAGE);
	code = sgpu_page_unmap(room.space, 2 * info.small, info.small, &error);
	CHECK(code == SGPU_ENOMEM && error.text[0]);
	for (uint64_t i = 1; i <= 3; i++) {
		CHECK(holds(room.base + i * info.small, i));
	}
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, info.small, 3 * info.small, &error) == SGPU_OK);
	CHECK(munmap(filler.base, 101 * 4096) == 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		CHECK(!is_given_away(&room, i) && !is_given_away(&other, i));
	}
	sgpu_space_free(&other.space);
	give_mappings_back();
	/* Nothing of that is in the way now. */
	CHECK(sgpu_page_map(room.space, 0, (const uint32_t[]){ 20, 30, 11 }, 3, info.small,
			    &error) == SGPU_OK);
	CHECK(holds(room.base, 0) && holds(room.base + 2 * info.small, 0));
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(without_mappings_pages_are_refused_and_nothing_changes)
{
	CPU_ONLY("its pages are mapped by its driver");
	if (UNIT_SANITIZED || most_mappings() == 0 || most_mappings() > MANY) {
		SKIP("a checker needs mappings, too, or the kernel gives too many to use them up");
	}
	CHECK(in_child(work_without_mappings));
}

/* One mapping after another runs into the limit, wherever that is. */
static void map_until_refused(void)
{
	struct room room;
	uint64_t i, mapped = 0, word;
	int code = SGPU_OK;

	open_all(0);
	room = make_room(4096);
	REQUIRE(use_up_mappings());
	/* Some are to be had again. */
	CHECK(munmap(filler.base, 101 * 4096) == 0);
	for (i = 0; i < 4096 && code == SGPU_OK; i += 2) {
		code = sgpu_page_map(room.space, i * info.small,
				     (const uint32_t[]){ (uint32_t)(4096 - i) }, 1, info.small,
				     &error);
		mapped += code == SGPU_OK;
	}
	CHECK(code == SGPU_ENOMEM && mapped > 10 && mapped < 101);
	for (i = 0; i < mapped; i++) {
		CHECK(put(room.base + 2 * i * info.small, i) == SGPU_OK);
	}
	CHECK(put(room.base + 2 * mapped * info.small, 1) == SGPU_EUSAGE);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK &&
	      get(room.base, &word) == SGPU_EUSAGE);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK &&
	      holds(room.base + 2 * info.small, 1));
	sgpu_space_free(&room.space);
	room = make_room(1);
	CHECK(sgpu_page_map(room.space, 0, (const uint32_t[]){ 4094 }, 1, info.small, &error) ==
	      SGPU_OK);
	CHECK(holds(room.base, 0));
	close_all();
}

UNIT_TEST(mappings_that_run_out_end_with_a_refusal)
{
	CPU_ONLY("its pages are mapped by its driver");
	if (UNIT_SANITIZED || most_mappings() == 0 || most_mappings() > MANY) {
		SKIP("a checker needs mappings, too, or the kernel gives too many to use them up");
	}
	CHECK(in_child(map_until_refused));
}

static void open_without_addresses(void)
{
	const struct rlimit limit = { (rlim_t)4 << 30, (rlim_t)4 << 30 };
	struct sgpu_space *space = NULL;
	struct room room;
	sgpu_devptr base;

	open_all(0);
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHECK(sgpu_space_create(device, (uint64_t)1 << 40, &space, &base, &error) == SGPU_ENOMEM &&
	      !space);
	CHECK(sgpu_space_create(device, (uint64_t)INT64_MAX / 2 / 4096 * 4096, &space, &base,
				&error) == SGPU_ENOMEM);
	room = make_room(PAGES);
	CHECK(sgpu_page_map(room.space, 0, (const uint32_t[]){ 3 }, 1, info.small, &error) ==
	      SGPU_OK);
	CHECK(put(room.base, 7) == SGPU_OK && holds(room.base, 7));
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(without_addresses_there_are_no_pages)
{
	CPU_ONLY("its addresses are its driver's");
	CHECK(UNIT_SANITIZED || in_child(open_without_addresses));
}

static int work_slowly(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	usleep(100000);
	atomic_fetch_add((atomic_int *)argument, 1);
	return SGPU_OK;
}

static void work_without_threads(void)
{
	const struct rlimit limit = { 0 };
	struct sgpu_stream *one = NULL, *other = NULL;
	struct sgpu_event *event = NULL;
	atomic_int calls = 0;

	device = open_test_device(1, 0);
	REQUIRE(sgpu_stream_create(device, &one, &error) == SGPU_OK &&
		sgpu_stream_create(device, &other, &error) == SGPU_OK &&
		sgpu_event_create(device, &event, &error) == SGPU_OK);
	CHECK(sgpu_device_launch_on(other, work_slowly, &calls, NULL, 0, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(other, &error) == SGPU_OK);
	/* No thread gets a stack; the thread that is there goes on. */
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHECK(sgpu_device_launch_on(other, work_slowly, &calls, NULL, 0, NULL) == SGPU_OK);
	CHECK(sgpu_event_record(other, event) == SGPU_OK && atomic_load(&calls) == 1);
	CHECK(sgpu_stream_wait(one, event) == SGPU_OK && atomic_load(&calls) == 2);
	CHECK(sgpu_device_launch_on(one, work_slowly, &calls, NULL, 0, NULL) == SGPU_OK);
	CHECK(atomic_load(&calls) == 3);
	sgpu_event_free(&event);
	sgpu_stream_free(&one);
	sgpu_stream_free(&other);
	sgpu_device_close(&device);
}

UNIT_TEST(without_threads_the_caller_does_the_work_of_a_stream)
{
	CPU_ONLY("its streams have no threads");
	CHECK(UNIT_SANITIZED || in_child(work_without_threads));
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(without_mappings_pages_are_refused_and_nothing_changes);
	UNIT_RUN(mappings_that_run_out_end_with_a_refusal);
	UNIT_RUN(without_addresses_there_are_no_pages);
	UNIT_RUN(without_threads_the_caller_does_the_work_of_a_stream);
	return unit_done();
}
