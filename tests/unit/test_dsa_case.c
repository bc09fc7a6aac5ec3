/* SPDX-License-Identifier: Apache-2.0
 *
 * The case dsa of sgpu-bench over an accelerator that is a thread: what it measures, verifies and
 * waives. The figures mean nothing. sgpu_dsa_open is the test's own; the library's stands in a file
 * of its own, which is then not linked.
 */
#include "../../tools/sgpu-bench/case_dsa.c"
#include "../../tools/sgpu-bench/setup.c"

#include "dsa_harness.h"

static struct sgpu_error error;
static unsigned depth;
static struct order always;
static int passed, waived, failed, umwaits, crcs;
static char reason[256];

int sgpu_dsa_open(unsigned modes, struct sgpu_dsa **dsa, struct sgpu_error *why)
{
	(void)why;
	CHECK(modes == (SGPU_DSA_SHARED | SGPU_DSA_DEDICATED));
	*dsa = fake_open(depth);
	fake->always = always;
	return SGPU_OK;
}

static void take(void *argument, const struct sgpu_bench_record *record)
{
	(void)argument;
	passed += record->status == SGPU_BENCH_PASSED;
	waived += record->status == SGPU_BENCH_WAIVED;
	failed += record->status == SGPU_BENCH_FAILED;
	umwaits += strcmp(record->variant, "umwait") == 0;
	for (int i = 0; i < record->parameter_count; i++) {
		crcs += strcmp(record->parameters[i].text, "crc") == 0;
	}
	if (record->status == SGPU_BENCH_PASSED) {
		CHECK(record->ns.median > 0 && record->bytes > 0 &&
		      record->bytes % record->operations == 0);
	} else {
		snprintf(reason, sizeof(reason), "%s", record->reason);
	}
}

static enum sgpu_bench_status run_case(void)
{
	const struct sgpu_bench_case row = { "dsa", "", SGPU_BENCH_BYTES_PER_SECOND, 0, bench_dsa };
	const struct sgpu_bench_options options = {
		.quick = true, .samples = 3, .size_max = 4096, .jobs = 1
	};
	enum sgpu_bench_status status = SGPU_BENCH_FAILED;

	passed = waived = failed = umwaits = crcs = 0;
	CHECK(sgpu_bench_run(&row, &options, NULL, take, NULL, &status, &error) == SGPU_OK);
	fake_end();
	return status;
}

UNIT_TEST(every_size_and_depth_is_measured_for_copies_and_crcs)
{
	depth = 32;
	always = (struct order){ .deed = OBEY };
	CHECK(run_case() == SGPU_BENCH_PASSED);
	/* 64 B and 4 KiB, three depths that the queue holds, two operations; the fourth depth is
	 * waived, and UMWAIT once. */
	CHECK(passed == 2 * 3 * 2 * 2 && failed == 0 && umwaits == 1 && waived == umwaits + 2 * 2);
	CHECK(crcs == (passed + waived - umwaits) / 2);
}

UNIT_TEST(a_device_that_lies_is_a_failure_and_no_figure)
{
	depth = 32;
	always = (struct order){ .deed = LIE };
	CHECK(run_case() == SGPU_BENCH_FAILED && failed > 0 && strstr(reason, "did not arrive"));
}

int main(void)
{
	UNIT_RUN(every_size_and_depth_is_measured_for_copies_and_crcs);
	UNIT_RUN(a_device_that_lies_is_a_failure_and_no_figure);
	return unit_done();
}
