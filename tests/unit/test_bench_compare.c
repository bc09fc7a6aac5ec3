/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side: what they say of runs that are made up.
 */
#include <math.h>
#include <stdint.h>

#include <bench/bench.h>

#include "bench_records.h"

static enum sgpu_bench_verdict compare_two(double a, double a_mad, double b, double b_mad,
					   double *change)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_difference *d = NULL;
	enum sgpu_bench_verdict verdict = SGPU_BENCH_NOT_MEASURED;
	size_t count = 0;

	add(&first, passed("c", "v", 4096, a, a_mad));
	add(&second, passed("c", "v", 4096, b, b_mad));
	CHECK(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_OK &&
	      count == 1);
	if (count == 1) {
		verdict = d[0].verdict;
		*change = d[0].change;
	}
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	return verdict;
}

UNIT_TEST(differences_count_beyond_the_noise)
{
	double change = 0;

	CHECK(compare_two(1000, 10, 1000, 10, &change) == SGPU_BENCH_SAME && change == 0);
	/* 2 * 1.4826 * sqrt(2) * 1 % = 4.2 %. */
	CHECK(compare_two(1000, 10, 1040, 10, &change) == SGPU_BENCH_SAME &&
	      fabs(change - 0.04) < 1e-9);
	CHECK(compare_two(1000, 10, 1044, 10, &change) == SGPU_BENCH_SLOWER);
	CHECK(compare_two(1000, 10, 950, 10, &change) == SGPU_BENCH_FASTER && change < 0);
	/* Whatever the samples say, processes differ. */
	CHECK(compare_two(1000, 0, 1015, 0, &change) == SGPU_BENCH_SAME);
	CHECK(compare_two(1000, 0, 1025, 0, &change) == SGPU_BENCH_SLOWER);
}

/* Of records that the caller frees. */
static const struct sgpu_bench_difference *compare_records(json_t *a, json_t *b, bool ratios)
{
	static struct sgpu_bench_difference kept;
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	add(&first, json_incref(a));
	add(&second, json_incref(b));
	kept = (struct sgpu_bench_difference){ .verdict = SGPU_BENCH_NOT_MEASURED };
	CHECK(sgpu_bench_compare(&first, &second, ratios, &d, &count, &error) == SGPU_OK &&
	      count == 1);
	if (count == 1) {
		kept = d[0];
	}
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	return &kept;
}

UNIT_TEST(no_gap_between_the_samples_leaves_it_open)
{
	json_t *a = passed("c", "v", 4096, 1000, 10), *b = passed("c", "v", 4096, 1100, 10);

	CHECK(compare_records(a, b, false)->verdict == SGPU_BENCH_SLOWER);
	CHECK(compare_records(b, a, false)->verdict == SGPU_BENCH_FASTER);
	set(b, "min_ns", 1000);
	CHECK(compare_records(a, b, false)->verdict == SGPU_BENCH_AMBIGUOUS);
	CHECK(compare_records(b, a, false)->verdict == SGPU_BENCH_AMBIGUOUS);
	/* Inside the noise there is nothing to be in doubt about. */
	set(b, "median_ns", 1030);
	CHECK(compare_records(a, b, false)->verdict == SGPU_BENCH_SAME);
	json_decref(a);
	json_decref(b);
}

UNIT_TEST(what_one_side_lacks_is_named)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	json_t *failed = passed("c", "b", 4096, 100, 1);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	add(&first, passed("c", "a", 4096, 100, 1));
	add(&first, passed("c", "b", 4096, 100, 1));
	CHECK(json_object_set_new(failed, "status", json_string("failed")) == 0);
	add(&second, failed);
	add(&second, passed("c", "a", 8192, 100, 1));
	REQUIRE(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_OK &&
		count == 3);
	CHECK(d[0].verdict == SGPU_BENCH_ONLY_FIRST && d[0].first && !d[0].second);
	CHECK(d[1].verdict == SGPU_BENCH_NOT_MEASURED && d[1].second == failed);
	CHECK(d[2].verdict == SGPU_BENCH_ONLY_SECOND && !d[2].first &&
	      sgpu_bench_number(d[2].second, "bytes") == 8192);
	free(d);
	/* The order of parameters does not matter; the same measurement twice cannot be paired. */
	failed = passed("c", "b", 4096, 100, 1);
	CHECK(json_object_set_new(
		      failed, "parameters",
		      json_pack("{s:s, s:i}", "direction", "h2d", "size_bytes", 4096)) == 0);
	add(&second, failed);
	CHECK(sgpu_bench_compare(&first, &second, false, &d, &count, &error) == SGPU_EINVALID &&
	      d == NULL);
	CHECK(strstr(error.text, "twice") != NULL);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

UNIT_TEST(ratios_are_compared_in_place_of_times)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	json_t *slow = passed("c", "sealed", 4096, 1000, 1),
	       *fast = passed("c", "sealed", 4096, 10, 0.01);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	set_ratio(slow, 1.10, 0.001);
	set_ratio(fast, 1.10, 0.001);
	add(&first, passed("c", "plain", 4096, 900, 1));
	add(&first, slow);
	add(&second, passed("c", "plain", 4096, 9, 0.01));
	add(&second, fast);
	REQUIRE(sgpu_bench_compare(&first, &second, true, &d, &count, &error) == SGPU_OK &&
		count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_SAME);
	free(d);
	set_ratio(fast, 1.20, 0.001);
	REQUIRE(sgpu_bench_compare(&first, &second, true, &d, &count, &error) == SGPU_OK &&
		count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_SLOWER);
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

int main(void)
{
	UNIT_RUN(differences_count_beyond_the_noise);
	UNIT_RUN(no_gap_between_the_samples_leaves_it_open);
	UNIT_RUN(what_one_side_lacks_is_named);
	UNIT_RUN(ratios_are_compared_in_place_of_times);
	return unit_done();
}
