/* SPDX-License-Identifier: Apache-2.0
 *
 * Health tests of noise sources: cutoffs that others publish, sequences made to fail each test, and
 * the counts that a device makes, compiled for the host.
 */
#include <math.h>
#include <stdint.h>

#include <sgpu/keys.h>

#include <crypto/internal.h>
#include <device/cuda/kernels/entropy.cuh>

#include "crypto/entropy.h"
#include "entropy_count.h"
#include "unit.h"

enum { SIZE = 1024, SOURCES = 8 };

static uint8_t samples[SIZE];

static struct sgpu_entropy_counts counted(void)
{
	struct sgpu_entropy_counts counts;

	entropy_count(samples, SIZE, &counts);
	return counts;
}

static bool passes(double bits, double margin)
{
	struct sgpu_entropy_counts counts = counted();
	struct sgpu_entropy_verdict verdict;

	return sgpu_entropy_judge(&counts, 1, bits, margin, 1, &verdict, NULL) == 0;
}

/* Other bytes at every call, the same in every run. */
static void noise(void)
{
	static uint32_t number;

	number++;
	sgpu_kt128(&number, sizeof(number), "noise", 5, samples, SIZE);
}

/* Every seed gives what nearly all do: the tests do not hang on theirs. */
UNIT_TEST(estimates_of_noise_lie_close_together)
{
	double least[2] = { 8, 8 }, most[2] = { 0, 0 };

	for (int round = 0; round < 400; round++) {
		int two = round % 2;
		struct sgpu_entropy_counts counts;
		double bits;

		noise();
		for (int i = 0; two && i < SIZE; i++) {
			samples[i] &= 1;
		}
		counts = counted();
		bits = sgpu_entropy_estimate(&counts);
		least[two] = bits < least[two] ? bits : least[two];
		most[two] = bits > most[two] ? bits : most[two];
	}
	CHECK(least[0] > 5 && most[0] < 7);
	CHECK(least[1] > 0.65 && most[1] < 0.9);
}

UNIT_TEST(cutoffs_are_those_of_the_standard)
{
	/* By hand: 1 + ceil(30 / H). */
	CHECK(sgpu_entropy_repetition_cutoff(1) == 31);
	CHECK(sgpu_entropy_repetition_cutoff(0.5) == 61);
	CHECK(sgpu_entropy_repetition_cutoff(8) == 5);
	/* 1 + CRITBINOM(512, 2^-H, 1 - 2^-30), from exact fractions. */
	CHECK(sgpu_entropy_proportion_cutoff(1) == 325);
	CHECK(sgpu_entropy_proportion_cutoff(1.0 / 2) == 422);
	CHECK(sgpu_entropy_proportion_cutoff(1.0 / 3) == 458);
	CHECK(sgpu_entropy_proportion_cutoff(1.0 / 4) == 477);
}

UNIT_TEST(noise_passes)
{
	struct sgpu_entropy_counts counts;

	noise();
	counts = counted();
	CHECK(counts.samples == SIZE && counts.longest_run < 6 && counts.most_common < 25);
	CHECK(sgpu_entropy_estimate(&counts) > 4 && sgpu_entropy_estimate(&counts) < 8);
	CHECK(passes(0.5, 2) && passes(1, 2) && passes(2, 2));
}

UNIT_TEST(a_stuck_source_fails)
{
	struct sgpu_entropy_counts counts;

	memset(samples, 0x5a, SIZE);
	counts = counted();
	CHECK(counts.longest_run == SIZE && counts.most_in_window == SGPU_ENTROPY_WINDOW &&
	      counts.most_common == SIZE);
	CHECK(sgpu_entropy_estimate(&counts) == 0);
	CHECK(!passes(0.01, 1));
}

UNIT_TEST(a_source_that_sticks_for_a_while_fails_by_its_run_alone)
{
	unsigned cutoff = sgpu_entropy_repetition_cutoff(0.5);

	noise();
	samples[299] = 1;
	memset(samples + 300, 7, cutoff);
	samples[300 + cutoff] = 1;
	CHECK(counted().longest_run == cutoff);
	CHECK(!passes(0.5, 1));
	samples[320] = 8;
	CHECK(passes(0.5, 2));
}

UNIT_TEST(a_biased_source_fails_by_its_proportion)
{
	unsigned cutoff = sgpu_entropy_proportion_cutoff(0.5);

	/* So many of a full window, never many at once. */
	noise();
	for (unsigned i = 0, put = 0; i < SGPU_ENTROPY_WINDOW; i++) {
		bool mine = i == 0 || put * (SGPU_ENTROPY_WINDOW - 1) < i * cutoff;

		mine = mine && put < cutoff;
		samples[i] = mine ? 3 : (uint8_t)(128 + i % 100);
		put += mine;
	}
	CHECK(counted().most_in_window == cutoff && counted().longest_run < 30);
	CHECK(!passes(0.5, 0.01));
	samples[0] = 200; /* another value is counted */
	CHECK(counted().most_in_window < 50);
	CHECK(passes(0.5, 0.01));
}

UNIT_TEST(a_source_of_two_values_is_not_thought_better_than_it_is)
{
	struct sgpu_entropy_counts counts;

	noise();
	for (int i = 0; i < SIZE; i++) {
		samples[i] &= 1;
	}
	counts = counted();
	CHECK(sgpu_entropy_estimate(&counts) < 1 && sgpu_entropy_estimate(&counts) > 0.6);
	CHECK(!passes(0.5, 2));
}

UNIT_TEST(what_repeats_itself_has_no_entropy)
{
	struct sgpu_entropy_counts counts;

	for (int period = 2; period <= SGPU_ENTROPY_LAGS; period *= 2) {
		for (int i = 0; i < SIZE; i++) {
			samples[i] = (uint8_t)(i % period * 2);
		}
		counts = counted();
		CHECK(counts.longest_run == 1);
		CHECK(sgpu_entropy_estimate(&counts) < 0.01);
		CHECK(!passes(0.5, 2));
	}
}

/* As 6.3.1 counts it, by hand: 40 of 1024. */
UNIT_TEST(the_estimate_is_the_standards)
{
	struct sgpu_entropy_counts counts = { .samples = 1024,
					      .most_common = 40,
					      .most_at_lag = 0 };
	double p = 40.0 / 1024, upper = p + 2.576 * sqrt(p * (1 - p) / 1023);

	CHECK(fabs(sgpu_entropy_estimate(&counts) - -log2(upper)) < 1e-9);
	CHECK(fabs(upper - 0.054664) < 1e-5);
	counts.most_at_lag = 448; /* half of those that every lag has */
	CHECK(sgpu_entropy_estimate(&counts) < 1 && sgpu_entropy_estimate(&counts) > 0.8);
}

UNIT_TEST(counts_that_cannot_be_are_worth_nothing)
{
	static const struct sgpu_entropy_counts wrong[] = {
		{ 0, 0, 0, 0, 0 },	 { 1024, 1, 1, 0, 0 },
		{ 1024, 1, 1, 1025, 0 }, { 1024, 1, 1, 10, 1000 },
		{ 129, 1, 1, 1, 0 },	 { 1023, 2, 5, 20, 20 }, /* fine but too few */
	};
	struct sgpu_entropy_verdict verdict;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CHECK(sgpu_entropy_judge(&wrong[i], 1, 0.5, 2, 1, &verdict, NULL) == SGPU_EDEVICE);
		CHECK(verdict.sound == 0 && verdict.credited == 0);
	}
}

UNIT_TEST(half_of_the_sources_must_pass)
{
	struct sgpu_entropy_counts counts[SOURCES];
	struct sgpu_entropy_verdict verdict;
	struct sgpu_error error;

	for (int bad = 0; bad <= SOURCES; bad++) {
		for (int i = 0; i < SOURCES; i++) {
			noise();
			counts[i] = counted();
			counts[i].longest_run = i < bad ? 61 : counts[i].longest_run;
		}
		memset(&error, 0, sizeof(error));
		CHECK(sgpu_entropy_judge(counts, SOURCES, 0.5, 2, 1, &verdict, &error) ==
		      (bad <= SOURCES / 2 ? 0 : SGPU_EDEVICE));
		CHECK(verdict.sources == SOURCES && verdict.sound == (unsigned)(SOURCES - bad));
		CHECK(bad <= SOURCES / 2 ||
		      strstr(error.text, "repetition count, 61.00 against 61.00"));
	}
	CHECK(sgpu_entropy_judge(counts, 0, 0.5, 2, 0, &verdict, NULL) == SGPU_EDEVICE);
}

UNIT_TEST(what_is_told_of_a_source_is_not_counted)
{
	struct sgpu_entropy_counts counts;
	struct sgpu_entropy_verdict verdict;

	noise();
	counts = counted();
	CHECK(sgpu_entropy_judge(&counts, 1, 0.5, 2, 457, &verdict, NULL) == 0);
	CHECK(verdict.credited == 512 - 55);
	CHECK(sgpu_entropy_judge(&counts, 1, 0.5, 2, 458, &verdict, NULL) == SGPU_EDEVICE);
}

UNIT_TEST(the_device_counts_the_same)
{
	for (int round = 0; round < 40; round++) {
		struct sgpu_entropy_counts counts, device = { .samples = SIZE };
		uint32_t times;

		noise();
		for (int i = 0; i < SIZE; i++) {
			samples[i] = round % 4 == 1   ? samples[i] & 1
				     : round % 4 == 2 ? (uint8_t)(i / 100)
						      : samples[i];
			samples[i] = round % 4 == 3 && samples[i] < 200 ? 9 : samples[i];
		}
		counts = counted();
		sgpu_entropy_walk(samples, SIZE, &device.longest_run, &device.most_in_window);
		for (uint32_t i = 0; i < 256; i++) {
			times = sgpu_entropy_times(samples, SIZE, i);
			device.most_common =
				times > device.most_common ? times : device.most_common;
		}
		for (uint32_t i = 1; i <= SGPU_ENTROPY_LAGS; i++) {
			times = sgpu_entropy_again(samples, SIZE, i);
			device.most_at_lag =
				times > device.most_at_lag ? times : device.most_at_lag;
		}
		CHECK(memcmp(&counts, &device, sizeof(counts)) == 0);
	}
}

int main(void)
{
	UNIT_RUN(cutoffs_are_those_of_the_standard);
	UNIT_RUN(estimates_of_noise_lie_close_together);
	UNIT_RUN(noise_passes);
	UNIT_RUN(a_stuck_source_fails);
	UNIT_RUN(a_source_that_sticks_for_a_while_fails_by_its_run_alone);
	UNIT_RUN(a_biased_source_fails_by_its_proportion);
	UNIT_RUN(a_source_of_two_values_is_not_thought_better_than_it_is);
	UNIT_RUN(what_repeats_itself_has_no_entropy);
	UNIT_RUN(the_estimate_is_the_standards);
	UNIT_RUN(counts_that_cannot_be_are_worth_nothing);
	UNIT_RUN(half_of_the_sources_must_pass);
	UNIT_RUN(what_is_told_of_a_source_is_not_counted);
	UNIT_RUN(the_device_counts_the_same);
	return unit_done();
}
