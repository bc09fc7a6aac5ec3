/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of work: work that was not timed becomes no figure.
 */
#include <bench/bench.h>

#include "unit.h"

UNIT_TEST(what_was_not_timed_becomes_no_figure)
{
	struct sgpu_task tasks[3] = { { .begin_ns = 1, .end_ns = 5 },
				      { .begin_ns = 5, .end_ns = 9 },
				      { .begin_ns = 9, .end_ns = 10 } };
	struct sgpu_error error = { 0 };

	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_OK);
	tasks[1].mistimed = true;
	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_EUNAVAILABLE);
	CHECK(error.code == SGPU_EUNAVAILABLE && strstr(error.text, "times no work"));
	/* What failed is named first: nobody asks how long it took. */
	tasks[0].code = SGPU_EDEVICE;
	CHECK(sgpu_bench_tasks(tasks, 3, &error) == SGPU_EDEVICE);
}

UNIT_TEST(the_cpu_device_has_the_timer_of_the_host)
{
	struct sgpu_device *device = NULL;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };

	REQUIRE(sgpu_device_open("cpu", NULL, &device, &error) == SGPU_OK);
	CHECK(sgpu_device_get_info(device, &info, &error) == SGPU_OK &&
	      strcmp(info.timer, "host") == 0);
	CHECK(!info.reads_pageable);
	sgpu_device_close(&device);
}

int main(void)
{
	UNIT_RUN(what_was_not_timed_becomes_no_figure);
	UNIT_RUN(the_cpu_device_has_the_timer_of_the_host);
	return unit_done();
}
