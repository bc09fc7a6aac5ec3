/* SPDX-License-Identifier: Apache-2.0
 *
 * Two runs side by side, and the noise of several: what they say of runs that are made up, and how
 * often it is wrong.
 */
#include <math.h>
#include <stdint.h>

#include <bench/bench.h>

#include "bench/private.h"
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
	CHECK(sgpu_bench_compare(&first, &second, NULL, false, &d, &count, &error) == SGPU_OK &&
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

static const struct sgpu_bench_difference *compare_records(struct sgpu_bench_record a,
							   struct sgpu_bench_record b,
							   const struct sgpu_bench_results *noise,
							   bool ratios)
{
	static struct sgpu_bench_difference kept;
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	add(&first, a);
	add(&second, b);
	kept = (struct sgpu_bench_difference){ .verdict = SGPU_BENCH_NOT_MEASURED };
	CHECK(sgpu_bench_compare(&first, &second, noise, ratios, &d, &count, &error) == SGPU_OK &&
	      count == 1);
	if (count == 1) {
		kept = d[0];
	}
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
	return &kept;
}

UNIT_TEST(no_gap_between_the_intervals_leaves_it_open)
{
	struct sgpu_bench_record a = passed("c", "v", 4096, 1000, 10),
				 b = passed("c", "v", 4096, 1100, 10);
	struct sgpu_bench_noise n = { .floor = 0.04, .ratio_floor = -1, .runs = 5 };
	struct sgpu_bench_results noise = { .noise = &n, .noise_count = 1 };

	sgpu_bench_key(&a, n.key);
	a.ns.low = 990;
	a.ns.high = 1020;
	b.ns.low = 1021;
	b.ns.high = 1110;
	CHECK(compare_records(a, b, &noise, false)->verdict == SGPU_BENCH_SLOWER);
	CHECK(compare_records(b, a, &noise, false)->verdict == SGPU_BENCH_FASTER);
	b.ns.low = 1019;
	CHECK(compare_records(a, b, &noise, false)->verdict == SGPU_BENCH_AMBIGUOUS);
	CHECK(compare_records(b, a, &noise, false)->verdict == SGPU_BENCH_AMBIGUOUS);
	/* Without measured noise the samples count. */
	CHECK(compare_records(a, b, NULL, false)->verdict == SGPU_BENCH_SLOWER);
	b.ns.min = 1000;
	CHECK(compare_records(a, b, NULL, false)->verdict == SGPU_BENCH_AMBIGUOUS);
	/* Inside the noise there is nothing to be in doubt about. */
	b.ns.median = 1030;
	CHECK(compare_records(a, b, NULL, false)->verdict == SGPU_BENCH_SAME);
}

UNIT_TEST(measured_noise_takes_the_place_of_the_scatter)
{
	struct sgpu_bench_record a = passed("c", "v", 4096, 1000, 100),
				 b = passed("c", "v", 4096, 1100, 100);
	struct sgpu_bench_noise n = { .floor = 0.05, .ratio_floor = -1, .runs = 5 };
	struct sgpu_bench_results noise = { .noise = &n, .noise_count = 1 };

	set_ratio(&a, 1.5, 0.001);
	set_ratio(&b, 1.6, 0.001);
	sgpu_bench_key(&a, n.key);
	a.ns.low = a.ns.high = 1000;
	b.ns.low = b.ns.high = 1100;
	CHECK(compare_records(a, b, NULL, false)->verdict == SGPU_BENCH_SAME);
	CHECK(compare_records(a, b, &noise, false)->verdict == SGPU_BENCH_SLOWER);
	CHECK(compare_records(a, b, &noise, false)->noise_measured &&
	      compare_records(a, b, &noise, false)->noise == 0.05);
	/* Of ratios it says nothing. */
	CHECK(compare_records(a, b, &noise, true)->verdict == SGPU_BENCH_SLOWER);
	CHECK(!compare_records(a, b, &noise, true)->noise_measured);
	n.ratio_floor = 0.1;
	CHECK(compare_records(a, b, &noise, true)->verdict == SGPU_BENCH_SAME);
	snprintf(n.key, sizeof(n.key), "another");
	CHECK(!compare_records(a, b, &noise, false)->noise_measured);
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

static double heavy_shift(void) /* Student's t with three degrees of freedom */
{
	double x = normal(), y = normal(), z = normal();

	return normal() / sqrt((x * x + y * y + z * z) / 3);
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
static struct sgpu_bench_record made_run(double (*shift)(void), double (*scatter)(void))
{
	struct sgpu_bench_record r = passed("c", "v", 4096, 1000, 1);
	double samples[60], moved = exp(0.01 * shift());

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(samples); i++) {
		samples[i] = 1000 * moved * (1 + 0.01 * scatter());
	}
	sgpu_bench_summarise(samples, SGPU_ARRAY_LENGTH(samples), &r.ns);
	return r;
}

/* The share of false alarms, when the noise is that of `runs` runs (0: what the samples of the two
 * say). */
static double false_alarms(int runs, double (*shift)(void), double (*scatter)(void), int trials)
{
	int alarms = 0;

	for (int t = 0; t < trials; t++) {
		struct sgpu_bench_results several[20] = { { 0 } }, noise = { 0 };
		enum sgpu_bench_verdict verdict;

		for (int i = 0; i < runs; i++) {
			add(&several[i], made_run(shift, scatter));
		}
		if (runs > 0) {
			CHECK(sgpu_bench_measure_noise(several, (size_t)runs, &noise, &error) ==
			      SGPU_OK);
			CHECK(noise.noise_count == 1 && noise.noise[0].runs == (uint64_t)runs);
		}
		verdict = compare_records(made_run(shift, scatter), made_run(shift, scatter),
					  &noise, false)
				  ->verdict;
		alarms += verdict == SGPU_BENCH_FASTER || verdict == SGPU_BENCH_SLOWER;
		for (int i = 0; i < runs; i++) {
			sgpu_bench_results_clear(&several[i]);
		}
		sgpu_bench_results_clear(&noise);
	}
	printf("# %d runs: %d false alarms in %d\n", runs, alarms, trials);
	return (double)alarms / trials;
}

UNIT_TEST(at_most_one_figure_of_20_is_a_false_alarm)
{
	const int trials = getenv("SGPU_TEST_SMALL") ? 400 : 4000;

	state_of_chance = 12;
	for (int runs = 3; runs <= 20; runs += runs < 5 ? 2 : 15) {
		CHECK(false_alarms(runs, normal_shift, normal, trials) <= 0.05);
		CHECK(false_alarms(runs, heavy_shift, normal, trials) <= 0.05);
		CHECK(false_alarms(runs, heavy_shift, outliers, trials) <= 0.05);
	}
	/* Without shifts between runs, the samples of two runs suffice. */
	CHECK(false_alarms(0, no_shift, normal, trials) <= 0.05);
	CHECK(false_alarms(0, no_shift, outliers, trials) <= 0.05);
	/* With shifts that are small beside the scatter, too; of larger ones, only runs can tell.
	 */
	CHECK(false_alarms(0, small_shift, outliers, trials) <= 0.05);
}

UNIT_TEST(a_difference_beyond_the_noise_is_found)
{
	struct sgpu_bench_results several[5] = { { 0 } }, noise = { 0 };
	int found = 0;

	state_of_chance = 5;
	for (int i = 0; i < 5; i++) {
		add(&several[i], made_run(normal_shift, outliers));
	}
	CHECK(sgpu_bench_measure_noise(several, 5, &noise, &error) == SGPU_OK);
	for (int t = 0; t < 100; t++) {
		struct sgpu_bench_record slow = made_run(normal_shift, outliers);

		slow.ns.median *= 1.2;
		slow.ns.low *= 1.2;
		slow.ns.high *= 1.2;
		found += compare_records(made_run(normal_shift, outliers), slow, &noise, false)
				 ->verdict == SGPU_BENCH_SLOWER;
	}
	CHECK(found >= 90);
	for (int i = 0; i < 5; i++) {
		sgpu_bench_results_clear(&several[i]);
	}
	sgpu_bench_results_clear(&noise);
}

UNIT_TEST(noise_is_of_what_passed_in_all_runs)
{
	struct sgpu_bench_results runs[2] = { { 0 } }, noise = { 0 };
	struct sgpu_bench_record r = passed("c", "sealed", 4096, 1000, 1),
				 failed = passed("c", "failed", 4096, 1, 1);

	CHECK(sgpu_bench_measure_noise(runs, 1, &noise, &error) == SGPU_EUSAGE);
	set_ratio(&r, 2, 0.1);
	add(&runs[0], r);
	add(&runs[0], failed);
	add(&runs[0], passed("c", "once", 4096, 1, 1));
	failed.status = SGPU_BENCH_FAILED;
	r.ns.median = 1010;
	add(&runs[1], failed);
	add(&runs[1], r);
	REQUIRE(sgpu_bench_measure_noise(runs, 2, &noise, &error) == SGPU_OK &&
		noise.noise_count == 1);
	/* 63.66, the quantile of one degree of freedom, times the logarithm of 1.01. */
	CHECK(fabs(noise.noise[0].floor - 63.66 * log(1.01)) < 1e-6 &&
	      noise.noise[0].ratio_floor == 0);
	CHECK(strcmp(noise.noise[0].key, "c sealed direction=h2d size_bytes=4096") == 0);
	sgpu_bench_results_clear(&runs[0]);
	sgpu_bench_results_clear(&runs[1]);
	sgpu_bench_results_clear(&noise);
}

UNIT_TEST(environments_of_another_build_differ)
{
	json_t *a = json_pack("{s:s, s:i, s:s}", "commit", "abc", "processors", 2, "date", "today");
	json_t *b =
		json_pack("{s:s, s:i, s:s}", "commit", "abc", "processors", 2, "date", "tomorrow");

	CHECK(sgpu_bench_environments_differ(a, b) == NULL &&
	      sgpu_bench_environments_differ(NULL, NULL) == NULL);
	CHECK(strcmp(sgpu_bench_environments_differ(a, NULL), "processors") == 0);
	json_object_set_new(b, "commit", json_string("abd"));
	CHECK(strcmp(sgpu_bench_environments_differ(a, b), "commit") == 0);
	json_decref(a);
	json_decref(b);
}

UNIT_TEST(what_one_side_lacks_is_named)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_record failed = passed("c", "b", 4096, 100, 1);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	add(&first, passed("c", "a", 4096, 100, 1));
	add(&first, passed("c", "b", 4096, 100, 1));
	failed.status = SGPU_BENCH_FAILED;
	add(&second, failed);
	add(&second, passed("c", "a", 8192, 100, 1));
	REQUIRE(sgpu_bench_compare(&first, &second, NULL, false, &d, &count, &error) == SGPU_OK &&
		count == 3);
	CHECK(d[0].verdict == SGPU_BENCH_ONLY_FIRST && d[0].first && !d[0].second);
	CHECK(d[1].verdict == SGPU_BENCH_NOT_MEASURED && d[1].second->status == SGPU_BENCH_FAILED);
	CHECK(d[2].verdict == SGPU_BENCH_ONLY_SECOND && !d[2].first && d[2].second->bytes == 8192);
	free(d);
	/* The order of parameters does not matter; the same measurement twice cannot be paired. */
	add(&second, failed);
	second.records[2].parameters[0] = failed.parameters[1];
	second.records[2].parameters[1] = failed.parameters[0];
	CHECK(sgpu_bench_compare(&first, &second, NULL, false, &d, &count, &error) ==
		      SGPU_EINVALID &&
	      d == NULL);
	CHECK(strstr(error.text, "twice") != NULL);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

UNIT_TEST(ratios_are_compared_in_place_of_times)
{
	struct sgpu_bench_results first = { 0 }, second = { 0 };
	struct sgpu_bench_record slow = passed("c", "sealed", 4096, 1000, 1),
				 fast = passed("c", "sealed", 4096, 10, 0.01);
	struct sgpu_bench_difference *d = NULL;
	size_t count = 0;

	set_ratio(&slow, 1.10, 0.001);
	set_ratio(&fast, 1.10, 0.001);
	add(&first, passed("c", "plain", 4096, 900, 1));
	add(&first, slow);
	add(&second, passed("c", "plain", 4096, 9, 0.01));
	add(&second, fast);
	REQUIRE(sgpu_bench_compare(&first, &second, NULL, true, &d, &count, &error) == SGPU_OK &&
		count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_SAME);
	free(d);
	second.records[1].ratio.median = 1.2;
	second.records[1].ratio.min = 1.19;
	REQUIRE(sgpu_bench_compare(&first, &second, NULL, true, &d, &count, &error) == SGPU_OK &&
		count == 1);
	CHECK(d[0].verdict == SGPU_BENCH_SLOWER);
	free(d);
	sgpu_bench_results_clear(&first);
	sgpu_bench_results_clear(&second);
}

int main(void)
{
	UNIT_RUN(differences_count_beyond_the_noise);
	UNIT_RUN(no_gap_between_the_intervals_leaves_it_open);
	UNIT_RUN(measured_noise_takes_the_place_of_the_scatter);
	UNIT_RUN(at_most_one_figure_of_20_is_a_false_alarm);
	UNIT_RUN(a_difference_beyond_the_noise_is_found);
	UNIT_RUN(noise_is_of_what_passed_in_all_runs);
	UNIT_RUN(environments_of_another_build_differ);
	UNIT_RUN(what_one_side_lacks_is_named);
	UNIT_RUN(ratios_are_compared_in_place_of_times);
	return unit_done();
}
