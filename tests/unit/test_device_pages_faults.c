/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the CPU device when the kernel refuses to change mappings: an error and never an exit,
 * what others may not see is out of sight, and no frame is given to somebody else while it can
 * still be reached.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pages_harness.h"

/* Calls that are let through before the kernel has no mapping left; negative: all. */
static int maps = -1, protects = -1, unmaps = -1, advices = -1;

static bool refused(int *left)
{
	if (*left == 0) {
		errno = ENOMEM;
		return true;
	}
	*left -= *left > 0;
	return false;
}

/* In place of libc's, for the library too. */
void *mmap(void *start, size_t size, int protection, int flags, int fd, off_t offset)
{
	return refused(&maps)
		       ? MAP_FAILED
		       : (void *)syscall(SYS_mmap, start, size, protection, flags, fd, offset);
}

int mprotect(void *start, size_t size, int protection)
{
	return refused(&protects) ? -1 : (int)syscall(SYS_mprotect, start, size, protection);
}

int munmap(void *start, size_t size)
{
	return refused(&unmaps) ? -1 : (int)syscall(SYS_munmap, start, size);
}

int madvise(void *start, size_t size, int advice)
{
	return refused(&advices) ? -1 : (int)syscall(SYS_madvise, start, size, advice);
}

static void again(void)
{
	maps = protects = unmaps = advices = -1;
}

static int map_page(const struct room *room, uint64_t page, uint32_t frame)
{
	return sgpu_page_map(room->space, page * info.small, &frame, 1, info.small, &error);
}

/* Whether the process itself can still read there. */
static bool in_sight(sgpu_devptr address)
{
	int pipes[2];
	bool seen;

	if (pipe(pipes) != 0) {
		return true;
	}
	seen = write(pipes[1], (const void *)(uintptr_t)address, 1) ==
	       1; /* EFAULT where it cannot */
	close(pipes[0]);
	close(pipes[1]);
	return seen;
}

static bool is_lost(struct room *room)
{
	uint64_t value;

	return map_page(room, 3, 9) == SGPU_EDEVICE &&
	       sgpu_page_unmap(room->space, 0, info.small, &error) == SGPU_EDEVICE &&
	       sgpu_space_access(room->space, true, &error) == SGPU_EDEVICE &&
	       sgpu_space_access(room->space, false, &error) == SGPU_EDEVICE &&
	       get(room->base, &value) != SGPU_OK;
}

UNIT_TEST(access_that_cannot_be_taken_away_is_an_error_and_out_of_sight)
{
	struct room room = make_room(8);

	REQUIRE(map_page(&room, 0, 1) == SGPU_OK && map_page(&room, 2, 4) == SGPU_OK &&
		put(room.base, 7) == SGPU_OK);
	CHECK(in_sight(room.base));
	protects = 1; /* the second run of pages */
	CHECK(sgpu_space_access(room.space, false, &error) == SGPU_EDEVICE);
	again();
	CHECK(!in_sight(room.base) && !in_sight(room.base + 2 * info.small));
	CHECK(is_lost(&room));
	sgpu_space_free(&room.space);
	/* With the space its frames are free. */
	room = make_room(8);
	CHECK(map_page(&room, 0, 1) == SGPU_OK);
	sgpu_space_free(&room.space);
}

UNIT_TEST(access_that_cannot_be_given_is_taken_back)
{
	struct room room = make_room(8);

	REQUIRE(map_page(&room, 0, 1) == SGPU_OK && map_page(&room, 2, 4) == SGPU_OK);
	REQUIRE(sgpu_space_access(room.space, false, &error) == SGPU_OK);
	protects = 1;
	CHECK(sgpu_space_access(room.space, true, &error) < 0);
	again();
	CHECK(!in_sight(room.base + 2 * info.small));
	protects = 1;
	maps = 0;
	CHECK(sgpu_space_access(room.space, true, &error) == SGPU_EDEVICE);
	again();
	CHECK(is_lost(&room));
	sgpu_space_free(&room.space);
}

UNIT_TEST(a_page_that_cannot_be_unmapped_half_way_loses_the_space)
{
	struct room room = make_room(8);

	REQUIRE(map_page(&room, 0, 1) == SGPU_OK && map_page(&room, 2, 4) == SGPU_OK);
	maps = 0;
	protects = 0;
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) < 0);
	again();
	CHECK(is_lost(&room));
	sgpu_space_free(&room.space);
}

UNIT_TEST(a_page_that_cannot_be_mapped_half_way_is_nobodys)
{
	struct room room = make_room(8), other = make_room(8);
	uint32_t frames[] = { 1, 5 };

	advices = 1; /* a child would inherit them */
	CHECK(sgpu_page_map(room.space, 0, frames, 2, info.small, &error) == SGPU_ENOMEM);
	again();
	protects = 0;
	CHECK(sgpu_page_map(room.space, 0, frames, 2, info.small, &error) == SGPU_ENOMEM);
	again();
	CHECK(map_page(&room, 0, 1) == SGPU_OK);
	CHECK(sgpu_page_unmap(room.space, 0, info.small, &error) == SGPU_OK);
	advices = maps = 0;
	protects = 1;
	CHECK(sgpu_page_map(room.space, 0, frames, 2, info.small, &error) == SGPU_EDEVICE);
	again();
	CHECK(is_lost(&room));
	CHECK(map_page(&other, 0, 1) < 0); /* it may still be mapped there */
	sgpu_space_free(&room.space);
	CHECK(map_page(&other, 0, 1) == SGPU_OK);
	sgpu_space_free(&other.space);
}

/* Who has the address could still reach them. */
UNIT_TEST(after_a_space_that_cannot_be_removed_nothing_is_mapped)
{
	struct room room = make_room(8), other;

	REQUIRE(map_page(&room, 0, 20) == SGPU_OK);
	unmaps = maps = protects = 0;
	sgpu_space_free(&room.space);
	again();
	other = make_room(8);
	CHECK(map_page(&other, 0, 20) == SGPU_EDEVICE && map_page(&other, 0, 21) == SGPU_EDEVICE);
	sgpu_space_free(&other.space);
}

int main(void)
{
	if (!on_cpu()) {
		printf("1..0 # SKIP only the CPU device changes mappings of the process\n");
		return 0;
	}
	open_all(64 << 20);
	UNIT_RUN(access_that_cannot_be_taken_away_is_an_error_and_out_of_sight);
	UNIT_RUN(access_that_cannot_be_given_is_taken_back);
	UNIT_RUN(a_page_that_cannot_be_unmapped_half_way_loses_the_space);
	UNIT_RUN(a_page_that_cannot_be_mapped_half_way_is_nobodys);
	UNIT_RUN(after_a_space_that_cannot_be_removed_nothing_is_mapped);
	close_all();
	return unit_done();
}
