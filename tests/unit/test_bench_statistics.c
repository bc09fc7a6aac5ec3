/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of samples, and the patterns that memory is verified by.
 */
#include <math.h>
#include <stdint.h>

#include <bench/bench.h>

#include "unit.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

UNIT_TEST(statistics_of_known_samples)
{
	double one[] = { 5 }, two[] = { 4, 2 }, many[20], odd[] = { 9, 1, 4, 100, 3 };
	struct sgpu_bench_statistics s;

	s = sgpu_bench_summarise(one, 1);
	CHECK(s.n == 1 && s.min == 5 && s.median == 5 && s.p95 == 5 && s.mad == 0 && s.spread == 0);
	s = sgpu_bench_summarise(two, 2);
	CHECK(s.min == 2 && s.median == 3 && s.p95 == 4 && s.mad == 1 && near(s.spread, 2.0 / 3));
	for (int i = 0; i < 20; i++) {
		many[i] = 20 - i; /* 20 ... 1 */
	}
	s = sgpu_bench_summarise(many, 20);
	CHECK(s.n == 20 && s.min == 1 && s.median == 10.5 && s.p90 == 18 && s.p95 == 19 &&
	      s.mad == 5);
	s = sgpu_bench_summarise(odd, 5);
	/* Distances from 4: 0, 1, 3, 5, 96. */
	CHECK(s.median == 4 && s.mad == 3 && s.p95 == 100);
}

UNIT_TEST(median_distance_of_equal_and_of_many_samples)
{
	double equal[] = { 7, 7, 7, 7 }, samples[101], distances[101];
	struct sgpu_bench_statistics s, d;

	s = sgpu_bench_summarise(equal, 4);
	CHECK(s.mad == 0 && s.spread == 0);
	for (int n = 1; n <= 101; n++) {
		for (int i = 0; i < n; i++) {
			samples[i] = distances[i] = (double)((i * 7919 + 13) % 1009);
		}
		s = sgpu_bench_summarise(samples, (uint64_t)n);
		for (int i = 0; i < n; i++) {
			distances[i] = fabs(distances[i] - s.median);
		}
		d = sgpu_bench_summarise(distances, (uint64_t)n);
		CHECK(near(s.mad, d.median));
	}
}

/* The ranks that published tables of the sign test's interval of the median with 95 % have. */
UNIT_TEST(intervals_of_the_median_are_those_of_tables)
{
	static const int table[][2] = {
		{ 1, 1 },   { 5, 1 },	{ 6, 1 },   { 8, 1 },	{ 9, 2 },   { 10, 2 },	{ 11, 2 },
		{ 12, 3 },  { 15, 4 },	{ 17, 5 },  { 20, 6 },	{ 25, 8 },  { 30, 10 }, { 35, 12 },
		{ 40, 14 }, { 50, 18 }, { 60, 22 }, { 70, 27 }, { 80, 31 }, { 90, 36 }, { 100, 40 },
	};
	double samples[2000];
	struct sgpu_bench_statistics s;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(table); i++) {
		int n = table[i][0], rank = table[i][1];

		for (int k = 0; k < n; k++) {
			samples[k] = 1 + (k * 7919 +
					  3) % n; /* 1 ... n, if 7919 and n have no common factor */
		}
		s = sgpu_bench_summarise(samples, (uint64_t)n);
		if (s.low != rank || s.high != n + 1 - rank) {
			printf("# %d samples: %g to %g\n", n, s.low, s.high);
		}
		CHECK(s.low == rank && s.high == n + 1 - rank);
	}
	/* Of many samples as the normal distribution has it: 1000 -> (1000 - 1.96 sqrt(1000)) / 2 =
	 * 469. */
	for (int k = 0; k < 1000; k++) {
		samples[k] = k + 1;
	}
	s = sgpu_bench_summarise(samples, 1000);
	CHECK(s.low == 469 && s.high == 532 && s.p99 == 990 && s.p95 == 950);
}

/* The first byte that is not that of the pattern, or `size`. */
static uint64_t wrong_at(const uint8_t *memory, uint64_t size, uint64_t seed)
{
	struct sgpu_error error = { 0 };
	unsigned long long at = 0;

	if (sgpu_bench_check(memory, size, seed, &error) == SGPU_OK) {
		return size;
	}
	CHECK(error.code == SGPU_EDIFFERS && sscanf(error.text, "byte %llu of", &at) == 1);
	return at;
}

UNIT_TEST(patterns_differ_by_place_and_seed)
{
	uint8_t memory[10001];

	for (uint64_t size = 0; size < sizeof(memory); size += 1 + size / 3) {
		memset(memory, 0, sizeof(memory));
		sgpu_bench_fill(memory, size, 3);
		CHECK(wrong_at(memory, size, 3) == size);
		CHECK(size < 8 || wrong_at(memory, size, 4) < 8);
		CHECK(memory[size] == 0); /* nothing is written behind it */
		if (size > 0) {
			memory[size - 1] ^= 1;
			CHECK(wrong_at(memory, size, 3) == size - 1);
		}
	}
	sgpu_bench_fill(memory, sizeof(memory), 3);
	memory[5000] ^= 0x80;
	memory[9000] ^= 0x80;
	CHECK(wrong_at(memory, sizeof(memory), 3) == 5000);
	/* A copy that is off by a word or by a block does not pass. */
	sgpu_bench_fill(memory, sizeof(memory), 3);
	CHECK(wrong_at(memory + 8, 4096, 3) < 8 && wrong_at(memory + 4096, 4096, 3) < 8);
}

int main(void)
{
	UNIT_RUN(statistics_of_known_samples);
	UNIT_RUN(median_distance_of_equal_and_of_many_samples);
	UNIT_RUN(intervals_of_the_median_are_those_of_tables);
	UNIT_RUN(patterns_differ_by_place_and_seed);
	return unit_done();
}
