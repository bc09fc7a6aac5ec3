/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs on a device of which one call fails, the first, the second, and so on until none is left to fail: each run
 * must come to its end, and what it calls done must be right. On the device that $SGPU_TEST_DEVICE names, and on one
 * that is made to look like a GPU.
 */
#include <stdatomic.h>

#include "run_harness.h"

enum { SIZE = 2500000 }; /* three pieces */

static const struct sgpu_device_backend *real;
static struct sgpu_device_backend faulty;
static atomic_int calls, fail_at;

static bool fails(void)
{
	return atomic_fetch_add(&calls, 1) == atomic_load(&fail_at);
}

static int out_of_order(struct sgpu_error *reason)
{
	return sgpu_fail(reason, SGPU_EDEVICE, "made to fail");
}

static int alloc(struct sgpu_device *on, uint64_t size, sgpu_devptr *memory, struct sgpu_error *reason)
{
	return fails() ? sgpu_fail(reason, SGPU_ENOMEM, "made to fail") : real->alloc(on, size, memory, reason);
}

static int stream_create(struct sgpu_device *on, struct sgpu_stream **stream, struct sgpu_error *reason)
{
	return fails() ? out_of_order(reason) : real->stream_create(on, stream, reason);
}

static int event_create(struct sgpu_device *on, struct sgpu_event **event, struct sgpu_error *reason)
{
	return fails() ? out_of_order(reason) : real->event_create(on, event, reason);
}

static int event_record(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return fails() ? SGPU_EDEVICE : real->event_record(stream, event);
}

static int stream_wait(struct sgpu_stream *stream, struct sgpu_event *event)
{
	return fails() ? SGPU_EDEVICE : real->stream_wait(stream, event);
}

static int copy_in(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		   struct sgpu_task *task)
{
	return fails() ? SGPU_EDEVICE : real->copy_in(stream, to, from, size, task);
}

static int copy_out(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size, struct sgpu_task *task)
{
	return fails() ? SGPU_EDEVICE : real->copy_out(stream, to, from, size, task);
}

static int key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *keys, struct sgpu_device_key **key,
		    struct sgpu_error *why)
{
	return fails() ? sgpu_fail(why, SGPU_EDEVICE, "no key today") : real->key_load(stream, keys, key, why);
}

static int open_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	return fails() ? SGPU_EDEVICE : real->open_chunks(stream, key, first, last, in, size, out, task);
}

static int seal_chunks(struct sgpu_stream *stream, struct sgpu_device_key *key, uint64_t first, bool last,
		       sgpu_devptr in, uint64_t size, sgpu_devptr out, struct sgpu_task *task)
{
	return fails() ? SGPU_EDEVICE : real->seal_chunks(stream, key, first, last, in, size, out, task);
}

static int launch(struct sgpu_stream *stream, sgpu_launch_fn function, void *argument, struct sgpu_task *task)
{
	return fails() ? SGPU_EDEVICE : real->launch(stream, function, argument, task);
}

static int callback(struct sgpu_stream *stream, void (*function)(void *argument), void *argument)
{
	return fails() ? SGPU_EDEVICE : real->callback(stream, function, argument);
}

static void make_faulty(void)
{
	struct sgpu_device_object *object = (struct sgpu_device_object *)(void *)device;

	real = object->backend;
	faulty = *real;
	faulty.alloc = alloc;
	faulty.stream_create = stream_create;
	faulty.event_create = event_create;
	faulty.event_record = event_record;
	faulty.stream_wait = stream_wait;
	faulty.copy_in = copy_in;
	faulty.copy_out = copy_out;
	faulty.key_load = key_load;
	faulty.open_chunks = open_chunks;
	faulty.seal_chunks = seal_chunks;
	faulty.launch = launch;
	faulty.callback = callback;
	object->backend = &faulty;
}

/* Whatever the response calls done is what it should be. */
static bool is_right(const struct job *job, int fd)
{
	struct answer answer;
	bool right = read_answer(fd, job->key, &answer);

	for (int i = 0; right && i < 2; i++) {
		const uint8_t *wanted = i ? job->bias : job->scan;

		if (answer.batch->segments[i].status == SGPU_OK) {
			right = answer.size[i] == job->size && memcmp(answer.data[i], wanted, job->size) == 0;
		} else {
			right = answer.batch->segments[i].error_text && answer.batch->segments[i].error_text[0];
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
	free(job->batch->manifest_text);
	free(job->sealed);
	set_manifest(job->batch, text);
	seal_scan(job);
}

UNIT_TEST(a_run_ends_well_whichever_call_of_the_device_fails)
{
	struct job job;
	bool good = true;
	int failed = 0, rc = SGPU_EDEVICE;

	make_job(&job, SIZE);
	add_edge(&job);
	for (int n = 0; rc != SGPU_OK || atomic_load(&calls) > n; n++) {
		int out;

		atomic_store(&calls, 0);
		atomic_store(&fail_at, n);
		rc = run_job(&job, &owner, &out);
		failed += rc != SGPU_OK;
		/* A call for which there is another way may fail without harm. */
		if ((rc != SGPU_OK && rc != SGPU_ESEGMENTS) || !is_right(&job, out)) {
			printf("# call %d: %d, %s\n", n, rc, error.text);
			good = false;
		}
		close(out);
	}
	CHECK(good);
	printf("# %d calls failed\n", failed);
	CHECK(failed > 10);
	free_job(&job);
}

int main(void)
{
	struct sgpu_device_config config = { .jobs = 2 };

	if (sgpu_device_open("cpu", &config, &device, &error) || sgpu_key_generate(SGPU_KEY_OCT, &owner, &error)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	make_faulty();
	UNIT_RUN(a_run_ends_well_whichever_call_of_the_device_fails);
	sgpu_device_close(&device);
	return unit_done();
}
