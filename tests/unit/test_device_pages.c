/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a device: mapping, what stays with a frame, what is refused, who reaches what.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/channel.h>

#include "device_harness.h"

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static struct sgpu_pages_info info;
static struct sgpu_error error;

static void open_all(uint64_t limit)
{
	device = open_test_device(2, limit);
	CHECK(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	CHECK(sgpu_device_pages(device, &info, &error) == SGPU_OK);
}

static void close_all(void)
{
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

struct room {
	struct sgpu_space *space;
	sgpu_devptr base;
};

/* A space of so many small pages that is reachable. */
static struct room make_room(uint64_t pages)
{
	struct room room = { 0 };

	CHECK(sgpu_space_create(device, pages * info.small, &room.space, &room.base, &error) == SGPU_OK);
	CHECK(room.base != 0 && room.base % info.small == 0);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	return room;
}

static int put(sgpu_devptr to, uint64_t value)
{
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_in(stream, to, &value, sizeof(value), &task);

	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	return code == SGPU_OK ? task.code : code;
}

static int get(sgpu_devptr from, uint64_t *value)
{
	struct sgpu_task task = { 0 };
	int code = sgpu_copy_out(stream, value, from, sizeof(*value), &task);

	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	return code == SGPU_OK ? task.code : code;
}

static bool holds(sgpu_devptr from, uint64_t value)
{
	uint64_t found = ~value;

	return get(from, &found) == SGPU_OK && found == value;
}

static uint64_t memory_free(void)
{
	struct sgpu_device_info about;

	CHECK(sgpu_device_get_info(device, &about, NULL) == SGPU_OK);
	return about.memory_free;
}

UNIT_TEST(sizes_are_told)
{
	open_all(0);
	CHECK(info.small >= 4096 && info.big > info.small && info.big % info.small == 0);
	CHECK(info.total > 0 && info.total % info.big == 0);
	if (on_cpu()) {
		CHECK(info.small == 4096 && info.big == 2 << 20 && info.fresh);
	}
	close_all();
	open_all((uint64_t)256 << 20);
	CHECK(info.total > 0 && info.total <= (uint64_t)256 << 20);
	close_all();
}

UNIT_TEST(contents_stay_with_the_frame)
{
	const uint32_t frames[3] = { 7, 3, 4 }, third[1] = { 3 };
	struct room first, second;
	uint64_t i;

	open_all(0);
	first = make_room(16);
	second = make_room(16);
	REQUIRE(sgpu_page_map(first.space, 2 * info.small, frames, 3, info.small, &error) == SGPU_OK);
	for (i = 0; i < 3; i++) {
		CHECK(holds(first.base + (2 + i) * info.small, 0));
		CHECK(put(first.base + (2 + i) * info.small, 1000 + frames[i]) == SGPU_OK);
		CHECK(put(first.base + (3 + i) * info.small - 8, 2000 + frames[i]) == SGPU_OK);
	}
	CHECK(sgpu_page_unmap(first.space, 3 * info.small, info.small, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(second.space, 15 * info.small, third, 1, info.small, &error) == SGPU_OK);
	CHECK(holds(second.base + 15 * info.small, 1003) && holds(second.base + 16 * info.small - 8, 2003));
	CHECK(holds(first.base + 2 * info.small, 1007) && holds(first.base + 5 * info.small - 8, 2004));
	sgpu_space_free(&first.space);
	CHECK(first.space == NULL);
	REQUIRE(sgpu_page_map(second.space, 0, frames + 2, 1, info.small, &error) == SGPU_OK);
	CHECK(holds(second.base, 1004));
	sgpu_space_free(&second.space);
	close_all();
}

UNIT_TEST(a_run_of_pages_is_one_range)
{
	uint32_t frames[8] = { 9, 1, 2, 3, 30, 31, 12, 5 };
	uint8_t *out, *in, digest[32], again[32];
	struct sgpu_task task = { 0 };
	struct room room;
	size_t size, i;

	open_all(0);
	size = 8 * info.small;
	in = malloc(size);
	out = malloc(size);
	REQUIRE(in && out);
	for (i = 0; i < size; i++) {
		in[i] = (uint8_t)(i * 31 + i / 4096);
	}
	room = make_room(9);
	REQUIRE(sgpu_page_map(room.space, info.small, frames, 8, info.small, &error) == SGPU_OK);
	CHECK(sgpu_copy_in(stream, room.base + info.small, in, size, &task) == SGPU_OK);
	CHECK(sgpu_device_digest(stream, room.base + info.small, size, "x", 1, digest, &task) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, out, room.base + info.small, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK && memcmp(in, out, size) == 0);
	sgpu_kt128(in, size, "x", 1, again, 32);
	CHECK(memcmp(digest, again, 32) == 0);
	CHECK(sgpu_device_clear(stream, room.base + info.small, size - 1, &task) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, out, room.base + info.small, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && out[0] == 0 && out[size - 2] == 0 &&
	      out[size - 1] == in[size - 1]);
	free(in);
	free(out);
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(what_does_not_fit_is_refused)
{
	const uint32_t good[2] = { 1, 2 }, twice[3] = { 5, 6, 5 };
	uint32_t far[1], odd[1] = { 1 };
	struct room room;

	open_all(0);
	far[0] = (uint32_t)(info.total / info.small);
	room = make_room(2 * info.big / info.small);
#define REFUSED(...) \
	do { \
		error.text[0] = '\0'; \
		CHECK(sgpu_page_map(room.space, __VA_ARGS__, &error) == SGPU_EUSAGE && error.text[0]); \
	} while (0)
	REFUSED(info.small / 2, good, 2, info.small);
	REFUSED(2 * info.big - info.small, good, 2, info.small);
	REFUSED(2 * info.big, good, 1, info.small);
	REFUSED(UINT64_MAX - info.small + 1, good, 2, info.small);
	REFUSED(0, good, 0, info.small);
	REFUSED(0, good, 1, info.small * 2);
	REFUSED(0, far, 1, info.small);
	REFUSED(0, odd, 1, info.big);
	REFUSED(info.small, far + 0, 1, info.big);
	REFUSED(0, twice, 3, info.small);
	/* Nothing of it was kept. */
	REQUIRE(sgpu_page_map(room.space, 0, twice, 2, info.small, &error) == SGPU_OK);
	REFUSED(info.small, good, 1, info.small);
	REFUSED(4 * info.small, twice, 1, info.small);
	REFUSED(info.big, (const uint32_t[]){ 0 }, 1, info.big);
	CHECK(sgpu_page_unmap(room.space, 1, info.small, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, 0, info.small + 1, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, info.big, 2 * info.big, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, 0, 2 * info.big, &error) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, 0, 2 * info.big, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(room.space, info.big, (const uint32_t[]){ 0 }, 1, info.big, &error) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, info.big, info.small, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, 2 * info.big - info.small, info.small, &error) == SGPU_EUSAGE);
	CHECK(put(room.base + info.big, 1) == SGPU_OK);
	sgpu_space_free(&room.space);
	CHECK(sgpu_space_create(device, 0, &room.space, &room.base, &error) == SGPU_EUSAGE && !room.space);
	CHECK(sgpu_space_create(device, info.small + 1, &room.space, &room.base, &error) == SGPU_EUSAGE);
	CHECK(sgpu_space_create(device, UINT64_MAX / info.small * info.small, &room.space, &room.base, &error) < 0);
	close_all();
}

static int never(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	*(bool *)argument = true;
	return SGPU_OK;
}

/* Every request that touches device memory, on 8 bytes at `address`; how many are taken. */
static int count_taken(sgpu_devptr address, sgpu_devptr good, struct sgpu_device_key *key)
{
	struct sgpu_device_range ranges[2] = { { good, 8 }, { address, 8 } };
	static uint64_t word;
	static bool ran;
	static struct sgpu_task tasks[8];
	uint8_t digest[32];
	int taken = 0, n = 0;

	ran = false;
	memset(tasks, 0, sizeof(tasks));
#define TRY(call) \
	do { \
		int code_ = call; \
		CHECK(code_ == SGPU_OK || (code_ == SGPU_EUSAGE && tasks[n].code == SGPU_EUSAGE && \
					   tasks[n].error.text[0])); \
		taken += code_ == SGPU_OK; \
		n++; \
	} while (0)
	TRY(sgpu_copy_in(stream, address, &word, 8, &tasks[n]));
	TRY(sgpu_copy_out(stream, &word, address, 8, &tasks[n]));
	TRY(sgpu_device_clear(stream, address, 8, &tasks[n]));
	TRY(sgpu_device_digest(stream, address, 8, "", 0, digest, &tasks[n]));
	TRY(sgpu_device_seal_chunks(stream, key, 0, true, address, 8, good, &tasks[n]));
	TRY(sgpu_device_open_chunks(stream, key, 0, true, good, 8 + SGPU_TAG_SIZE, address, &tasks[n]));
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
	REQUIRE(sgpu_device_key_load(stream, &material, &key, &error) == SGPU_OK);
	room = make_room(8);
	other = make_room(8);
	REQUIRE(sgpu_page_map(room.space, info.small, (const uint32_t[]){ 4, 9 }, 2, info.small, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(other.space, 0, (const uint32_t[]){ 5 }, 1, info.small, &error) == SGPU_OK);
	CHECK(count_taken(room.base + info.small, good, key) == 7);
	CHECK(count_taken(room.base + 2 * info.small - 4, good, key) == 7);
	CHECK(count_taken(room.base + 3 * info.small - 8, good, key) == 7);
	CHECK(count_taken(room.base + 3 * info.small - 7, good, key) == 0);
	CHECK(count_taken(room.base + info.small - 1, good, key) == 0);
	CHECK(count_taken(room.base, good, key) == 0);
	CHECK(count_taken(room.base + 8 * info.small - 4, good, key) == 0);
	CHECK(sgpu_copy_in(stream, room.base + info.small, &good, UINT64_MAX, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, info.small, info.small, &error) == SGPU_OK);
	CHECK(count_taken(room.base + info.small, good, key) == 0);
	CHECK(count_taken(room.base + 2 * info.small - 4, good, key) == 0);
	CHECK(count_taken(room.base + 2 * info.small, good, key) == 7);
	/* Without access nothing is, and what is mapped meanwhile is not either. */
	CHECK(put(room.base + 2 * info.small, 77) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(count_taken(room.base + 2 * info.small, good, key) == 0);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 20 }, 1, info.small, &error) == SGPU_OK);
	CHECK(count_taken(room.base, good, key) == 0);
	CHECK(count_taken(other.base, good, key) == 7);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	CHECK(holds(room.base + 2 * info.small, 77) && holds(room.base, 0));
	CHECK(put(room.base, 5) == SGPU_OK && holds(room.base, 5));
	sgpu_space_free(&room.space);
	CHECK(count_taken(room.base, good, key) == 0 && count_taken(other.base, good, key) == 7);
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

UNIT_TEST(big_and_small_take_turns)
{
	uint32_t each, big[2], *small;
	struct room room;
	uint64_t i;

	open_all(0);
	REQUIRE(info.total >= 4 * info.big);
	each = (uint32_t)(info.big / info.small);
	big[0] = 2 * each;
	big[1] = 0;
	small = calloc(each, sizeof(*small));
	REQUIRE(small);
	for (i = 0; i < each; i++) {
		small[i] = (uint32_t)(2 * each + i);
	}
	room = make_room(4 * each);
	REQUIRE(sgpu_page_map(room.space, info.big, big, 2, info.big, &error) == SGPU_OK);
	CHECK(put(room.base + info.big, 11) == SGPU_OK && put(room.base + 3 * info.big - 8, 22) == SGPU_OK);
	CHECK(put(room.base + 2 * info.big - 4, 33) == SGPU_OK && holds(room.base + 2 * info.big - 4, 33));
	CHECK(sgpu_page_map(room.space, 0, small, 1, info.small, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, info.big, 2 * info.big, &error) == SGPU_OK);
	/* As small pages... */
	REQUIRE(sgpu_page_map(room.space, 0, small, each, info.small, &error) == SGPU_OK);
	for (i = 0; i < each; i++) {
		CHECK(put(room.base + i * info.small, i) == SGPU_OK);
	}
	CHECK(sgpu_page_unmap(room.space, info.small, (each - 1) * info.small, &error) == SGPU_OK);
	CHECK(holds(room.base, 0));
	CHECK(sgpu_page_map(room.space, info.big, big, 1, info.big, &error) == SGPU_EUSAGE);
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) == SGPU_OK);
	/* ...and big again. */
	REQUIRE(sgpu_page_map(room.space, 2 * info.big, big, 2, info.big, &error) == SGPU_OK);
	CHECK(!on_cpu() || holds(room.base + 4 * info.big - 8, 22));
	CHECK(put(room.base + 2 * info.big, 44) == SGPU_OK && holds(room.base + 2 * info.big, 44));
	free(small);
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(memory_is_counted_once_and_for_all_kinds)
{
	uint64_t limit, before, left;
	struct room room;
	sgpu_devptr memory;
	uint32_t frame, each, last;

	open_all(0);
	limit = 4 * info.big;
	close_all();
	open_all(limit);
	REQUIRE(info.total == limit);
	each = (uint32_t)(info.big / info.small);
	before = memory_free();
	room = make_room(8 * each);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0, each }, 2, info.big, &error) == SGPU_OK);
	left = memory_free();
	CHECK(before >= left + 2 * info.big || before < limit);
	/* Mapped again, it is not counted again. */
	CHECK(sgpu_page_unmap(room.space, 0, 2 * info.big, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(room.space, 4 * info.big, (const uint32_t[]){ each, 0 }, 2, info.big, &error) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 2 * info.big - info.small, &memory, &error) == SGPU_OK);
	/* One small page is left. */
	frame = 2 * each;
	error.text[0] = '\0';
	CHECK(sgpu_page_map(room.space, 0, &frame, 1, info.big, &error) == SGPU_ENOMEM);
	CHECK(strstr(error.text, "bytes asked for") && strstr(error.text, "available"));
	REQUIRE(sgpu_page_map(room.space, 0, &frame, 1, info.small, &error) == SGPU_OK);
	last = frame + 1;
	CHECK(sgpu_page_map(room.space, info.small, &last, 1, info.small, &error) == SGPU_ENOMEM);
	sgpu_device_free(device, &memory, 2 * info.big - info.small);
	CHECK(sgpu_page_map(room.space, info.small, &last, 1, info.small, &error) == SGPU_OK);
	CHECK(put(room.base + info.small, 3) == SGPU_OK && put(room.base + 4 * info.big, 4) == SGPU_OK);
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(many_spaces)
{
	enum { SPACES = 200 };
	static struct room rooms[SPACES];
	uint32_t i, bad = 0;

	open_all(0);
	for (i = 0; i < SPACES; i++) {
		rooms[i] = make_room(4);
		REQUIRE(sgpu_page_map(rooms[i].space, info.small, &i, 1, info.small, &error) == SGPU_OK);
		bad += put(rooms[i].base + info.small, i) != SGPU_OK;
	}
	for (i = 0; i < SPACES; i += 2) {
		sgpu_space_free(&rooms[i].space);
	}
	for (i = 0; i < SPACES; i++) {
		bad += i % 2 ? !holds(rooms[i].base + info.small, i) : put(rooms[i].base + info.small, 1) != SGPU_EUSAGE;
	}
	CHECK(bad == 0);
	close_all();
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
	while (sgpu_now_ns() < end) {
		(*slow->word)++;
	}
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
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.small, &error) == SGPU_OK);
	slow.word = (uint64_t *)(uintptr_t)room.base;
	CHECK(sgpu_device_launch(stream, run_slowly, &slow, &task) == SGPU_OK);
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	CHECK(task.end_ns != 0 && task.code == SGPU_OK);
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_OK);
	CHECK(get(room.base, &found) == SGPU_OK && found > 0);
	CHECK(sgpu_device_launch(stream, run_slowly, &slow, &task) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	sgpu_space_free(&room.space);
	close_all();
}

UNIT_TEST(settling_waits_for_every_stream)
{
	struct sgpu_task tasks[3] = { { 0 } };
	struct sgpu_stream *streams[3];
	uint64_t words[3] = { 0 };
	struct slow slow[3];
	int i;

	CPU_ONLY("the kernel is native code");
	open_all(0);
	CHECK(sgpu_device_settle(device, &error) == SGPU_OK);
	for (i = 0; i < 3; i++) {
		slow[i] = (struct slow){ .ns = 5000000 * (uint64_t)(i + 1), .word = &words[i] };
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
		CHECK(sgpu_device_launch(streams[i], run_slowly, &slow[i], &tasks[i]) == SGPU_OK);
	}
	CHECK(sgpu_device_settle(device, &error) == SGPU_OK);
	for (i = 0; i < 3; i++) {
		CHECK(tasks[i].end_ns != 0 && words[i] > 0);
		sgpu_stream_free(&streams[i]);
	}
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
		worker->bad += sgpu_page_map(space, 4 * info.small, frames, 4, info.small, NULL) != SGPU_OK;
		value = (uint64_t)round << 8 | worker->number;
		worker->bad += sgpu_copy_in(own, base + 5 * info.small, &value, 8, NULL) != SGPU_OK;
		worker->bad += sgpu_copy_out(own, &found, base + 5 * info.small, 8, NULL) != SGPU_OK;
		worker->bad += sgpu_stream_sync(own, NULL) != SGPU_OK || found != value;
		if (round % 3 == 0) {
			worker->bad += sgpu_space_access(space, false, NULL) != SGPU_OK;
		}
		worker->bad += sgpu_page_unmap(space, 4 * info.small, 4 * info.small, NULL) != SGPU_OK;
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
		workers[i] = (struct worker){ .number = i, .rounds = getenv("SGPU_TEST_SMALL") || !on_cpu() ? 50 : 500 };
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
	    sgpu_page_map(other.space, 0, (const uint32_t[]){ 2 }, 1, info.small, NULL) != SGPU_OK ||
	    put(room.base, 0x5ec2e7) != SGPU_OK || put(other.base, 0x5ec2e7) != SGPU_OK) {
		_exit(2);
	}
	arrange(&room, &other, &target);
	if (sgpu_device_launch(stream, read_word, &target, &task) != SGPU_OK ||
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
	    sgpu_page_map(other->space, info.small, (const uint32_t[]){ 1 }, 1, info.small, NULL) != SGPU_OK) {
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
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.small, &error) == SGPU_OK);
	CHECK(put(room.base, 9) == SGPU_OK);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct rlimit none = { 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		_exit((int)*(volatile uint64_t *)(uintptr_t)room.base);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	close_all();
}

/* ---- the pager ---- */
UNIT_TEST(the_pager_works_on_the_device)
{
	uint8_t digest[32], expected[32], *bytes, *back;
	struct sgpu_pager pager;
	sgpu_devptr base;
	void *space;
	size_t size;

	open_all(0);
	REQUIRE(sgpu_pager_of(device, &pager, &error) == SGPU_OK);
	CHECK(pager.info.small == info.small && pager.info.total == info.total);
	size = 2 * info.small;
	bytes = malloc(size);
	back = calloc(1, size);
	REQUIRE(bytes && back);
	memset(bytes, 0xa7, size);
	REQUIRE(pager.space_create(pager.device, 8 * info.small, &space, &base, &error) == SGPU_OK);
	CHECK(pager.access(pager.device, space, true, &error) == SGPU_OK);
	CHECK(pager.map(pager.device, space, info.small, (const uint32_t[]){ 3, 1 }, 2, info.small, &error) == SGPU_OK);
	CHECK(pager.write(pager.device, space, info.small, bytes, size, &error) == SGPU_OK);
	CHECK(pager.read(pager.device, space, info.small, back, size, &error) == SGPU_OK &&
	      memcmp(bytes, back, size) == 0);
	CHECK(pager.digest(pager.device, space, info.small, size, "c", 1, digest, &error) == SGPU_OK);
	sgpu_kt128(bytes, size, "c", 1, expected, 32);
	CHECK(memcmp(digest, expected, 32) == 0);
	CHECK(pager.clear(pager.device, space, 2 * info.small, info.small, &error) == SGPU_OK);
	CHECK(pager.read(pager.device, space, info.small, back, size, &error) == SGPU_OK);
	CHECK(back[info.small - 1] == 0xa7 && back[info.small] == 0 && back[size - 1] == 0);
	error.text[0] = '\0';
	CHECK(pager.read(pager.device, space, 0, back, size, &error) == SGPU_EUSAGE && error.text[0]);
	CHECK(pager.access(pager.device, space, false, &error) == SGPU_OK);
	CHECK(pager.write(pager.device, space, info.small, bytes, 1, &error) == SGPU_EUSAGE);
	CHECK(pager.clear(pager.device, space, info.small, 1, &error) == SGPU_EUSAGE);
	CHECK(pager.digest(pager.device, space, info.small, 1, "c", 1, digest, &error) == SGPU_EUSAGE);
	CHECK(pager.unmap(pager.device, space, info.small, size, &error) == SGPU_OK);
	pager.space_free(pager.device, space);
	sgpu_pager_close(&pager);
	CHECK(pager.device == NULL);
	free(bytes);
	free(back);
	close_all();
}

/* ---- what it costs ---- */
static int compare_u64(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void time_pages(const char *what, const uint32_t *frames, size_t count, uint64_t page_size)
{
	enum { ROUNDS = 201 };
	static uint64_t on[ROUNDS], off[ROUNDS];
	struct room room = make_room(count * page_size / info.small);
	uint64_t begin, between;
	int i, bad = 0;

	for (i = 0; i < ROUNDS; i++) {
		begin = sgpu_now_ns();
		bad += sgpu_page_map(room.space, 0, frames, count, page_size, NULL) != SGPU_OK;
		between = sgpu_now_ns();
		bad += sgpu_page_unmap(room.space, 0, count * page_size, NULL) != SGPU_OK;
		on[i] = between - begin;
		off[i] = sgpu_now_ns() - between;
	}
	CHECK(bad == 0);
	qsort(on, ROUNDS, sizeof(uint64_t), compare_u64);
	qsort(off, ROUNDS, sizeof(uint64_t), compare_u64);
	printf("# %s: map %.1f us, unmap %.1f us (medians)\n", what, (double)on[ROUNDS / 2] / 1e3,
	       (double)off[ROUNDS / 2] / 1e3);
	sgpu_space_free(&room.space);
}

UNIT_TEST(figures)
{
	uint32_t row[8], scattered[8], big[2], each, i;

	open_all(0);
	each = (uint32_t)(info.big / info.small);
	for (i = 0; i < 8; i++) {
		row[i] = i;
		scattered[i] = i * 5 % 8 * 2;
	}
	big[0] = each;
	big[1] = 2 * each;
	time_pages("8 small pages in a row", row, 8, info.small);
	time_pages("8 small pages here and there", scattered, 8, info.small);
	time_pages("1 big page", big, 1, info.big);
	time_pages("2 big pages", big, 2, info.big);
	close_all();
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(sizes_are_told);
	UNIT_RUN(contents_stay_with_the_frame);
	UNIT_RUN(a_run_of_pages_is_one_range);
	UNIT_RUN(what_does_not_fit_is_refused);
	UNIT_RUN(only_what_is_mapped_is_reached);
	UNIT_RUN(a_new_space_is_not_reachable);
	UNIT_RUN(big_and_small_take_turns);
	UNIT_RUN(memory_is_counted_once_and_for_all_kinds);
	UNIT_RUN(many_spaces);
	UNIT_RUN(access_is_taken_away_from_nothing_that_runs);
	UNIT_RUN(settling_waits_for_every_stream);
	UNIT_RUN(threads_map_beside_one_another);
	UNIT_RUN(kernels_reach_what_is_mapped_and_active);
	UNIT_RUN(children_do_not_inherit_pages);
	UNIT_RUN(the_pager_works_on_the_device);
	UNIT_RUN(figures);
	return unit_done();
}
