/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of a device: mapping, what stays with a frame, what is refused, what is counted.
 * Runs alone on a GPU, since it takes pages that others may have taken all of.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crypto/crypto.h"
#include "channel/channel.h"

#include "pages_harness.h"
#include "work_calls.h"

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
		CHECK(info.small == 4096 && info.big == 2 << 20);
	}
	close_all();
	open_all((uint64_t)256 << 20);
	CHECK(info.total > 0 && info.total <= (uint64_t)256 << 20);
	close_all();
}

/* Most of a batch's memory may never be touched, and all of it is cleared. */
UNIT_TEST(to_clear_what_was_never_written_takes_no_memory)
{
	enum { PLACES = 512 };
	unsigned char present[PLACES];
	struct sgpu_task task = { 0 };
	struct room room;
	int taken = 0;

	CPU_ONLY("its memory cannot be asked about");
	open_all(0);
	room = make_room(PLACES);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.big, &error) ==
		SGPU_OK);
	CHECK(put(room.base + 3 * info.small, 7) == SGPU_OK);
	CHECK(sgpu_device_clear(stream, room.base, info.big, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	CHECK(mincore((void *)(uintptr_t)room.base, info.big, present) == 0);
	for (int i = 0; i < PLACES; i++) {
		taken += present[i] & 1;
	}
	CHECK(taken > 0 && taken <= 16);
	CHECK(holds(room.base + 3 * info.small, 0));
	sgpu_space_free(&room.space);
	close_all();
}

/* A GPU's stay with the frame; the CPU's are gone once it is unmapped. */
UNIT_TEST(contents_are_as_they_were_left_or_zero)
{
	const uint32_t frames[3] = { 7, 3, 4 }, third[1] = { 3 };
	struct room first, second;
	uint64_t i;

	open_all(0);
	first = make_room(16);
	second = make_room(16);
	REQUIRE(sgpu_page_map(first.space, 2 * info.small, frames, 3, info.small, &error) ==
		SGPU_OK);
	for (i = 0; i < 3; i++) {
		CHECK(holds(first.base + (2 + i) * info.small, 0));
		CHECK(put(first.base + (2 + i) * info.small, 1000 + frames[i]) == SGPU_OK);
		CHECK(put(first.base + (3 + i) * info.small - 8, 2000 + frames[i]) == SGPU_OK);
	}
	CHECK(sgpu_page_unmap(first.space, 3 * info.small, info.small, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(second.space, 15 * info.small, third, 1, info.small, &error) ==
		SGPU_OK);
	CHECK(holds(second.base + 15 * info.small, on_cpu() ? 0 : 1003) &&
	      holds(second.base + 16 * info.small - 8, on_cpu() ? 0 : 2003));
	CHECK(holds(first.base + 2 * info.small, 1007) &&
	      holds(first.base + 5 * info.small - 8, 2004));
	sgpu_space_free(&first.space);
	CHECK(first.space == NULL);
	REQUIRE(sgpu_page_map(second.space, 0, frames + 2, 1, info.small, &error) == SGPU_OK);
	CHECK(holds(second.base, on_cpu() ? 0 : 1004));
	sgpu_space_free(&second.space);
	close_all();
}

static size_t pages_in_memory(sgpu_devptr memory, uint64_t size)
{
	static unsigned char present[16384];
	size_t count = 0;

	CHECK(size / info.small <= sizeof(present) &&
	      mincore((void *)(uintptr_t)memory, size, present) == 0);
	for (size_t i = 0; i < size / info.small; i++) {
		count += present[i] & 1;
	}
	return count;
}

static bool swapped;

/* In place of libc's, for the library too. */
int mincore(void *start, size_t size, unsigned char *present)
{
	if (swapped) {
		memset(present, 0, size / 4096);
		return 0;
	}
	return (int)syscall(SYS_mincore, start, size, present);
}

UNIT_TEST(what_is_in_swap_is_cleared_too)
{
	struct sgpu_task task = { 0 };
	struct room room;

	CPU_ONLY("its memory is in no swap");
	open_all(0);
	room = make_room(64);
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0 }, 1, info.big, &error) ==
		SGPU_OK);
	CHECK(put(room.base + info.small, 7) == SGPU_OK);
	swapped = true;
	CHECK(sgpu_device_clear(stream, room.base, info.big, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	swapped = false;
	CHECK(holds(room.base + info.small, 0));
	sgpu_space_free(&room.space);
	close_all();
}

/* Pages that follow each other in the space and not in the device's memory, of which few are
 * written to. */
UNIT_TEST(clearing_reaches_all_that_was_written_and_makes_no_memory)
{
	enum { BIG = 16 };
	struct sgpu_task task = { 0 };
	uint32_t list[BIG];
	struct room room;
	uint64_t each, size, at, made;

	open_all(0);
	each = info.big / info.small;
	size = BIG * info.big;
	room = make_room(BIG * each);
	for (uint32_t i = 0; i < BIG; i++) {
		list[i] = (uint32_t)(((i * 5 + 3) % BIG + i % 2 * BIG) * each);
	}
	REQUIRE(sgpu_page_map(room.space, 0, list, BIG, info.big, &error) == SGPU_OK);
	for (at = 0; at < size; at += info.big / 2 + 3 * info.small) {
		CHECK(put(room.base + at, ~at) == SGPU_OK &&
		      put(room.base + at + info.small - 8, ~at) == SGPU_OK);
	}
	CHECK(put(room.base + size - 16, 77) == SGPU_OK &&
	      put(room.base + size - 8, 88) == SGPU_OK);
	made = on_cpu() ? pages_in_memory(room.base, size) : 0;
	CHECK(sgpu_device_clear(stream, room.base + 8, size - 16, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	CHECK(holds(room.base, ~(uint64_t)0) && holds(room.base + size - 8, 88) &&
	      holds(room.base + size - 16, 0));
	CHECK(!on_cpu() || pages_in_memory(room.base, size) == made);
	for (at = 0; at < size; at += info.big / 2 + 3 * info.small) {
		CHECK(at == 0 || holds(room.base + at, 0));
		CHECK(holds(room.base + at + info.small - 8, 0));
	}
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
	CHECK(digest_of(stream, room.base + info.small, size, digest, &task) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, out, room.base + info.small, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK &&
	      memcmp(in, out, size) == 0);
	sgpu_kt128(in, size, NULL, 0, again, 32);
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
	CHECK(put(room.base + info.big, 11) == SGPU_OK &&
	      put(room.base + 3 * info.big - 8, 22) == SGPU_OK);
	CHECK(put(room.base + 2 * info.big - 4, 33) == SGPU_OK &&
	      holds(room.base + 2 * info.big - 4, 33));
	CHECK(sgpu_page_unmap(room.space, info.big, 2 * info.big, &error) == SGPU_OK);
	/* As small pages... */
	REQUIRE(sgpu_page_map(room.space, 0, small, each, info.small, &error) == SGPU_OK);
	for (i = 0; i < each; i++) {
		CHECK(put(room.base + i * info.small, i) == SGPU_OK);
	}
	CHECK(sgpu_page_unmap(room.space, info.small, (each - 1) * info.small, &error) == SGPU_OK);
	CHECK(holds(room.base, 0));
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) == SGPU_OK);
	/* ...and big again. */
	REQUIRE(sgpu_page_map(room.space, 2 * info.big, big, 2, info.big, &error) == SGPU_OK);
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
	REQUIRE(sgpu_page_map(room.space, 0, (const uint32_t[]){ 0, each }, 2, info.big, &error) ==
		SGPU_OK);
	left = memory_free();
	CHECK(before >= left + 2 * info.big || before < limit);
	/* Mapped again, it is not counted again. */
	CHECK(sgpu_page_unmap(room.space, 0, 2 * info.big, &error) == SGPU_OK);
	REQUIRE(sgpu_page_map(room.space, 4 * info.big, (const uint32_t[]){ each, 0 }, 2, info.big,
			      &error) == SGPU_OK);
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
	CHECK(put(room.base + info.small, 3) == SGPU_OK &&
	      put(room.base + 4 * info.big, 4) == SGPU_OK);
	sgpu_space_free(&room.space);
	close_all();
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(sizes_are_told);
	UNIT_RUN(to_clear_what_was_never_written_takes_no_memory);
	UNIT_RUN(contents_are_as_they_were_left_or_zero);
	UNIT_RUN(clearing_reaches_all_that_was_written_and_makes_no_memory);
	UNIT_RUN(what_is_in_swap_is_cleared_too);
	UNIT_RUN(a_run_of_pages_is_one_range);
	UNIT_RUN(big_and_small_take_turns);
	UNIT_RUN(memory_is_counted_once_and_for_all_kinds);
	return unit_done();
}
