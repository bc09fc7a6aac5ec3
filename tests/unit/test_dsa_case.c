/* SPDX-License-Identifier: Apache-2.0
 *
 * The case dsa of sgpu-bench over an accelerator that is a thread: what it measures and verifies.
 * The figures mean nothing.
 */
#include "dsa_harness.h"

static struct order always;

static int open_fake(struct sgpu_dsa **dsa, struct sgpu_error *why)
{
	(void)why;
	*dsa = fake_open();
	fake->always = always;
	return SGPU_OK;
}

#define sgpu_dsa_open open_fake
#include "../../tools/sgpu-bench/setup.c"

#include "../../tools/sgpu-bench/case_dsa.c"

static struct sgpu_error error;
static int passed, waived, failed;
static char reason[256];

static void take(void *argument, const json_t *record)
{
	const char *status = sgpu_bench_text(record, "status");

	(void)argument;
	passed += strcmp(status, "passed") == 0;
	waived += strcmp(status, "waived") == 0;
	failed += strcmp(status, "failed") == 0;
	if (sgpu_bench_passed(record)) {
		const uint64_t bytes = (uint64_t)sgpu_bench_number(record, "bytes");

		CHECK(sgpu_bench_number(record, "median_ns") > 0 && bytes > 0 &&
		      bytes % (uint64_t)sgpu_bench_number(record, "operations") == 0);
	} else {
		snprintf(reason, sizeof(reason), "%s", sgpu_bench_text(record, "reason"));
	}
}

static enum sgpu_bench_status run_case(void)
{
	const struct sgpu_bench_case row = { "dsa", "", SGPU_BENCH_BYTES_PER_SECOND, bench_dsa };
	const struct sgpu_bench_options options = {
		.quick = true, .samples = 3, .size_max = 4096, .jobs = 1
	};
	enum sgpu_bench_status status = SGPU_BENCH_FAILED;

	passed = waived = failed = 0;
	CHECK(sgpu_bench_run(&row, &options, NULL, take, NULL, &status, &error) == SGPU_OK);
	fake_end();
	return status;
}

UNIT_TEST(every_size_and_depth_is_measured)
{
	always = (struct order){ .deed = OBEY };
	CHECK(run_case() == SGPU_BENCH_PASSED);
	/* 64 B and 4 KiB, four depths, two variants. */
	CHECK(passed == 2 * 4 * 2 && failed == 0 && waived == 0);
}

UNIT_TEST(a_device_that_lies_is_a_failure_and_no_figure)
{
	always = (struct order){ .deed = LIE };
	CHECK(run_case() == SGPU_BENCH_FAILED && failed > 0 && strstr(reason, "did not arrive"));
}

int main(void)
{
	UNIT_RUN(every_size_and_depth_is_measured);
	UNIT_RUN(a_device_that_lies_is_a_failure_and_no_figure);
	return unit_done();
}
