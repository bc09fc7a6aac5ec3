/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of sessions on a GPU, which are recorded when they come again over the same buffers: what
 * they compute, and what of them fails.
 */

#include "ops/ops.h"
#include "recording_harness.h"
#include "remote/job.h"

enum { N = 3000, BYTES = 4 * N, STEP = 3 * PAGE, SETS = RECORDED_MAX + 2 };

#define SEGMENT(id, direction)                                                                 \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id                                                    \
	"\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[3000]}}"
#define ADD(id, a, b, output)                                                                  \
	"{\"gpu_operation_id\":\"" id "\",\"kernel\":\"vector_add\",\"arguments\":{\"a\":\"" a \
	"\",\"b\":\"" b "\",\"output\":\"" output "\"}}"
/* sum = x + y, and then twice = sum + sum */
static const char adding[] =
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":[" SEGMENT("x", "INPUT") "," SEGMENT(
		"y",
		"INPUT") "," SEGMENT("sum",
				     "OUTPUT") "," SEGMENT("twice",
							   "OUTPUT") "],\"operations\":"
								     "[" ADD("FIRST", "x", "y",
									     "sum") "," ADD("DOUBL"
											    "E",
											    "sum",
											    "sum",
											    "twice") "]}";

static struct inside in;
static struct sgpu_job *job;
static struct sgpu_error error;
static struct bump tally;   /* of the runs of a step that counts them */
static int unrecorded_runs; /* of a step that is not recorded */

static bool load_adding(void)
{
	uint64_t bytes = 0;
	void *loaded = NULL;
	bool done = begin_with_kernel() && enter(&in, NULL) &&
		    sgpu_remote_jobs.load(in.device, adding, strlen(adding), 1 << 20, &loaded,
					  &bytes, &error) == SGPU_OK;

	job = loaded;
	return done && job->step_count == 2 && job->range_count == 4;
}

static void unload_adding(void)
{
	void *loaded = job;

	sgpu_remote_jobs.free(&loaded);
	leave(&in);
	finish_with_kernel();
}

static void ranges_of(sgpu_devptr buffer, struct sgpu_device_range ranges[4])
{
	for (uint64_t i = 0; i < 4; i++) {
		ranges[i] = (struct sgpu_device_range){ buffer + i * STEP, BYTES };
	}
}

static int fill_buffer(sgpu_devptr buffer, int seed)
{
	static float x[N], y[N];

	for (int i = 0; i < N; i++) {
		x[i] = (float)(i + seed);
		y[i] = (float)(3 * seed);
	}
	int rc = sgpu_device_clear(in.stream, buffer, 4 * STEP, NULL);

	rc = rc == SGPU_OK ? sgpu_copy_in(in.stream, buffer, x, BYTES, NULL) : rc;
	rc = rc == SGPU_OK ? sgpu_copy_in(in.stream, buffer + STEP, y, BYTES, NULL) : rc;
	return rc == SGPU_OK ? sgpu_stream_sync(in.stream, NULL) : rc;
}

static bool holds_result(sgpu_devptr buffer, int seed)
{
	static float sum[N], twice[N];
	bool right = sgpu_copy_out(in.stream, sum, buffer + 2 * STEP, BYTES, NULL) == SGPU_OK &&
		     sgpu_copy_out(in.stream, twice, buffer + 3 * STEP, BYTES, NULL) == SGPU_OK &&
		     sgpu_stream_sync(in.stream, NULL) == SGPU_OK;

	for (int i = 0; i < N; i++) {
		right = right && sum[i] == (float)(i + 4 * seed) &&
			twice[i] == (float)(2 * (i + 4 * seed));
	}
	return right;
}

static int run_over(sgpu_devptr buffer)
{
	struct sgpu_device_range ranges[4];
	void *run = NULL;
	int rc, ended;

	ranges_of(buffer, ranges);
	error = (struct sgpu_error){ 0 };
	rc = sgpu_remote_jobs.start(job, in.stream, ranges, 4, &run, &error);
	CHECK(sgpu_stream_sync(in.stream, NULL) == SGPU_OK);
	ended = sgpu_remote_jobs.end(&run, rc == SGPU_OK ? &error : NULL);
	return rc == SGPU_OK ? ended : rc;
}

static bool computes(sgpu_devptr buffer, int seed)
{
	return fill_buffer(buffer, seed) == SGPU_OK && run_over(buffer) == SGPU_OK &&
	       holds_result(buffer, seed);
}

static int recordings(void)
{
	int count = 0;

	for (int i = 0; i < RECORDED_MAX; i++) {
		count += job->recorded[i].recording != NULL;
		CHECK(job->recorded[i].running == 0);
	}
	return count;
}

UNIT_TEST(a_job_over_more_buffers_than_it_remembers_computes_what_is_in_each)
{
	sgpu_devptr buffer[SETS] = { 0 };
	int seed = 1;

	REQUIRE(load_adding());
	for (int i = 0; i < SETS; i++) {
		REQUIRE(sgpu_device_alloc(in.device, 4 * STEP, &buffer[i], NULL) == SGPU_OK);
	}
	CHECK(computes(buffer[0], seed++) && recordings() == 0); /* they may never come again */
	CHECK(computes(buffer[0], seed++) && recordings() == 1);
	for (int i = 0; i < 20; i++) {
		CHECK(computes(buffer[0], seed++) && recordings() == 1);
	}
	for (int round = 0; round < 6; round++) {
		/* Once, so that none is remembered long enough; then thrice each. */
		for (int i = 0; i < SETS * (round % 2 ? 3 : 1); i++) {
			CHECK(computes(buffer[round % 2 ? i / 3 : i], seed++));
		}
		CHECK(recordings() <= RECORDED_MAX && !job->unrecorded);
	}
	CHECK(recordings() == RECORDED_MAX);
	/* The same memory with the ranges in another order is something else. */
	struct sgpu_device_range ranges[4], swap;

	ranges_of(buffer[SETS - 1], ranges);
	swap = ranges[2];
	ranges[2] = ranges[3];
	ranges[3] = swap;
	for (int i = 0; i < 4; i++) {
		static float sum[N];
		void *run = NULL;

		CHECK(fill_buffer(buffer[SETS - 1], seed) == SGPU_OK);
		CHECK(sgpu_remote_jobs.start(job, in.stream, ranges, 4, &run, &error) == SGPU_OK);
		CHECK(sgpu_stream_sync(in.stream, NULL) == SGPU_OK &&
		      sgpu_remote_jobs.end(&run, &error) == SGPU_OK);
		CHECK(sgpu_copy_out(in.stream, sum, ranges[2].address, BYTES, NULL) == SGPU_OK);
		CHECK(sgpu_stream_sync(in.stream, NULL) == SGPU_OK &&
		      sum[7] == (float)(7 + 4 * seed));
		CHECK(computes(buffer[SETS - 1], ++seed));
	}
	for (int i = 0; i < SETS; i++) {
		sgpu_device_free(in.device, &buffer[i], 4 * STEP);
	}
	unload_adding();
}

UNIT_TEST(a_job_that_is_started_twice_over_the_same_buffers_runs_twice)
{
	struct sgpu_device_range ranges[4];
	sgpu_devptr buffer = 0;

	REQUIRE(load_adding() && sgpu_device_alloc(in.device, 4 * STEP, &buffer, NULL) == SGPU_OK);
	ranges_of(buffer, ranges);
	CHECK(computes(buffer, 1) && computes(buffer, 2) && recordings() == 1);
	for (int round = 3; round < 20; round++) {
		void *runs[3] = { NULL };

		CHECK(fill_buffer(buffer, round) == SGPU_OK);
		/* The recording runs once; what else was started goes step by step. */
		for (int i = 0; i < 3; i++) {
			CHECK(sgpu_remote_jobs.start(job, in.stream, ranges, 4, &runs[i], &error) ==
			      SGPU_OK);
			CHECK((((struct sgpu_job_run *)runs[i])->recorded != NULL) == (i == 0));
		}
		CHECK(sgpu_stream_sync(in.stream, NULL) == SGPU_OK);
		for (int i = 0; i < 3; i++) {
			CHECK(sgpu_remote_jobs.end(&runs[i], &error) == SGPU_OK && !runs[i]);
		}
		CHECK(holds_result(buffer, round) && recordings() == 1);
	}
	sgpu_device_free(in.device, &buffer, 4 * STEP);
	unload_adding();
}

/* Adds, and bumps the tally. */
static int add_and_tally(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	int rc = sgpu_device_op(launch->device, "vector_add")(call, launch);

	return rc == SGPU_OK ? bump(launch, &tally) : rc;
}

UNIT_TEST(a_step_of_a_recorded_job_that_fails_is_named_and_the_next_run_is_sound)
{
	sgpu_devptr buffer = 0, words;

	REQUIRE(load_adding() && sgpu_device_alloc(in.device, 4 * STEP, &buffer, NULL) == SGPU_OK);
	words = cleared_words(in.device, in.stream);
	tally = (struct bump){ words, 5, SGPU_EINVALID };
	job->steps[1].on_device = add_and_tally;
	for (int i = 0; i < 5; i++) {
		CHECK(computes(buffer, i));
	}
	CHECK(recordings() == 1);
	CHECK(fill_buffer(buffer, 9) == SGPU_OK && run_over(buffer) == SGPU_EINVALID);
	CHECK(strstr(error.text, "'DOUBLE'") != NULL);
	CHECK(sgpu_device_clear(in.stream, words, PAGE, NULL) == SGPU_OK);
	for (int i = 0; i < 5; i++) {
		CHECK(computes(buffer, i));
	}
	/* A request to stop. */
	sgpu_device_cancel(in.device, true);
	CHECK(run_over(buffer) == SGPU_ECANCELED && strstr(error.text, "operation '") != NULL);
	sgpu_device_cancel(in.device, false);
	CHECK(word_at(in.stream, words) == 5 && recordings() == 1);
	CHECK(sgpu_device_clear(in.stream, words, PAGE, NULL) == SGPU_OK && computes(buffer, 10));
	sgpu_device_free(in.device, &words, PAGE);
	sgpu_device_free(in.device, &buffer, 4 * STEP);
	unload_adding();
}

UNIT_TEST(a_recorded_job_does_not_run_over_a_buffer_that_was_freed)
{
	sgpu_devptr buffer = 0, freed;

	REQUIRE(load_adding() && sgpu_device_alloc(in.device, 4 * STEP, &buffer, NULL) == SGPU_OK);
	CHECK(computes(buffer, 1) && computes(buffer, 2) && computes(buffer, 3) &&
	      recordings() == 1);
	for (int i = 0; i < 5; i++) {
		freed = buffer;
		sgpu_device_free(in.device, &buffer, 4 * STEP);
		CHECK(run_over(freed) == SGPU_EUSAGE && error.text[0]);
		/* The next buffer may have the same addresses: the recording is good for that, too.
		 */
		REQUIRE(sgpu_device_alloc(in.device, 4 * STEP, &buffer, NULL) == SGPU_OK);
		CHECK(computes(buffer, 10 + i) && computes(buffer, 20 + i) &&
		      computes(buffer, 30 + i));
	}
	sgpu_device_free(in.device, &buffer, 4 * STEP);
	unload_adding();
}

static int add_unrecorded(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	if (launch->recorded) {
		return sgpu_fail(launch->error, SGPU_EUNAVAILABLE, "needs memory as it goes");
	}
	unrecorded_runs++;
	return sgpu_device_op(launch->device, "vector_add")(call, launch);
}

UNIT_TEST(a_job_with_a_step_that_cannot_be_recorded_goes_step_by_step)
{
	sgpu_devptr buffer = 0;

	REQUIRE(load_adding() && sgpu_device_alloc(in.device, 4 * STEP, &buffer, NULL) == SGPU_OK);
	job->steps[1].on_device = add_unrecorded;
	unrecorded_runs = 0;
	for (int i = 0; i < 5; i++) {
		CHECK(computes(buffer, i) && recordings() == 0 && unrecorded_runs == i + 1);
		CHECK(job->unrecorded == (i > 0)); /* it is tried once */
	}
	sgpu_device_free(in.device, &buffer, 4 * STEP);
	unload_adding();
}

int main(void)
{
	CUDA_OR_SKIP();
	UNIT_RUN(a_job_over_more_buffers_than_it_remembers_computes_what_is_in_each);
	UNIT_RUN(a_job_that_is_started_twice_over_the_same_buffers_runs_twice);
	UNIT_RUN(a_step_of_a_recorded_job_that_fails_is_named_and_the_next_run_is_sound);
	UNIT_RUN(a_recorded_job_does_not_run_over_a_buffer_that_was_freed);
	UNIT_RUN(a_job_with_a_step_that_cannot_be_recorded_goes_step_by_step);
	return unit_done();
}
