/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs on a device of which one call fails, the first, the second, and so on until none is left to
 * fail: each run must come to its end, and what it calls done must be right. On the device that
 * $SGPU_TEST_DEVICE names, and on one that is made to look like a GPU. Its kernels are those of
 * other tests: racecheck has nothing to find.
 */
#include <unistd.h>

#include "fake_gpu.h"

enum { PIECE = 1 << 20, SIZE = 2100000, LARGE = 3200000 }; /* several pieces */

static atomic_int calls, fail_at;
static unsigned cores;
static uint64_t pinned_max;

static bool fails(void)
{
	return atomic_fetch_add(&calls, 1) == atomic_load(&fail_at);
}

static void prepare(struct sgpu_runner_config *config)
{
	config->jobs = cores;
	config->pinned_max = pinned_max;
}

/* Whatever the response calls done is what it should be. */
static bool is_right(const struct job *job, int fd)
{
	struct answer answer;
	bool right = read_answer(fd, job->key, &answer);

	for (int i = 0; right && i < 2; i++) {
		const uint8_t *wanted = i ? job->bias : job->scan;

		if (answer.batch->segments[i].status == SGPU_OK) {
			right = answer.size[i] == job->size &&
				memcmp(answer.data[i], wanted, job->size) == 0;
		} else {
			right = answer.batch->segments[i].error_text &&
				answer.batch->segments[i].error_text[0];
		}
	}
	free_answer(&answer);
	return right;
}

/* SECOND also waits for THIRD, which is on another stream. */
static void add_edge(struct job *job)
{
	char *text = manifest_text(job->size);
	json_t *json = json_loads(text, 0, NULL);

	free(text);
	json_object_set_new(json_array_get(json_object_get(json, "operations"), 1), "dependencies",
			    json_pack("[s]", "THIRD"));
	text = json_dumps(json, 0);
	json_decref(json);
	remake_job(job, text);
}

/* The calls of a run differ a little from one to the next, so all is over when none was left to
 * fail. */
static void fail_every(int step, struct job *job)
{
	bool good = true;
	int failed = 0, rc = SGPU_EDEVICE;

	for (int n = 0; rc != SGPU_OK || atomic_load(&calls) > n; n += step) {
		int out;

		atomic_store(&calls, 0);
		atomic_store(&fail_at, n);
		rc = run_job(job, &owner, &out);
		failed += rc != SGPU_OK;
		/* A call for which there is another way may fail without harm. */
		if ((rc != SGPU_OK && rc != SGPU_ESEGMENTS) || !is_right(job, out) ||
		    !fake_is_clean()) {
			printf("# call %d: %d, %s%s\n", n, rc, error.text,
			       fake_is_clean() ? "" : "; something was left");
			good = false;
		}
		close(out);
	}
	CHECK(good);
	printf("# %d calls failed\n", failed);
	CHECK(failed > (step > 1 ? 0 : 10));
}

/* Under checkers, which make a run many times as long, every seventh. */
static void fail_each_call(struct job *job)
{
	fail_every(is_short() ? 7 : 1, job);
}

UNIT_TEST(a_run_ends_well_whichever_call_of_the_device_fails)
{
	struct job job;

	make_job(&job, SIZE);
	add_edge(&job);
	fail_each_call(&job);
	free_job(&job);
}

UNIT_TEST(a_run_on_a_device_that_copies_beside_the_rest_ends_well_too)
{
	struct job job;

	if (fake.plain) {
		SKIP("the device is what it is");
	}
	make_job(&job, LARGE);
	fail_each_call(&job);
	free_job(&job);
}

/* Small payloads, which are moved together. The one in a file is the first to come. */
UNIT_TEST(a_run_of_small_payloads_ends_well_too)
{
	for (int in_file = 0; in_file < 2; in_file++) {
		char *path = NULL;
		struct job job;
		int fd = -1;

		make_job(&job, 20000);
		add_edge(&job);
		if (in_file) {
			fd = new_file(&path);
			REQUIRE(sgpu_pwrite(fd, path, job.bias, job.size, 0, &error) == SGPU_OK);
			job.batch->segments[1].location =
				(struct sgpu_location){ .kind = SGPU_LOCATION_FILE, .file = path };
		}
		fail_every(1, &job);
		free_job(&job);
		close(fd);
	}
}

/* Runs a job of payloads of that size, in which a function of the fake device fails that is put
 * back then. */
static bool hear_failure(uint64_t size, struct answer *answer)
{
	struct job job;
	bool heard;
	int out;

	make_job(&job, size);
	atomic_store(&fail_at, -1);
	CHECK(run_job(&job, &owner, &out) == SGPU_ESEGMENTS);
	fake.backend.stream.event_query = fake_event_query;
	fake.backend.stream.enqueue = fake_enqueue;
	heard = read_answer(out, job.key, answer);
	close(out);
	free_job(&job);
	return heard;
}

/* Of an event that cannot be asked for, nobody knows whether the work before it has ended. */
static int refuse_query(struct sgpu_event *event, bool *done, struct sgpu_error *why)
{
	(void)event;
	(void)done;
	return sgpu_fail(why, SGPU_EDEVICE, "no answer");
}

UNIT_TEST(what_cannot_be_asked_for_is_not_taken_for_done)
{
	static const uint64_t sizes[] = { 20000, SIZE };
	struct answer answer;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		fake.backend.stream.event_query = refuse_query;
		REQUIRE(hear_failure(sizes[i], &answer));
		CHECK(!answer.data[0] && says(&answer, 0, SGPU_EDEPENDENCY, "no answer"));
		CHECK(!answer.data[1] && says(&answer, 1, SGPU_EDEPENDENCY, "no answer"));
		CHECK(fake_is_clean());
		free_answer(&answer);
	}
}

/* One query gets no answer, the first, the second, and so on; or most say that it is too early. */
static atomic_int queries, refused_query;

static int refuse_one_query(struct sgpu_event *event, bool *done, struct sgpu_error *why)
{
	return atomic_fetch_add(&queries, 1) == atomic_load(&refused_query)
		       ? refuse_query(event, done, why)
		       : fake_event_query(event, done, why);
}

static int answer_late(struct sgpu_event *event, bool *done, struct sgpu_error *why)
{
	if (atomic_fetch_add(&queries, 1) % 4 != 3) {
		*done = false;
		return SGPU_OK;
	}
	return fake_event_query(event, done, why);
}

UNIT_TEST(each_query_counts)
{
	int out, rc = SGPU_ESEGMENTS;
	struct job job;

	make_job(&job, 20000);
	atomic_store(&fail_at, -1);
	fake.backend.stream.event_query = refuse_one_query;
	/* While a GPU works it is asked again and again. */
	for (int n = 0; rc != SGPU_OK && n < (fake.plain ? 10 : 100); n++) {
		atomic_store(&queries, 0);
		atomic_store(&refused_query, n);
		rc = run_job(&job, &owner, &out);
		CHECK(rc == (atomic_load(&queries) > n ? SGPU_ESEGMENTS : SGPU_OK));
		CHECK(is_right(&job, out) && fake_is_clean());
		close(out);
	}
	CHECK(rc == SGPU_OK || fake.plain);
	fake.backend.stream.event_query = answer_late;
	CHECK(run_job(&job, &owner, &out) == SGPU_OK && is_right(&job, out));
	fake.backend.stream.event_query = fake_event_query;
	close(out);
	free_job(&job);
}

/* Payloads from a file, results through the drain. */
static void fail_large_transfers(unsigned with_cores)
{
	struct job job;
	int staged;

	cores = with_cores;
	pinned_max = 1;
	make_job(&job, LARGE);
	staged = stage_scan(&job, 100);
	fail_each_call(&job);
	free_job(&job);
	close(staged);
}

UNIT_TEST(a_run_with_registered_payloads_and_drained_results_ends_well_too)
{
	fail_large_transfers(1);
}

UNIT_TEST(a_run_whose_payloads_are_read_by_several_cores_ends_well_too)
{
	fail_large_transfers(4);
}

/* FIRST fails when SECOND, which reads what it writes, is most likely enqueued behind it. */
static atomic_int kernels;

static int fail_late(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	(void)call;
	atomic_fetch_add(&kernels, 1);
	usleep(50000);
	return sgpu_fail(launch->error, SGPU_EDEVICE, "the kernel failed, as the test wants it");
}

static sgpu_op_fn always_fail_late(const char *name)
{
	(void)name;
	return fail_late;
}

UNIT_TEST(no_kernel_runs_on_what_a_failed_one_left)
{
	sgpu_op_fn (*op)(const char *) = fake.backend.table.op;
	struct sgpu_run_result result;
	struct sgpu_run *run = NULL;
	struct answer answer;
	struct job job;
	int in, out;

	make_job(&job, 1000);
	atomic_store(&fail_at, -1);
	atomic_store(&kernels, 0);
	fake.backend.table.op = always_fail_late;
	in = sign_and_write(&job);
	out = memfd_create("response", MFD_CLOEXEC);
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_ESEGMENTS);
	fake.backend.table.op = op;
	CHECK(atomic_load(&kernels) == 2); /* FIRST and THIRD */
	result = *sgpu_run_get_result(run);
	for (int i = 0; i < SGPU_PATHS; i++) {
		CHECK(result.paths.out[i] == 0);
	}
	free_run(&run);
	close(in);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(answer.batch->segments[0].status == SGPU_EDEPENDENCY ||
	      answer.batch->segments[0].status == SGPU_EDEVICE);
	CHECK(answer.batch->segments[1].status != SGPU_OK && !answer.data[0] && !answer.data[1]);
	CHECK(fake_is_clean());
	free_answer(&answer);
	close(out);
	free_job(&job);
}

/* Each kernel says what it reads by its second byte, and that of scan or bias takes long. */
static atomic_int slow_byte, ended_scan, ended_bias;
static atomic_bool too_early;

static int copy_in_turn(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	const uint8_t *input = call->data[sgpu_op_arg(call->op, "input")];
	const bool of_scan = input[1] == 7;
	int rc;

	if (of_scan && atomic_load(&ended_scan) > 0 && atomic_load(&ended_bias) == 0) {
		atomic_store(&too_early, true);
	}
	if (input[1] == atomic_load(&slow_byte)) {
		usleep(100000);
	}
	rc = call->op->cpu(call, launch);
	atomic_fetch_add(of_scan ? &ended_scan : &ended_bias, 1);
	return rc;
}

static sgpu_op_fn always_in_turn(const char *name)
{
	(void)name;
	return copy_in_turn;
}

UNIT_TEST(an_operation_waits_for_those_before_it_on_other_streams)
{
	sgpu_op_fn (*op)(const char *) = fake.backend.table.op;
	struct job job;
	int out;

	if (fake.plain) {
		SKIP("its kernels are host functions");
	}
	make_job(&job, 200000); /* more than the thread that enqueues it runs itself */
	add_edge(&job);
	atomic_store(&fail_at, -1);
	atomic_store(&too_early, false);
	for (int i = 0; i < 2; i++) {
		atomic_store(&slow_byte, i == 0 ? 7 : 13);
		atomic_store(&ended_scan, 0);
		atomic_store(&ended_bias, 0);
		fake.backend.table.op = always_in_turn;
		CHECK(run_job(&job, &owner, &out) == SGPU_OK && is_right(&job, out));
		fake.backend.table.op = op;
		close(out);
	}
	CHECK(!atomic_load(&too_early));
	free_job(&job);
}

/* The first digest is that of an input. It may be refused, behind the copy. */
static sgpu_devptr digested;
static bool refuses_digest;
static atomic_int cleared;

static int watch_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind == SGPU_WORK_DIGEST && digested == 0) {
		digested = work->in;
		if (refuses_digest) {
			return SGPU_EDEVICE;
		}
	}
	atomic_fetch_add(&cleared, work->kind == SGPU_WORK_CLEAR && work->out == digested);
	return fake_enqueue_one(stream, work);
}

FAKE_ENQUEUE(watch_digested, watch_one)

UNIT_TEST(a_small_payload_that_does_not_verify_is_cleared)
{
	struct answer answer;
	struct job job;
	int out;

	if (fake.plain) {
		SKIP("its kernels are host functions");
	}
	make_job(&job, 1000);
	atomic_store(&fail_at, -1);
	for (int i = 0; i < 3; i++) {
		digested = 0;
		atomic_store(&cleared, 0);
		refuses_digest = i == 1;
		job.bias[0] ^= i == 2;
		fake.backend.stream.enqueue = watch_digested;
		CHECK(run_job(&job, &owner, &out) == (i == 0 ? SGPU_OK : SGPU_ESEGMENTS));
		fake.backend.stream.enqueue = fake_enqueue;
		CHECK(digested != 0 && atomic_load(&cleared) == (i > 0));
		REQUIRE(read_answer(out, job.key, &answer));
		CHECK((answer.data[1] != NULL) == (i == 0));
		free_answer(&answer);
		close(out);
	}
	free_job(&job);
}

static int open_by_another_key(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind != SGPU_WORK_OPEN && work->kind != SGPU_WORK_OPEN_FROM) {
		return fake_enqueue_one(stream, work);
	}
	work->task->code = sgpu_fail(&work->task->error, SGPU_EAUTH, "the key was altered");
	return SGPU_OK;
}

FAKE_ENQUEUE(alter_keys, open_by_another_key)

UNIT_TEST(why_an_input_does_not_verify_is_told_as_the_device_says)
{
	static const uint64_t sizes[] = { 1000, 3 << 20 };
	struct answer answer;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		fake.backend.stream.enqueue = alter_keys;
		REQUIRE(hear_failure(sizes[i], &answer));
		CHECK(says(&answer, 0, SGPU_EAUTH, "segment 'scan' failed: the key was altered"));
		free_answer(&answer);
	}
}

/* What the third operation writes goes where the first one wrote, and may leave in the clear. */
static void make_low_output(struct job *job)
{
	json_t *json, *segments, *operations;
	char *text = manifest_text(job->size);

	json = json_loads(text, 0, NULL);
	free(text);
	segments = json_object_get(json, "segments");
	operations = json_object_get(json, "operations");
	json_array_append_new(segments,
			      json_pack("{s:s,s:s,s:s}", "segment_id", "other", "sensitivity_level",
					"HIGH", "direction", "INTERMEDIATE"));
	json_object_set_new(json_array_get(segments, 3), "sensitivity_level", json_string("LOW"));
	json_object_set_new(json_object_get(json_array_get(operations, 1), "arguments"), "output",
			    json_string("other"));
	json_array_append_new(operations, json_pack("{s:s,s:s,s:{s:s,s:s},s:b}", "gpu_operation_id",
						    "LAST", "kernel", "copy", "arguments", "input",
						    "other", "output", "result", "declassify", 1));
	text = json_dumps(json, 0);
	json_decref(json);
	remake_job(job, text);
}

static sgpu_op_fn fail_after_the_first(const char *name)
{
	(void)name;
	return atomic_fetch_add(&kernels, 1) == 0 ? NULL : fail_late;
}

/* Looks at what a copy brings to the host. */
static atomic_int copies_out;

static int count_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	atomic_fetch_add(&copies_out, work->kind == SGPU_WORK_COPY_OUT);
	return fake_enqueue_one(stream, work);
}

FAKE_ENQUEUE(count_copies_out, count_one)

UNIT_TEST(what_was_in_the_place_of_a_low_result_does_not_leave)
{
	sgpu_op_fn (*op)(const char *) = fake.backend.table.op;
	struct answer answer;
	struct job job;
	int out;

	if (fake.plain) {
		SKIP("its kernels are host functions");
	}
	make_job(&job, 1000);
	make_low_output(&job);
	atomic_store(&fail_at, -1);
	for (int good = 1; good >= 0; good--) {
		atomic_store(&kernels, 0);
		atomic_store(&copies_out, 0);
		fake.backend.table.op = good ? op : fail_after_the_first;
		fake.backend.stream.enqueue = count_copies_out;
		CHECK(run_job(&job, &owner, &out) == (good ? SGPU_OK : SGPU_ESEGMENTS));
		fake.backend.stream.enqueue = fake_enqueue;
		fake.backend.table.op = op;
		/* THIRD, of which nothing stood in the way, has a buffer of its own */
		CHECK(good ? atomic_load(&copies_out) == 2 : atomic_load(&copies_out) <= 1);
		REQUIRE(read_answer(out, job.key, &answer));
		CHECK(good ? answer.data[0] && memcmp(answer.data[0], job.scan, job.size) == 0
			   : !answer.data[0]);
		free_answer(&answer);
		close(out);
	}
	free_job(&job);
}

static void all_tests(void)
{
	fake.plain = true;
	pinned_max = SGPU_RUNNER_PINNED_MAX;
	UNIT_RUN(no_kernel_runs_on_what_a_failed_one_left);
	UNIT_RUN(an_operation_waits_for_those_before_it_on_other_streams);
	UNIT_RUN(a_small_payload_that_does_not_verify_is_cleared);
	UNIT_RUN(why_an_input_does_not_verify_is_told_as_the_device_says);
	UNIT_RUN(what_was_in_the_place_of_a_low_result_does_not_leave);
	UNIT_RUN(a_run_ends_well_whichever_call_of_the_device_fails);
	UNIT_RUN(a_run_of_small_payloads_ends_well_too);
	UNIT_RUN(what_cannot_be_asked_for_is_not_taken_for_done);
	UNIT_RUN(each_query_counts);
	fake.plain = strcmp(device_name(), "cpu") != 0;
	UNIT_RUN(a_run_on_a_device_that_copies_beside_the_rest_ends_well_too);
	UNIT_RUN(a_run_of_small_payloads_ends_well_too);
	UNIT_RUN(what_cannot_be_asked_for_is_not_taken_for_done);
	UNIT_RUN(each_query_counts);
	UNIT_RUN(a_run_with_registered_payloads_and_drained_results_ends_well_too);
	UNIT_RUN(a_run_whose_payloads_are_read_by_several_cores_ends_well_too);
}

int main(void)
{
	open_device(2);
	if (sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	fake.piece = PIECE;
	fake.fails = fails;
	prepare_runner = prepare;
	run_on_all(make_fake_gpu, all_tests, unmake_fake_gpu);
	sgpu_device_close(&device);
	return unit_done();
}
