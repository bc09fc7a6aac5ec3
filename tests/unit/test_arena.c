/* SPDX-License-Identifier: Apache-2.0
 *
 * The accounts of a secure context's memory: no byte is given out twice, the best fit is taken,
 * neighbours become one again.
 */
#include "device/arena.h"

#include "unit.h"

enum { PAGE = SGPU_ARENA_PAGE, REGIONS = 3, PAGES = 2048, LIVE = 300 };

static struct sgpu_arena arena;
static uint32_t state = 1;

static unsigned random_below(unsigned n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void put_back(struct sgpu_block *block)
{
	sgpu_arena_leave(&arena, block);
	sgpu_arena_release(&arena, block);
}

UNIT_TEST(blocks_are_whole_pages_of_a_region)
{
	struct sgpu_block *a, *b;

	REQUIRE(sgpu_arena_add(&arena, 0x10000, 16 * PAGE) == SGPU_OK);
	a = sgpu_arena_take(&arena, 1);
	b = sgpu_arena_take(&arena, PAGE + 1);
	REQUIRE(a && b);
	CHECK(a->range.extent == PAGE && a->size == 1 && b->range.extent == 2 * PAGE &&
	      arena.used_bytes == 3 * PAGE);
	CHECK(sgpu_arena_find(&arena, a->range.address + PAGE - 1) == a &&
	      sgpu_arena_find(&arena, b->range.address) == b);
	CHECK(!sgpu_arena_find(&arena, 0x10000 + 16 * PAGE) && !sgpu_arena_find(&arena, 0xffff));
	CHECK(!sgpu_arena_take(&arena, 14 * PAGE) && !sgpu_arena_is_idle(arena.regions));
	put_back(a);
	put_back(b);
	CHECK(sgpu_arena_is_idle(arena.regions) && arena.used_bytes == 0);
	a = sgpu_arena_take(&arena, 16 * PAGE);
	CHECK(a && a->range.address == 0x10000 && !sgpu_arena_take(&arena, 0));
	put_back(a);
	sgpu_arena_drop(&arena, arena.regions);
	CHECK(!arena.regions && arena.mapped_bytes == 0 && !sgpu_arena_take(&arena, 1));
	sgpu_arena_clear(&arena);
}

UNIT_TEST(no_address_is_in_two_regions)
{
	REQUIRE(sgpu_arena_add(&arena, 0x10000, 4 * PAGE) == SGPU_OK);
	CHECK(sgpu_arena_add(&arena, 0x10000, 4 * PAGE) == SGPU_EUSAGE);
	CHECK(sgpu_arena_add(&arena, 0x10000 + 3 * PAGE, 4 * PAGE) == SGPU_EUSAGE);
	CHECK(sgpu_arena_add(&arena, 0x10000 - PAGE, 16 * PAGE) == SGPU_EUSAGE);
	CHECK(sgpu_arena_add(&arena, 0x10000 + PAGE, PAGE) == SGPU_EUSAGE &&
	      arena.mapped_bytes == 4 * PAGE);
	CHECK(sgpu_arena_add(&arena, 0x10000 + 4 * PAGE, PAGE) == SGPU_OK);
	CHECK(sgpu_arena_add(&arena, 0x10000 - PAGE, PAGE) == SGPU_OK &&
	      arena.mapped_bytes == 6 * PAGE);
	sgpu_arena_clear(&arena);
}

UNIT_TEST(a_region_that_is_withheld_is_not_given_out)
{
	REQUIRE(sgpu_arena_add(&arena, 0x10000, 4 * PAGE) == SGPU_OK);
	sgpu_arena_withhold(&arena, arena.regions);
	CHECK(!sgpu_arena_take(&arena, 1) && !sgpu_arena_is_idle(arena.regions) &&
	      arena.mapped_bytes == 4 * PAGE);
	CHECK(sgpu_arena_add(&arena, 0x10000, 4 * PAGE) == SGPU_EUSAGE);
	sgpu_arena_drop(&arena, arena.regions);
	CHECK(!arena.regions && arena.mapped_bytes == 0);
	REQUIRE(sgpu_arena_add(&arena, 0x10000, 4 * PAGE) == SGPU_OK);
	CHECK(sgpu_arena_take(&arena, 4 * PAGE) != NULL);
	sgpu_arena_clear(&arena);
}

UNIT_TEST(a_block_that_is_left_is_not_given_out_before_it_is_released)
{
	struct sgpu_block *a;

	REQUIRE(sgpu_arena_add(&arena, 0x10000, PAGE) == SGPU_OK);
	a = sgpu_arena_take(&arena, 10);
	REQUIRE(a != NULL);
	sgpu_arena_leave(&arena, a);
	CHECK(!sgpu_arena_take(&arena, 10) && !sgpu_arena_find(&arena, 0x10000) &&
	      !sgpu_arena_is_idle(arena.regions));
	sgpu_arena_release(&arena, a);
	CHECK(sgpu_arena_take(&arena, 10) != NULL);
	sgpu_arena_clear(&arena);
}

UNIT_TEST(blocks_come_back_when_their_clearing_is_over_and_no_sooner)
{
	struct sgpu_block *blocks[3];

	REQUIRE(sgpu_arena_add(&arena, 0x10000, 6 * PAGE) == SGPU_OK);
	for (int i = 0; i < 3; i++) {
		blocks[i] = sgpu_arena_take(&arena, (i + 1) * PAGE);
		REQUIRE(blocks[i] != NULL);
	}
	for (int i = 2; i >= 0; i--) {
		sgpu_arena_leave(&arena, blocks[i]);
		sgpu_arena_await(&arena, blocks[i]);
	}
	CHECK(arena.clearing_bytes == 6 * PAGE && arena.serial == 3 &&
	      !sgpu_arena_next_cleared(&arena));
	sgpu_arena_note_cleared(&arena, 2);
	sgpu_arena_note_cleared(&arena, 1); /* comes late */
	CHECK(sgpu_arena_next_cleared(&arena) == blocks[2] &&
	      sgpu_arena_next_cleared(&arena) == blocks[1]);
	CHECK(!sgpu_arena_next_cleared(&arena) && arena.clearing_bytes == PAGE &&
	      !sgpu_arena_take(&arena, PAGE));
	sgpu_arena_await(&arena, blocks[2]);
	sgpu_arena_note_cleared(&arena, 4);
	CHECK(sgpu_arena_next_cleared(&arena) == blocks[0] &&
	      sgpu_arena_next_cleared(&arena) == blocks[2]);
	CHECK(!sgpu_arena_next_cleared(&arena) && arena.clearing_bytes == 0);
	sgpu_arena_clear(&arena);
}

UNIT_TEST(the_best_fit_is_taken)
{
	static const unsigned pages[] = { 400, 7, 310, 90, 300, 5, 320 };
	struct sgpu_block *blocks[7], *between[7], *last;

	REQUIRE(sgpu_arena_add(&arena, 0x100000, 4096 * PAGE) == SGPU_OK);
	for (int i = 0; i < 7; i++) {
		blocks[i] = sgpu_arena_take(&arena, pages[i] * PAGE);
		between[i] = sgpu_arena_take(&arena, PAGE);
		REQUIRE(blocks[i] && between[i]);
	}
	for (int i = 0; i < 7; i++) {
		put_back(blocks[i]);
	}
	CHECK(sgpu_arena_take(&arena, 302 * PAGE) == blocks[2]);
	CHECK(sgpu_arena_take(&arena, 7 * PAGE) == blocks[1]);
	/* What was left of the 310. */
	last = sgpu_arena_take(&arena, 6 * PAGE);
	CHECK(last && last->range.address == blocks[2]->range.address + 302 * PAGE);
	CHECK(sgpu_arena_take(&arena, 80 * PAGE) == blocks[3]);
	CHECK(sgpu_arena_take(&arena, 300 * PAGE) == blocks[4]);
	sgpu_arena_clear(&arena);
}

/* Against a map of pages. */
UNIT_TEST(no_page_is_given_out_twice_whatever_the_order)
{
	static uint8_t taken[REGIONS * 2 * PAGES];
	struct sgpu_block *live[LIVE] = { NULL };
	const sgpu_devptr base = (sgpu_devptr)1 << 40;
	uint64_t used = 0;
	int bad = 0;

	for (int i = 0; i < REGIONS; i++) {
		REQUIRE(sgpu_arena_add(&arena, base + (uint64_t)i * 2 * PAGES * PAGE,
				       PAGES * PAGE) == SGPU_OK);
	}
	for (int step = 0; step < 60000; step++) {
		struct sgpu_block **b = &live[random_below(LIVE)];
		uint64_t first, pages = 1 + random_below(random_below(8) ? 20 : 600);

		if (*b) {
			first = ((*b)->range.address - base) / PAGE;
			pages = (*b)->range.extent / PAGE;
			memset(taken + first, 0, pages);
			used -= pages * PAGE;
			put_back(*b);
			*b = NULL;
		} else if ((*b = sgpu_arena_take(&arena, pages * PAGE - random_below(PAGE)))) {
			first = ((*b)->range.address - base) / PAGE;
			bad += (*b)->range.extent != pages * PAGE ||
			       first % (2 * PAGES) + pages > PAGES;
			for (uint64_t i = 0; i < pages; i++) {
				bad += taken[first + i];
				taken[first + i] = 1;
			}
			used += pages * PAGE;
		}
		bad += arena.used_bytes != used;
	}
	CHECK(bad == 0);
	for (int i = 0; i < LIVE; i++) {
		if (live[i]) {
			put_back(live[i]);
		}
	}
	for (struct sgpu_arena_region *r = arena.regions; r; r = r->next) {
		CHECK(sgpu_arena_is_idle(r) && r->first->range.extent == PAGES * PAGE);
	}
	sgpu_arena_clear(&arena);
}

int main(void)
{
	UNIT_RUN(blocks_are_whole_pages_of_a_region);
	UNIT_RUN(no_address_is_in_two_regions);
	UNIT_RUN(a_region_that_is_withheld_is_not_given_out);
	UNIT_RUN(a_block_that_is_left_is_not_given_out_before_it_is_released);
	UNIT_RUN(blocks_come_back_when_their_clearing_is_over_and_no_sooner);
	UNIT_RUN(the_best_fit_is_taken);
	UNIT_RUN(no_page_is_given_out_twice_whatever_the_order);
	return unit_done();
}
