/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments that move between the devices of a runner: what passes between them, what a move that
 * fails or is changed on its way takes along, and runs that end in the middle of one. On three CPU
 * devices.
 */
#include "fake_backend.h"
#include "run_harness.h"

enum { SIZE = 3000000, SAMPLE = 64, SEEN = 64 };

/* Chunks of HIGH inputs are opened on the first device alone, where they arrive: what is opened on
 * another has moved. */
static struct fake_backend backend;
static const struct sgpu_device_backend *real;
static struct sgpu_stream *_Atomic elsewhere[SEEN]; /* streams of the devices behind the first */
static atomic_int streams, opened;
static int (*before_open)(struct sgpu_stream *stream, sgpu_devptr sealed, uint64_t size);

static int create_stream(struct sgpu_device *on, struct sgpu_stream **stream,
			 struct sgpu_error *why)
{
	const struct sgpu_device_guard *guard = sgpu_device_guard_of(device);
	int rc = real->stream->create(on, stream, why);

	if (rc == SGPU_OK) {
		fake_backend_give(*stream, &backend);
		if (on != (guard ? guard->device : device) && atomic_load(&streams) < SEEN) {
			elsewhere[atomic_fetch_add(&streams, 1) % SEEN] = *stream;
		}
	}
	return rc;
}

static bool is_elsewhere(const struct sgpu_stream *stream)
{
	for (int i = 0; i < SEEN && i < atomic_load(&streams); i++) {
		if (elsewhere[i] == stream) {
			return true;
		}
	}
	return false;
}

static int enqueue_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	int rc = SGPU_OK;

	if (work->kind == SGPU_WORK_OPEN && is_elsewhere(stream)) {
		atomic_fetch_add(&opened, 1);
		rc = before_open ? before_open(stream, work->in, work->size) : SGPU_OK;
	}
	return rc == SGPU_OK ? real->stream->enqueue(stream, work, 1) : rc;
}
FAKE_ENQUEUE(enqueue, enqueue_one)

static int load_key(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material, int count,
		    struct sgpu_device_key **keys, struct sgpu_error *why)
{
	int rc = real->key->load(stream, material, count, keys, why);

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		fake_backend_give(keys[i], &backend);
	}
	return rc;
}

static int create_event(struct sgpu_device *on, struct sgpu_event **event, struct sgpu_error *why)
{
	int rc = real->stream->event_create(on, event, why);

	if (rc == SGPU_OK) {
		fake_backend_give(*event, &backend);
	}
	return rc;
}

static void give_all(const struct sgpu_device_backend *to)
{
	((struct sgpu_device_object *)(void *)device)->backend = to;
	for (int i = 0; i < more_count; i++) {
		((struct sgpu_device_object *)(void *)more_devices[i])->backend = to;
	}
}

static void put_on(void)
{
	real = sgpu_device_backend_of(device);
	fake_backend_copy(&backend, real);
	backend.stream.create = create_stream;
	backend.stream.event_create = create_event;
	backend.stream.enqueue = enqueue;
	backend.key.load = load_key;
	give_all(&backend.table);
}

static void take_off(void)
{
	give_all(real);
}

/* ---- a job of which half moves ---- */
/* half = copy of scan, HIGH, on the first device; result = copy of it there, and bias_copy = half +
 * bias on the second. */
static char *moving_manifest(uint64_t n)
{
	char *text = manifest_text(n), *end;
	json_t *json = json_loads(text, 0, NULL);
	json_t *operation = json_array_get(json_object_get(json, "operations"), 2);

	free(text);
	json_object_set_new(operation, "kernel", json_string("vector_add"));
	json_object_set_new(
		operation, "arguments",
		json_pack("{s:s, s:s, s:s}", "a", "half", "b", "bias", "output", "bias_copy"));
	json_object_set_new(operation, "declassify", json_true());
	end = json_dumps(json, 0);
	json_decref(json);
	return end;
}

static bool is_sum(const struct job *job, const uint8_t *data)
{
	bool right = data != NULL;

	for (uint64_t i = 0; right && i < job->size; i++) {
		right = data[i] == (uint8_t)(job->scan[i] + job->bias[i]);
	}
	return right;
}

static void make_moving_job(struct job *job)
{
	make_job(job, SIZE);
	remake_job(job, moving_manifest(SIZE));
	atomic_store(&opened, 0);
	atomic_store(&streams, 0);
}

static void free_moving_job(struct job *job)
{
	before_open = NULL;
	free_job(job);
}

static uint64_t moved_bytes(const struct sgpu_run *run)
{
	struct sgpu_run_result result;

	result = *sgpu_run_get_result(run);
	return result.totals[SGPU_SPAN_MOVE].bytes;
}

UNIT_TEST(a_segment_that_is_read_elsewhere_moves_there_once_and_the_result_is_the_same)
{
	const struct sgpu_span *spans;
	struct sgpu_run_result result;
	struct sgpu_run *run = NULL;
	struct answer answer;
	struct job job;
	int in, out = memfd_create("response", MFD_CLOEXEC), seen = 0;

	make_moving_job(&job);
	in = sign_and_write(&job);
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_OK);
	CHECK(moved_bytes(run) == SIZE && atomic_load(&opened) > 0);
	result = *sgpu_run_get_result(run);
	spans = result.spans;
	for (size_t i = 0; i < result.span_count; i++) {
		if (spans[i].kind == SGPU_SPAN_MOVE) {
			CHECK(spans[i].device == 0 && spans[i].number == 1 &&
			      strcmp(spans[i].label, "half") == 0);
			seen |= 1;
		}
		if (spans[i].kind == SGPU_SPAN_KERNEL) {
			CHECK(spans[i].device == (strcmp(spans[i].label, "THIRD") == 0));
			seen |= 2;
		}
	}
	CHECK(seen == 3);
	free_run(&run);
	lseek(out, 0, SEEK_SET);
	REQUIRE(read_answer(out, job.key, &answer));
	CHECK(says(&answer, 0, SGPU_OK, NULL) && !memcmp(answer.data[0], job.scan, SIZE));
	CHECK(says(&answer, 1, SGPU_OK, NULL) && is_sum(&job, answer.data[1]));
	CHECK(json_is_integer(json_object_get(answer.batch->timings, "move")));
	free_answer(&answer);
	free_moving_job(&job);
	close(in);
	close(out);
}

/* ---- what passes between the devices ---- */
static const uint8_t *secret;
static uint64_t passed;
static bool in_the_clear;

/* Past the guard, in which the request stands that is looked into. */
static int fetch_sealed(struct sgpu_stream *stream, uint8_t *data, sgpu_devptr sealed,
			uint64_t size)
{
	const struct sgpu_work copy = {
		.kind = SGPU_WORK_COPY_OUT, .in = sealed, .to = data, .size = size
	};
	int rc = sgpu_stream_sync(stream, NULL); /* it waits for the other device */

	rc = rc == SGPU_OK ? real->stream->enqueue(stream, &copy, 1) : rc;
	return rc == SGPU_OK ? sgpu_stream_sync(stream, NULL) : rc;
}

static int look_at_sealed(struct sgpu_stream *stream, sgpu_devptr sealed, uint64_t size)
{
	uint8_t *data = malloc(size);
	int rc = fetch_sealed(stream, data, sealed, size);

	passed += size;
	for (uint64_t at = 0; at + SAMPLE <= SIZE; at += SIZE / 50) {
		in_the_clear = in_the_clear || memmem(data, size, secret + at, SAMPLE);
	}
	free(data);
	return rc;
}

UNIT_TEST(nothing_passes_between_devices_in_the_clear)
{
	struct job job;
	int out;

	make_moving_job(&job);
	secret = job.scan;
	passed = 0;
	in_the_clear = false;
	CHECK(memmem(job.scan, SIZE, secret + SIZE / 50, SAMPLE) != NULL);
	before_open = look_at_sealed;
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	CHECK(passed == sgpu_run_sealed_size(SIZE, SIZE % SGPU_CHUNK != 0));
	CHECK(!in_the_clear);
	free_moving_job(&job);
	close(out);
}

/* ---- moves that fail ---- */
static int refuse(struct sgpu_stream *stream, sgpu_devptr sealed, uint64_t size)
{
	(void)stream;
	(void)sealed;
	(void)size;
	return SGPU_EDEVICE;
}

static int change(struct sgpu_stream *stream, sgpu_devptr sealed, uint64_t size)
{
	uint8_t *data = malloc(size);
	const struct sgpu_work copy = {
		.kind = SGPU_WORK_COPY_IN, .from = data, .out = sealed, .size = size
	};
	int rc = fetch_sealed(stream, data, sealed, size);

	data[size / 2] ^= 1;
	rc = rc == SGPU_OK ? real->stream->enqueue(stream, &copy, 1) : rc;
	rc = rc == SGPU_OK ? sgpu_stream_sync(stream, NULL) : rc;
	free(data);
	return rc;
}

/* What depends on the move fails, with `code`; nothing else does; and the next batch of the runner
 * is none the worse. */
static void fail_the_move(int (*how)(struct sgpu_stream *, sgpu_devptr, uint64_t), int code)
{
	struct sgpu_runner *runner = NULL;
	struct job job;

	make_moving_job(&job);
	REQUIRE(make_runner(&runner) == SGPU_OK);
	for (int round = 0; round < 3; round++) {
		const bool fails = round < 2;
		int in = sign_and_write(&job), out = memfd_create("response", MFD_CLOEXEC);
		const struct sgpu_submission submission = make_submission(&owner, in, out, 0);
		struct sgpu_run *run = NULL;
		struct answer answer;

		before_open = fails ? how : NULL;
		REQUIRE(submit_run(runner, &submission, &run, &error) == SGPU_OK);
		CHECK(wait_run(run, &error) == (fails ? SGPU_ESEGMENTS : SGPU_OK));
		end_run(&run);
		lseek(out, 0, SEEK_SET);
		REQUIRE(read_answer(out, job.key, &answer));
		CHECK(says(&answer, 0, SGPU_OK, NULL) && !memcmp(answer.data[0], job.scan, SIZE));
		if (fails) {
			CHECK(says(&answer, 1, code,
				   "operation 'THIRD' was not run: segment 'half' was not moved "
				   "from device 0 to "
				   "device 1: "));
			CHECK(answer.data[1] == NULL);
		} else {
			CHECK(says(&answer, 1, SGPU_OK, NULL) && is_sum(&job, answer.data[1]));
		}
		free_answer(&answer);
		close(in);
		close(out);
	}
	sgpu_runner_free(&runner);
	free_moving_job(&job);
}

UNIT_TEST(a_move_that_fails_takes_along_what_depends_on_it_alone)
{
	fail_the_move(refuse, SGPU_EDEPENDENCY);
}

UNIT_TEST(what_was_changed_between_the_devices_is_not_computed_with)
{
	fail_the_move(change, SGPU_EAUTH);
}

/* ---- runs that end in the middle of a move ---- */
static struct sgpu_run *_Atomic under_way;

static void note_run(struct sgpu_run *run)
{
	atomic_store(&under_way, run);
}

static int cancel_now(struct sgpu_stream *stream, sgpu_devptr sealed, uint64_t size)
{
	(void)stream;
	(void)sealed;
	(void)size;
	while (!atomic_load(&under_way)) {
		usleep(1000);
	}
	sgpu_run_cancel(atomic_load(&under_way));
	return SGPU_OK;
}

UNIT_TEST(a_run_that_is_cancelled_while_a_segment_moves_ends_without_a_response)
{
	struct job job;
	int out;

	make_moving_job(&job);
	atomic_store(&under_way, NULL);
	submitted = note_run;
	before_open = cancel_now;
	CHECK(run_job(&job, &owner, &out) == SGPU_ECANCELED);
	CHECK(atomic_load(&opened) > 0 && is_empty(out));
	submitted = NULL;
	close(out);
	atomic_store(&opened, 0);
	before_open = NULL;
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	free_moving_job(&job);
	close(out);
}

/* ---- what follows on another device without reading anything there ---- */
enum { LATE = 200000 }; /* more than the thread that enqueues it runs itself */

static int add_slowly(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	usleep(300000);
	return call->op->cpu(call, launch);
}

static sgpu_op_fn slow_sums(const char *name)
{
	return strcmp(name, "vector_add") == 0 ? add_slowly : real->op ? real->op(name) : NULL;
}

/* SECOND depends on THIRD, which takes its time on the second device: bias_copy = bias + bias. */
static char *following_manifest(uint64_t n)
{
	char *text = manifest_text(n), *end;
	json_t *json = json_loads(text, 0, NULL), *operations = json_object_get(json, "operations");
	json_t *third = json_array_get(operations, 2);

	free(text);
	json_object_set_new(json_array_get(operations, 1), "dependencies",
			    json_pack("[s]", "THIRD"));
	json_object_set_new(third, "kernel", json_string("vector_add"));
	json_object_set_new(
		third, "arguments",
		json_pack("{s:s, s:s, s:s}", "a", "bias", "b", "bias", "output", "bias_copy"));
	end = json_dumps(json, 0);
	json_decref(json);
	return end;
}

UNIT_TEST(an_operation_waits_for_what_is_before_it_on_another_device)
{
	const struct sgpu_span *spans;
	struct sgpu_run_result result;
	struct sgpu_run *run = NULL;
	struct job job;
	uint64_t second = 0, third = 0;
	int in, out = memfd_create("response", MFD_CLOEXEC), on_second = -1, on_third = -1;

	make_job(&job, LATE);
	remake_job(&job, following_manifest(LATE));
	backend.table.op = slow_sums;
	in = sign_and_write(&job);
	CHECK(run_with(&owner, in, out, 0, &run) == SGPU_OK);
	backend.table.op = real->op;
	result = *sgpu_run_get_result(run);
	spans = result.spans;
	for (size_t i = 0; i < result.span_count; i++) {
		if (spans[i].kind == SGPU_SPAN_KERNEL && strcmp(spans[i].label, "SECOND") == 0) {
			second = spans[i].begin_ns;
			on_second = spans[i].device;
		} else if (spans[i].kind == SGPU_SPAN_KERNEL &&
			   strcmp(spans[i].label, "THIRD") == 0) {
			third = spans[i].end_ns;
			on_third = spans[i].device;
		}
	}
	CHECK(on_second == 0 && on_third == 1);
	CHECK(third != 0 && second >= third);
	free_run(&run);
	free_job(&job);
	close(in);
	close(out);
}

/* ---- memory of each device ---- */
UNIT_TEST(a_batch_whose_share_does_not_fit_one_of_the_devices_is_refused)
{
	const struct sgpu_device_config config = { .jobs = 2, .memory_limit = 1 << 20 };
	struct sgpu_device *small = NULL, *second = more_devices[0];
	struct job job;
	int out;

	if (in_secure_context) {
		SKIP("the small device has none");
	}
	make_job(&job, SIZE); /* scan and what is made of it on the first device, bias and its copy
				 on the second */
	REQUIRE(sgpu_device_open("cpu", &config, &small, &error) == SGPU_OK);
	more_devices[0] = small;
	CHECK(run_job(&job, &owner, &out) == SGPU_ENOMEM);
	CHECK(strstr(error.text, "6004736 bytes of memory on device 1") != NULL);
	CHECK(is_empty(out));
	close(out);
	more_devices[0] = second;
	CHECK(run_job(&job, &owner, &out) == SGPU_OK);
	close(out);
	sgpu_device_close(&small);
	free_job(&job);
}

/* ---- batches at the same time ---- */
static int first_device_of(struct sgpu_run *run)
{
	const struct sgpu_span *spans;
	struct sgpu_run_result result;

	result = *sgpu_run_get_result(run);
	spans = result.spans;
	for (size_t i = 0; i < result.span_count; i++) {
		if (spans[i].kind == SGPU_SPAN_KERNEL && strcmp(spans[i].label, "FIRST") == 0) {
			return spans[i].device;
		}
	}
	return -1;
}

UNIT_TEST(batches_at_the_same_time_begin_on_different_devices)
{
	struct sgpu_runner *runner = NULL;
	struct sgpu_run *silent = NULL, *run = NULL;
	struct job job;
	int ends[2], nothing = memfd_create("response", MFD_CLOEXEC);

	REQUIRE(pipe(ends) == 0 && make_runner(&runner) == SGPU_OK);
	make_job(&job, 1000);
	for (int round = 0; round < 2; round++) {
		int in = sign_and_write(&job), out = memfd_create("response", MFD_CLOEXEC);
		const struct sgpu_submission submission = make_submission(&owner, in, out, 0);
		const struct sgpu_submission other = make_submission(&owner, ends[0], nothing, 0);

		if (round == 1) {
			REQUIRE(submit_run(runner, &other, &silent, &error) == SGPU_OK);
		}
		REQUIRE(submit_run(runner, &submission, &run, &error) == SGPU_OK);
		CHECK(wait_run(run, &error) == SGPU_OK);
		CHECK(first_device_of(run) == round);
		end_run(&run);
		close(in);
		close(out);
	}
	end_run(&silent);
	sgpu_runner_free(&runner);
	free_job(&job);
	close(ends[0]);
	close(ends[1]);
	close(nothing);
}

static void all_tests(void)
{
	UNIT_RUN(a_segment_that_is_read_elsewhere_moves_there_once_and_the_result_is_the_same);
	UNIT_RUN(nothing_passes_between_devices_in_the_clear);
	UNIT_RUN(a_move_that_fails_takes_along_what_depends_on_it_alone);
	UNIT_RUN(what_was_changed_between_the_devices_is_not_computed_with);
	UNIT_RUN(a_run_that_is_cancelled_while_a_segment_moves_ends_without_a_response);
	UNIT_RUN(an_operation_waits_for_what_is_before_it_on_another_device);
	UNIT_RUN(a_batch_whose_share_does_not_fit_one_of_the_devices_is_refused);
	UNIT_RUN(batches_at_the_same_time_begin_on_different_devices);
}

int main(void)
{
	const struct sgpu_device_config config = { .jobs = 2, .memory_limit = UNIT_MEMORY };

	if (strcmp(device_name(), "cpu") != 0) {
		printf("1..0 # SKIP on CPU devices alone: tests/gpu/peers.bats has two GPUs\n");
		return 0;
	}
	if (sgpu_device_open("cpu", &config, &device, &error) ||
	    sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	run_on_several(put_on, all_tests, take_off, false);
	sgpu_device_close(&device);
	return unit_done();
}
