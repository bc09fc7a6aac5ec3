/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side: what they say of runs that are made up, and how often it is wrong.
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

/* ---- runs of one build, made up ---- */
static uint64_t state_of_chance;

static double chance(void)
{
	state_of_chance = state_of_chance * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state_of_chance >> 11) + 0.5) / (double)((uint64_t)1 << 53);
}

static double normal(void)
{
	double length = sqrt(-2 * log(chance()));

	return length * cos(6.283185307179586 * chance());
}

/* How a run differs from the next one, in hundredths, and a sample from the next one of its run. */
static double normal_shift(void)
{
	return normal();
}

static double small_shift(void)
{
	return normal() / 2;
}

static double no_shift(void)
{
	return 0;
}

static double outliers(void) /* of one side, as of interrupts */
{
	return fabs(normal()) + (chance() < 0.05 ? 30 * chance() : 0);
}

/* A run of one measurement: 60 samples. */
static json_t *made_run(double (*shift)(void), double (*scatter)(void))
{
	json_t *r = passed("c", "v", 4096, 1000, 1);
	struct sgpu_bench_statistics ns;
	double samples[60], moved = exp(0.01 * shift());

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(samples); i++) {
		samples[i] = 1000 * moved * (1 + 0.01 * scatter());
	}
	ns = sgpu_bench_summarise(samples, SGPU_ARRAY_LENGTH(samples));
	set(r, "min_ns", ns.min);
	set(r, "median_ns", ns.median);
	set(r, "p95_ns", ns.p95);
	set(r, "mad_ns", ns.mad);
	return r;
}

/* The share of false alarms. */
static double false_alarms(double (*shift)(void), double (*scatter)(void), int trials)
{
	int alarms = 0;

	for (int t = 0; t < trials; t++) {
		json_t *a = made_run(shift, scatter), *b = made_run(shift, scatter);
		const enum sgpu_bench_verdict verdict = compare_records(a, b, false)->verdict;

		alarms += verdict == SGPU_BENCH_FASTER || verdict == SGPU_BENCH_SLOWER;
		json_decref(a);
		json_decref(b);
	}
	printf("# %d false alarms in %d\n", alarms, trials);
	return (double)alarms / trials;
}

UNIT_TEST(at_most_one_figure_of_20_is_a_false_alarm)
{
	const int trials = getenv("SGPU_TEST_SMALL") ? 400 : 4000;

	state_of_chance = 12;
	/* Without shifts between runs, and with shifts that are small beside the scatter. */
	CHECK(false_alarms(no_shift, normal, trials) <= 0.05);
	CHECK(false_alarms(no_shift, outliers, trials) <= 0.05);
	CHECK(false_alarms(small_shift, outliers, trials) <= 0.05);
}

UNIT_TEST(a_difference_beyond_the_noise_is_found)
{
	int found = 0;

	state_of_chance = 5;
	for (int t = 0; t < 100; t++) {
		json_t *fast = made_run(normal_shift, normal),
		       *slow = made_run(normal_shift, normal);

		set(slow, "min_ns", 1.2 * sgpu_bench_number(slow, "min_ns"));
		set(slow, "median_ns", 1.2 * sgpu_bench_number(slow, "median_ns"));
		set(slow, "p95_ns", 1.2 * sgpu_bench_number(slow, "p95_ns"));
		found += compare_records(fast, slow, false)->verdict == SGPU_BENCH_SLOWER;
		json_decref(fast);
		json_decref(slow);
	}
	CHECK(found >= 90);
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
	UNIT_RUN(at_most_one_figure_of_20_is_a_false_alarm);
	UNIT_RUN(a_difference_beyond_the_noise_is_found);
	UNIT_RUN(what_one_side_lacks_is_named);
	UNIT_RUN(ratios_are_compared_in_place_of_times);
	return unit_done();
}
