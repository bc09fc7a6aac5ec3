/* SPDX-License-Identifier: Apache-2.0
 *
 * The case conversion: its formulas against sums made by hand.
 */
#include "../../tools/sgpu-bench/setup.c"

#include "../../tools/sgpu-bench/case_conversion.c"

#include "unit.h"

static const struct way *const free_of_exits = &flows[0], *const snp = &flows[1],
			       *const tdx = &flows[2];
static const struct costs costs = { .exit_ns = 1000,
				    .flip_ns = 500,
				    .fault_ns = 10,
				    .clear_ns = 3 };

static double cost(const struct way *flow, bool to_private, uint64_t pages, uint64_t page_bytes)
{
	const struct call call = { to_private, pages, page_bytes };

	return sum_of(flow, &call, &costs);
}

/* Exits of a call: what it costs more if one takes 1000 ns. */
static uint64_t exits_of(const struct way *flow, uint64_t pages, uint64_t page_bytes)
{
	const struct call call = { true, pages, page_bytes };
	struct costs free_exits = costs;

	free_exits.exit_ns = 0;
	return (uint64_t)((sum_of(flow, &call, &costs) - sum_of(flow, &call, &free_exits)) /
				  costs.exit_ns +
			  0.5);
}

static bool equal(double a, double b)
{
	return a - b < 1e-6 && b - a < 1e-6;
}

UNIT_TEST(snp_leaves_the_guest_once_for_64_entries)
{
	CHECK(exits_of(snp, 1, 4096) == 1);
	CHECK(exits_of(snp, 64, 4096) == 1);
	CHECK(exits_of(snp, 65, 4096) == 2);
	CHECK(exits_of(snp, 512, 4096) == 8);
	CHECK(exits_of(snp, 64, 2 << 20) == 1); /* an entry is of either size */
	CHECK(exits_of(free_of_exits, 512, 4096) == 0);
}

UNIT_TEST(tdx_leaves_the_guest_twice_for_any_range)
{
	CHECK(exits_of(tdx, 1, 4096) == 2);
	CHECK(exits_of(tdx, 512, 2 << 20) == 2);
}

UNIT_TEST(a_call_costs_the_sum_of_its_terms)
{
	CHECK(equal(cost(snp, true, 64, 4096), 500 + 1000 + 640));
	CHECK(equal(cost(snp, false, 64, 4096), 500 + 1000 + 640));
	CHECK(equal(cost(snp, true, 65, 4096), 500 + 2000 + 650));
	CHECK(equal(cost(snp, true, 512, 2 << 20), 500 + 8000 + 5120));
	CHECK(equal(cost(free_of_exits, true, 512, 4096), 500));
	CHECK(equal(cost(tdx, false, 64, 4096), 500 + 2000 + 640));
	CHECK(equal(cost(tdx, true, 64, 4096), 500 + 2000 + 640 + 192)); /* accepted: cleared */
}

int main(void)
{
	UNIT_RUN(snp_leaves_the_guest_once_for_64_entries);
	UNIT_RUN(tdx_leaves_the_guest_twice_for_any_range);
	UNIT_RUN(a_call_costs_the_sum_of_its_terms);
	return unit_done();
}
