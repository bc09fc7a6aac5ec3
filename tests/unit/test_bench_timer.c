/* SPDX-License-Identifier: Apache-2.0
 *
 * Times that a device tells: which of them can be, and that others become no figure.
 */
#include <device/cuda/moment.h>
#include <bench/bench.h>

#include "unit.h"

#define SECOND ((uint64_t)1000000000)

static uint64_t moment;

UNIT_TEST(a_time_between_its_bounds_is_taken_as_it_is)
{
	CHECK(sgpu_cuda_moment(5 * SECOND, 10000, 1000, 5 * SECOND, 6 * SECOND, &moment) &&
	      moment == 5 * SECOND + 1000);
	CHECK(sgpu_cuda_moment(5 * SECOND, 0, 0, 5 * SECOND, 5 * SECOND, &moment) &&
	      moment == 5 * SECOND);
	/* Counted from a base that is older than the work, or from one that came after it. */
	CHECK(sgpu_cuda_moment(4 * SECOND, 0, 1.5e9, 5 * SECOND, 6 * SECOND, &moment) &&
	      moment == 5 * SECOND + SECOND / 2);
	CHECK(sgpu_cuda_moment(6 * SECOND, 0, -0.5e9, 5 * SECOND, 7 * SECOND, &moment) &&
	      moment == 5 * SECOND + SECOND / 2);
}

UNIT_TEST(a_time_beside_its_bounds_by_no_more_than_the_clocks_differ_is_moved_there)
{
	const uint64_t error = 30000, most = error + SGPU_CUDA_STEP_NS + SECOND / SGPU_CUDA_DRIFT;

	CHECK(sgpu_cuda_moment(5 * SECOND, error, -(double)most, 5 * SECOND, 6 * SECOND, &moment) &&
	      moment == 5 * SECOND);
	CHECK(!sgpu_cuda_moment(5 * SECOND, error, -(double)most - 1, 5 * SECOND, 6 * SECOND,
				&moment) &&
	      moment == 5 * SECOND);
	CHECK(sgpu_cuda_moment(5 * SECOND, error, 1e9 + (double)most, 5 * SECOND, 6 * SECOND,
			       &moment) &&
	      moment == 6 * SECOND);
	CHECK(!sgpu_cuda_moment(5 * SECOND, error, 1e9 + (double)most + 1, 5 * SECOND, 6 * SECOND,
				&moment) &&
	      moment == 6 * SECOND);
}

UNIT_TEST(a_time_that_cannot_be_is_none_and_stays_between_the_bounds)
{
	const double told[] = {
		-1e9, -3.4e38, 3.4e38, (double)NAN, (double)INFINITY, -(double)INFINITY,
		1e17, -1e17,   -2.5e9, 8e18
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(told); i++) {
		CHECK(!sgpu_cuda_moment(5 * SECOND, 50000, told[i], 5 * SECOND, 6 * SECOND,
					&moment));
		CHECK(moment >= 5 * SECOND && moment <= 6 * SECOND);
	}
	/* The host's clock is read before the work that is told to have ended: the bounds are in
	 * order all the same. */
	CHECK(sgpu_cuda_moment(5 * SECOND, 50000, 0, 5 * SECOND, 4 * SECOND, &moment) &&
	      moment == 5 * SECOND);
}

UNIT_TEST(what_was_not_timed_becomes_no_figure)
{
	struct sgpu_task tasks[3] = { { .begin_ns = 1, .end_ns = 5 },
				      { .begin_ns = 5, .end_ns = 9 },
				      { .begin_ns = 9, .end_ns = 10 } };
	struct sgpu_error error = { 0 };

	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_OK);
	tasks[1].mistimed = true;
	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_EUNAVAILABLE);
	CHECK(error.code == SGPU_EUNAVAILABLE && strstr(error.text, "timer") &&
	      strstr(error.hint, "--timer"));
	/* What failed is named first: nobody asks how long it took. */
	tasks[0].code = SGPU_EDEVICE;
	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_EDEVICE);
}

UNIT_TEST(the_cpu_device_has_one_timer)
{
	struct sgpu_device *device = NULL;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };

	REQUIRE(sgpu_device_open("cpu",
				 &(struct sgpu_device_config){ .timer = SGPU_TIMER_GLOBALTIMER },
				 &device, &error) == SGPU_OK);
	CHECK(sgpu_device_get_info(device, &info, &error) == SGPU_OK &&
	      strcmp(info.timer, "host") == 0);
	CHECK(!info.reads_pageable);
	CHECK(strcmp(sgpu_device_timer_name(SGPU_TIMER_AUTO), "auto") == 0);
	CHECK(strcmp(sgpu_device_timer_name(SGPU_TIMER_EVENTS), "events") == 0);
	CHECK(strcmp(sgpu_device_timer_name(SGPU_TIMER_GLOBALTIMER), "globaltimer") == 0);
	CHECK(strcmp(sgpu_device_timer_name((enum sgpu_device_timer)7), "") == 0);
	sgpu_device_close(&device);
}

int main(void)
{
	UNIT_RUN(a_time_between_its_bounds_is_taken_as_it_is);
	UNIT_RUN(a_time_beside_its_bounds_by_no_more_than_the_clocks_differ_is_moved_there);
	UNIT_RUN(a_time_that_cannot_be_is_none_and_stays_between_the_bounds);
	UNIT_RUN(what_was_not_timed_becomes_no_figure);
	UNIT_RUN(the_cpu_device_has_one_timer);
	return unit_done();
}
