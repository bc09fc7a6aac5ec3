/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a device: who reaches what, and when.
 * No threads of kernels share memory: racecheck has nothing to find.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages_harness.h"
#include "work_calls.h"

static int never(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	*(bool *)argument = true;
	return SGPU_OK;
}

/* Every request that touches device memory, on 8 bytes at `address`; how many are taken. */
enum { REQUESTS = 8 };
static int count_taken(sgpu_devptr address, sgpu_devptr good, struct sgpu_device_key *key)
{
	struct sgpu_device_range ranges[2] = { { good, 8 }, { address, 8 } };
	static uint64_t word;
	static bool ran;
	static struct sgpu_task tasks[REQUESTS];
	uint8_t digest[32];
	int taken = 0, n = 0;

	ran = false;
	memset(tasks, 0, sizeof(tasks));
#define TRY(call)                                                                                  \
	do {                                                                                       \
		int code_ = call;                                                                  \
		CHECK(code_ == SGPU_OK || (code_ == SGPU_EUSAGE && tasks[n].code == SGPU_EUSAGE && \
					   tasks[n].error.text[0]));                               \
		taken += code_ == SGPU_OK;                                                         \
		n++;                                                                               \
	} while (0)
	TRY(sgpu_copy_in(stream, address, &word, 8, &tasks[n]));
	TRY(sgpu_copy_out(stream, &word, address, 8, &tasks[n]));
	TRY(sgpu_device_clear(stream, address, 8, &tasks[n]));
	TRY(digest_of(stream, address, 8, digest, &tasks[n]));
	TRY(sgpu_device_measure(stream, address, 8, NULL, digest, &tasks[n]));
	TRY(sgpu_device_seal_chunks(stream, key, 0, true, address, 8, good, &tasks[n]));
	TRY(sgpu_device_open_chunks(stream, key, 0, true, good, 8 + SGPU_TAG_SIZE, address,
				    &tasks[n]));
	TRY(sgpu_device_launch_on(stream, never, &ran, ranges, 2, &tasks[n]));
#undef TRY
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(ran == (taken == n));
	return taken;
}

UNIT_TEST(only_what_is_mapped_is_reached)
{
	static const struct sgpu_sealed_keys material;
	struct sgpu_device_key *key = NULL;
	struct room room, other;
	sgpu_devptr good;

	open_all(0);
	REQUIRE(sgpu_device_alloc(device, 4096, &good, &error) == SGPU_OK);
	if (sgpu_device_key_load(stream, &material, &key, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
	}
	REQUIRE(key);
	room = make_room(8);
	other = make_room(8);
	REQUIRE(sgpu_page_map(room.space, info.small, (const uint32_t[]){ 4, 9 }, 2, info.small,
			      &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(other.space, 0, (const uint32_t[]){ 5 }, 1, info.small, &error) ==
		SGPU_OK);
	CHECK(count_taken(room.base + info.small, good, key) == REQUESTS);
	CHECK(count_taken(room.base + 2 * info.small - 4, good, key) == REQUESTS);
	CHECK(count_taken(room.base + 3 * info.small - 8, good, key) == REQUESTS);
	CHECK(count_taken(room.base + 3 * info.small - 7, good, key) == 0);
	CHECK(count_taken(room.base + info.small - 1, good, key) == 0);
	CHECK(count_taken(room.base, good, key) == 0);
	CHECK(count_taken(room.base + 8 * info.small - 4, good, key) == 0);
	CHECK(sgpu_copy_in(stream, room.base + info.small, &good, UINT64_MAX, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, info.small, info.small, &error) == SGPU_OK);
	CHECK(count_taken(room.base + info.small, good, key) == 0);
	CHECK(count_taken(room.base + 2 * info.small - 4, good, key) == 0);
	CHECK(count_taken(room.base + 2 * info.small, good, key) == REQUESTS);
	/* Without access nothing is, and what is mapped meanwhile is not either. */
	CHECK(put(room.base + 2 * info.small, 77) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(count_taken(room.base + 2 * info.small, good, key) == 0);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 20 }, 1, info.small, &error) ==
		SGPU_OK);
	CHECK(count_taken(room.base, good, key) == 0);
	CHECK(count_taken(other.base, good, key) == REQUESTS);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	CHECK(holds(room.base + 2 * info.small, 77) && holds(room.base, 0));
	CHECK(put(room.base, 5) == SGPU_OK && holds(room.base, 5));
	sgpu_space_free(&room.space);
	CHECK(count_taken(room.base, good, key) == 0 &&
	      count_taken(other.base, good, key) == REQUESTS);
	sgpu_device_key_free(&key);
	sgpu_space_free(&other.space);
	sgpu_device_free(device, &good, 4096);
	close_all();
}

UNIT_TEST(a_new_space_is_not_reachable)
{
	struct sgpu_space *space;
	sgpu_devptr base;

	open_all(0);
	REQUIRE(sgpu_space_create(device, info.small, &space, &base, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(space, 0, (const uint32_t[]){ 0 }, 1, info.small, &error) == SGPU_OK);
	CHECK(put(base, 1) == SGPU_EUSAGE);
	CHECK(sgpu_space_access(space, true, &error) == SGPU_OK);
	CHECK(put(base, 1) == SGPU_OK && holds(base, 1));
	close_all(); /* with the space in it */
}

/* ---- access and work that runs ---- */
struct slow {
	uint64_t ns;
	volatile uint64_t *word;
};

static int run_slowly(struct sgpu_launch *launch, void *argument)
{
	struct slow *slow = argument;
	uint64_t end = sgpu_now_ns() + slow->ns;

	(void)launch;
	do {
		(*slow->word)++;
	} while (sgpu_now_ns() < end);
	return SGPU_OK;
}

UNIT_TEST(access_is_taken_away_from_nothing_that_runs)
{
	struct sgpu_task task = { 0 };
	struct slow slow = { .ns = 30000000 };
	struct room room;
	uint64_t found = 0;

	CPU_ONLY("the kernel is native code");
	open_all(0);
	room = make_room(1);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.small, &error) ==
		SGPU_OK);
	slow.word = (uint64_t *)(uintptr_t)room.base;
	CHECK(sgpu_device_launch_on(stream, run_slowly, &slow, NULL, 0, &task) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(task.end_ns != 0 && task.code == SGPU_OK);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	CHECK(get(room.base, &found) == SGPU_OK && found > 0);
	CHECK(sgpu_device_launch_on(stream, run_slowly, &slow, NULL, 0, &task) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	sgpu_space_free(&room.space);
	close_all();
}

/* ---- threads: each has a space and frames of its own ---- */
enum { THREADS = 4 };
struct worker {
	uint32_t number;
	int rounds, bad;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint32_t frames[4], k, first = worker->number * 4;
	struct sgpu_stream *own = NULL;
	struct sgpu_space *space = NULL;
	uint64_t value, found;
	sgpu_devptr base;
	int round;

	worker->bad += sgpu_stream_create(device, &own, NULL) != SGPU_OK;
	worker->bad += sgpu_space_create(device, 16 * info.small, &space, &base, NULL) != SGPU_OK;
	if (worker->bad) {
		return NULL;
	}
	for (round = 0; round < worker->rounds && !worker->bad; round++) {
		for (k = 0; k < 4; k++) {
			frames[k] = first + (k * 3 + (uint32_t)round) % 4;
		}
		worker->bad += sgpu_space_access(space, true, NULL) != SGPU_OK;
		worker->bad += sgpu_page_map(space, 4 * info.small, frames, 4, info.small, NULL) !=
			       SGPU_OK;
		value = (uint64_t)round << 8 | worker->number;
		worker->bad += sgpu_copy_in(own, base + 5 * info.small, &value, 8, NULL) != SGPU_OK;
		worker->bad +=
			sgpu_copy_out(own, &found, base + 5 * info.small, 8, NULL) != SGPU_OK;
		worker->bad += sgpu_stream_sync(own, NULL) != SGPU_OK || found != value;
		if (round % 3 == 0) {
			worker->bad += sgpu_space_access(space, false, NULL) != SGPU_OK;
		}
		worker->bad +=
			sgpu_page_unmap(space, 4 * info.small, 4 * info.small, NULL) != SGPU_OK;
	}
	sgpu_stream_free(&own);
	sgpu_space_free(&space);
	return NULL;
}

UNIT_TEST(threads_map_beside_one_another)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	uint32_t i;

	open_all(0);
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.number = i, .rounds = getenv("SGPU_TEST_SMALL") || !on_cpu() ? 50 : 500
		};
		REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(workers[i].bad == 0);
	}
	close_all();
}

/* ---- what a kernel reaches, on the CPU device: in children, which die of it ---- */
static int read_word(struct sgpu_launch *launch, void *argument)
{
	volatile uint64_t *address = *(volatile uint64_t **)argument;

	(void)launch;
	_exit(*address == 0x5ec2e7 ? 42 : 43);
}

static void child(void (*arrange)(struct room *room, struct room *other, sgpu_devptr *target))
{
	struct sgpu_task task = { 0 };
	struct rlimit none = { 0 };
	struct room room, other;
	sgpu_devptr target = 0;

	setrlimit(RLIMIT_CORE, &none);
	signal(SIGSEGV, SIG_DFL); /* a checker's own handler would end it otherwise */
	signal(SIGBUS, SIG_DFL);
	open_all(0);
	room = make_room(4);
	other = make_room(4);
	if (sgpu_page_map(room.space, 0, (const uint32_t[]){ 1 }, 1, info.small, NULL) != SGPU_OK ||
	    sgpu_page_map(other.space, 0, (const uint32_t[]){ 2 }, 1, info.small, NULL) !=
		    SGPU_OK ||
	    put(room.base, 0x5ec2e7) != SGPU_OK || put(other.base, 0x5ec2e7) != SGPU_OK) {
		_exit(2);
	}
	arrange(&room, &other, &target);
	if (sgpu_device_launch_on(stream, read_word, &target, NULL, 0, &task) != SGPU_OK ||
	    sgpu_stream_sync(stream, NULL) != SGPU_OK) {
		_exit(3);
	}
	_exit(4);
}

static int status_of(void (*arrange)(struct room *room, struct room *other, sgpu_devptr *target))
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		child(arrange);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void own_page(struct room *room, struct room *other, sgpu_devptr *target)
{
	if (sgpu_space_access(other->space, false, NULL) != SGPU_OK) {
		_exit(5);
	}
	*target = room->base;
}

static void inactive_space(struct room *room, struct room *other, sgpu_devptr *target)
{
	own_page(room, other, target);
	*target = other->base;
}

static void unmapped_page(struct room *room, struct room *other, sgpu_devptr *target)
{
	if (sgpu_page_unmap(other->space, 0, info.small, NULL) != SGPU_OK) {
		_exit(5);
	}
	(void)room;
	*target = other->base;
}

static void never_mapped(struct room *room, struct room *other, sgpu_devptr *target)
{
	(void)other;
	*target = room->base + info.small;
}

static void mapped_while_inactive(struct room *room, struct room *other, sgpu_devptr *target)
{
	if (sgpu_space_access(other->space, false, NULL) != SGPU_OK ||
	    sgpu_page_unmap(room->space, 0, info.small, NULL) != SGPU_OK ||
	    sgpu_page_map(other->space, info.small, (const uint32_t[]){ 1 }, 1, info.small, NULL) !=
		    SGPU_OK) {
		_exit(5);
	}
	*target = other->base + info.small;
}

UNIT_TEST(kernels_reach_what_is_mapped_and_active)
{
	int status;

	CPU_ONLY("tests/gpu/test_cuda_pages.c has it for GPUs");
	status = status_of(own_page);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
	status = status_of(inactive_space);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = status_of(unmapped_page);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = status_of(never_mapped);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = status_of(mapped_while_inactive);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* A child that was forked has nothing of it. */
UNIT_TEST(children_do_not_inherit_pages)
{
	struct room room;
	int status = 0;
	pid_t pid;

	CPU_ONLY("device memory is no memory of a process");
	open_all(0);
	room = make_room(1);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.small, &error) ==
		SGPU_OK);
	CHECK(put(room.base, 9) == SGPU_OK);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct rlimit none = { 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		_exit((int)*(volatile uint64_t *)(uintptr_t)room.base);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGSEGV);
	close_all();
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(only_what_is_mapped_is_reached);
	UNIT_RUN(a_new_space_is_not_reachable);
	UNIT_RUN(access_is_taken_away_from_nothing_that_runs);
	UNIT_RUN(threads_map_beside_one_another);
	UNIT_RUN(kernels_reach_what_is_mapped_and_active);
	UNIT_RUN(children_do_not_inherit_pages);
	return unit_done();
}
