/* SPDX-License-Identifier: Apache-2.0
 *
 * A device: streams, events, tasks, cancelling.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "device/device.h"
#include "device_harness.h"

static struct sgpu_device *device;

struct log {
	int order[256];
	atomic_int count;
};
struct entry {
	struct log *log;
	int value, code;
};

static int note(struct sgpu_launch *launch, void *argument)
{
	struct entry *entry = argument;

	CHECK(launch->device == device && launch->error &&
	      (on_cpu() ? launch->pool != NULL : launch->native != NULL));
	entry->log->order[atomic_fetch_add(&entry->log->count, 1)] = entry->value;
	return entry->code ? sgpu_fail(launch->error, entry->code, "entry %d fails", entry->value)
			   : SGPU_OK;
}

UNIT_TEST(work_of_a_stream_runs_in_order)
{
	static struct log log;
	static struct entry entries[200];
	static struct sgpu_task tasks[200];
	struct sgpu_stream *stream;
	int i;

	device = open_test_device(4, 0);
	REQUIRE(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	for (i = 0; i < 200; i++) {
		entries[i] = (struct entry){ &log, i, 0 };
		REQUIRE(sgpu_device_launch_on(stream, note, &entries[i], NULL, 0, &tasks[i]) ==
			SGPU_OK);
	}
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(log.count == 200);
	for (i = 0; i < 200; i++) {
		/* A GPU's launches are enqueued by their functions, which are called at once. */
		CHECK(!on_cpu() || log.order[i] == i);
		CHECK(tasks[i].code == SGPU_OK && tasks[i].begin_ns <= tasks[i].end_ns);
		CHECK(i == 0 || tasks[i].begin_ns >= tasks[i - 1].end_ns);
	}
	sgpu_stream_free(&stream);
	CHECK(stream == NULL);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

UNIT_TEST(a_failed_task_does_not_stop_its_stream)
{
	static struct log log;
	struct entry entries[3] = { { &log, 0, 0 }, { &log, 1, SGPU_EDEVICE }, { &log, 2, 0 } };
	struct sgpu_task tasks[3] = { 0 };
	struct sgpu_stream *stream;
	int i;

	device = open_test_device(2, 0);
	REQUIRE(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	for (i = 0; i < 3; i++) {
		REQUIRE(sgpu_device_launch_on(stream, note, &entries[i], NULL, 0, &tasks[i]) ==
			SGPU_OK);
	}
	sgpu_stream_free(&stream);
	CHECK(log.count == 3);
	CHECK(tasks[0].code == SGPU_OK && tasks[2].code == SGPU_OK);
	CHECK(tasks[1].code == SGPU_EDEVICE && tasks[1].error.code == SGPU_EDEVICE);
	CHECK(strcmp(tasks[1].error.text, "entry 1 fails") == 0);
	CHECK(tasks[1].end_ns >= tasks[1].begin_ns && tasks[1].begin_ns > 0);
	sgpu_device_close(&device);
}

/* Each of two launches waits for the other: they end only if the streams run at once. */
static pthread_barrier_t meeting;
static int meet(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	(void)argument;
	pthread_barrier_wait(&meeting);
	return SGPU_OK;
}

UNIT_TEST(streams_run_at_once)
{
	struct sgpu_stream *streams[3];
	int i;

	CPU_ONLY("a GPU's launches are enqueued, not run, by their functions");
	device = open_test_device(3, 0);
	pthread_barrier_init(&meeting, NULL, 3);
	for (i = 0; i < 3; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
		REQUIRE(sgpu_device_launch_on(streams[i], meet, NULL, NULL, 0, NULL) == SGPU_OK);
	}
	for (i = 0; i < 3; i++) {
		CHECK(sgpu_stream_sync(streams[i], NULL) == SGPU_OK);
		sgpu_stream_free(&streams[i]);
	}
	pthread_barrier_destroy(&meeting);
	sgpu_device_close(&device);
}

static atomic_int running, most;
static int count_running(struct sgpu_launch *launch, void *argument)
{
	int now = atomic_fetch_add(&running, 1) + 1, seen = atomic_load(&most);
	uint64_t end = sgpu_now_ns() + 200000;

	(void)launch;
	(void)argument;
	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {
	}
	while (sgpu_now_ns() < end) {
	}
	atomic_fetch_sub(&running, 1);
	return SGPU_OK;
}

UNIT_TEST(no_more_compute_at_once_than_there_are_jobs)
{
	struct sgpu_stream *streams[40];
	int i;

	CPU_ONLY("jobs bound the CPU device alone");
	device = open_test_device(2, 0);
	for (i = 0; i < 40; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
		REQUIRE(sgpu_device_launch_on(streams[i], count_running, NULL, NULL, 0, NULL) ==
			SGPU_OK);
	}
	for (i = 0; i < 40; i++) {
		sgpu_stream_free(&streams[i]);
	}
	CHECK(most >= 1 && most <= 2);
	sgpu_device_close(&device);
}

static void wait_flag(atomic_int *flag)
{
	while (!atomic_load(flag)) {
	}
}

static int stay(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	wait_flag(argument);
	return SGPU_OK;
}

UNIT_TEST(events_order_work_across_streams)
{
	static struct log log;
	struct entry entries[3] = { { &log, 0, 0 }, { &log, 1, 0 }, { &log, 2, 0 } };
	struct sgpu_stream *a, *b, *c;
	struct sgpu_event *event;
	atomic_int gate = 0;

	device = open_test_device(4, 0);
	REQUIRE(sgpu_stream_create(device, &a, NULL) == SGPU_OK &&
		sgpu_stream_create(device, &b, NULL) == SGPU_OK &&
		sgpu_stream_create(device, &c, NULL) == SGPU_OK);
	REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK);
	CHECK(sgpu_stream_wait(b, event) == SGPU_EUSAGE);
	CHECK(sgpu_event_sync(event, NULL) == SGPU_EUSAGE);
	CHECK(!on_cpu() || sgpu_device_launch_on(a, stay, &gate, NULL, 0, NULL) == SGPU_OK);
	CHECK(sgpu_device_launch_on(a, note, &entries[0], NULL, 0, NULL) == SGPU_OK);
	CHECK(sgpu_event_record(a, event) == SGPU_OK);
	CHECK(sgpu_event_record(a, event) == SGPU_EUSAGE);
	CHECK(sgpu_stream_wait(b, event) == SGPU_OK);
	CHECK(sgpu_stream_wait(c, event) == SGPU_OK);
	CHECK(sgpu_device_launch_on(b, note, &entries[1], NULL, 0, NULL) == SGPU_OK);
	CHECK(sgpu_device_launch_on(c, note, &entries[2], NULL, 0, NULL) == SGPU_OK);
	CHECK(!on_cpu() || log.count == 0);
	atomic_store(&gate, 1);
	CHECK(sgpu_event_sync(event, NULL) == SGPU_OK);
	CHECK(log.count >= 1 && log.order[0] == 0);
	/* Freed while the streams may still wait for it, and waited for after it completed. */
	CHECK(sgpu_stream_wait(a, event) == SGPU_OK);
	sgpu_event_free(&event);
	CHECK(event == NULL);
	sgpu_stream_free(&c);
	sgpu_stream_free(&b);
	sgpu_stream_free(&a);
	CHECK(log.count == 3);
	sgpu_device_close(&device);
}

/* Each of a row of streams waits for the one before. */
UNIT_TEST(a_task_has_ended_once_its_stream_or_an_event_behind_it_was_asked_for)
{
	enum { STREAMS = 3 };
	static uint8_t bytes[4096];
	struct sgpu_stream *streams[STREAMS];
	struct sgpu_event *events[STREAMS];
	struct sgpu_task tasks[STREAMS];
	sgpu_devptr memory;
	bool done;

	device = open_test_device(2, 0);
	REQUIRE(sgpu_device_alloc(device, sizeof(bytes), &memory, NULL) == SGPU_OK);
	for (int i = 0; i < STREAMS; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
	}
	for (int round = 0; round < 6; round++) {
		memset(tasks, 0, sizeof(tasks));
		for (int i = 0; i < STREAMS; i++) {
			REQUIRE(sgpu_event_create(device, &events[i], NULL) == SGPU_OK);
			CHECK(i == 0 || sgpu_stream_wait(streams[i], events[i - 1]) == SGPU_OK);
			CHECK(sgpu_copy_in(streams[i], memory, bytes, sizeof(bytes), &tasks[i]) ==
			      SGPU_OK);
			CHECK(sgpu_event_record(streams[i], events[i]) == SGPU_OK);
		}
		CHECK((round % 2 ? sgpu_device_synchronize(device, NULL)
				 : sgpu_stream_sync(streams[STREAMS - 1], NULL)) == SGPU_OK);
		CHECK(tasks[STREAMS - 1].end_ns != 0);
		for (int i = 0; i < STREAMS; i++) {
			CHECK(sgpu_event_query(events[i], &done, NULL) == SGPU_OK && done);
			CHECK(tasks[i].end_ns != 0 && tasks[i].code == SGPU_OK);
			CHECK(i == 0 || tasks[i].end_ns >= tasks[i - 1].end_ns);
			sgpu_event_free(&events[i]);
		}
	}
	for (int i = 0; i < STREAMS; i++) {
		sgpu_stream_free(&streams[i]);
	}
	sgpu_device_free(device, &memory, sizeof(bytes));
	sgpu_device_close(&device);
}

/* Two threads wait for streams that wait for one another, back and forth. */
struct pair {
	struct sgpu_stream *streams[2];
	atomic_int calls;
};

static int tick(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	atomic_fetch_add((atomic_int *)argument, 1);
	return SGPU_OK;
}

static void *wait_for_second(void *argument)
{
	struct pair *pair = argument;

	return sgpu_stream_sync(pair->streams[1], NULL) == SGPU_OK ? pair : NULL;
}

UNIT_TEST(streams_that_wait_for_one_another_are_waited_for_at_once)
{
	enum { ROUNDS = 20, STEPS = 50 };
	struct pair pair = { .calls = 0 };
	struct sgpu_event *event;
	pthread_t thread;
	void *well;

	device = open_test_device(2, 0);
	REQUIRE(sgpu_stream_create(device, &pair.streams[0], NULL) == SGPU_OK);
	REQUIRE(sgpu_stream_create(device, &pair.streams[1], NULL) == SGPU_OK);
	for (int round = 0; round < ROUNDS; round++) {
		atomic_store(&pair.calls, 0);
		for (int i = 0; i < STEPS; i++) {
			CHECK(sgpu_device_launch_on(pair.streams[i % 2], tick, &pair.calls, NULL, 0,
						    NULL) == SGPU_OK);
			REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK);
			CHECK(sgpu_event_record(pair.streams[i % 2], event) == SGPU_OK);
			CHECK(sgpu_stream_wait(pair.streams[(i + 1) % 2], event) == SGPU_OK);
			sgpu_event_free(&event);
		}
		REQUIRE(pthread_create(&thread, NULL, wait_for_second, &pair) == 0);
		CHECK(sgpu_stream_sync(pair.streams[0], NULL) == SGPU_OK);
		CHECK(atomic_load(&pair.calls) == STEPS);
		CHECK(pthread_join(thread, &well) == 0 && well);
	}
	sgpu_stream_free(&pair.streams[0]);
	sgpu_stream_free(&pair.streams[1]);
	sgpu_device_close(&device);
}

UNIT_TEST(copies_and_clears_of_all_sizes)
{
	static const size_t sizes[] = { 0, 1, 4096, 65536, 65537, 1 << 20, (5 << 20) + 3 };
	unsigned char *in = malloc(6 << 20), *out = malloc(6 << 20);
	struct sgpu_task tasks[3];
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	size_t i, k;

	device = open_test_device(3, 0);
	REQUIRE(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		memset(tasks, 0, sizeof(tasks));
		for (k = 0; k < sizes[i]; k++) {
			in[k] = (unsigned char)(k * 7 + k / 251);
		}
		memset(out, 0xff, 6 << 20);
		REQUIRE(sgpu_device_alloc(device, sizes[i] + 100, &memory, NULL) == SGPU_OK);
		CHECK(sgpu_copy_in(stream, memory + 100, in, sizes[i], &tasks[0]) == SGPU_OK);
		CHECK(sgpu_copy_out(stream, out, memory + 100, sizes[i], &tasks[1]) == SGPU_OK);
		CHECK(sgpu_device_clear(stream, memory + 100, sizes[i], &tasks[2]) == SGPU_OK);
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		CHECK(tasks[0].code == 0 && tasks[1].code == 0 && tasks[2].code == 0);
		CHECK(memcmp(in, out, sizes[i]) == 0 && out[sizes[i]] == 0xff);
		CHECK(sgpu_copy_out(stream, out, memory + 100, sizes[i], NULL) == SGPU_OK);
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		for (k = 0; k < sizes[i] && out[k] == 0; k++) {
		}
		CHECK(k == sizes[i]);
		sgpu_device_free(device, &memory, sizes[i] + 100);
	}
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	free(in);
	free(out);
}

UNIT_TEST(ranges_that_are_not_allocated_are_refused)
{
	char host[64] = { 0 };
	struct sgpu_task task = { 0 };
	struct sgpu_stream *stream;
	sgpu_devptr memory, old;

	device = open_test_device(1, 0);
	REQUIRE(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 64, &memory, NULL) == SGPU_OK);
	CHECK(sgpu_copy_in(stream, memory + 1, host, 64, &task) == SGPU_EUSAGE &&
	      task.code == SGPU_EUSAGE);
	CHECK(sgpu_copy_in(stream, 0, host, 1, &task) == SGPU_EUSAGE);
	CHECK(sgpu_copy_in(stream, (uintptr_t)host, host, 1, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_out(stream, host, memory + 65, 0, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_out(stream, host, memory, UINT64_MAX, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_clear(stream, memory - 1, 1, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_in(stream, memory + 64, host, 0, NULL) == SGPU_OK);
	old = memory;
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	sgpu_device_free(device, &memory, 64);
	CHECK(sgpu_copy_in(stream, old, host, 1, NULL) == SGPU_EUSAGE);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

static void never(void *argument, uint64_t begin, uint64_t end)
{
	(void)argument;
	(void)begin;
	(void)end;
}

static int long_kernel(struct sgpu_launch *launch, void *argument)
{
	int code = SGPU_OK;

	atomic_store((atomic_int *)argument, 1);
	while (code == SGPU_OK) {
		code = sgpu_pool_for(launch->pool, 100, 1, 0, never, NULL);
	}
	return code;
}

UNIT_TEST(cancel_stops_what_runs_and_what_comes_until_it_is_lifted)
{
	static struct log log;
	struct entry entry = { &log, 0, 0 };
	struct sgpu_task tasks[3] = { 0 };
	struct sgpu_stream *stream;
	atomic_int started = 0;

	CPU_ONLY("a GPU's kernels are not stopped by the pool of workers");
	device = open_test_device(2, 0);
	REQUIRE(sgpu_stream_create(device, &stream, NULL) == SGPU_OK);
	CHECK(sgpu_device_launch_on(stream, long_kernel, &started, NULL, 0, &tasks[0]) == SGPU_OK);
	CHECK(sgpu_device_launch_on(stream, note, &entry, NULL, 0, &tasks[1]) == SGPU_OK);
	wait_flag(&started);
	sgpu_device_cancel(device, true);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(tasks[0].code == SGPU_ECANCELED && tasks[1].code == SGPU_ECANCELED && log.count == 0);
	CHECK(tasks[1].error.text[0] != '\0');
	sgpu_device_cancel(device, false);
	CHECK(sgpu_device_launch_on(stream, note, &entry, NULL, 0, &tasks[2]) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(tasks[2].code == SGPU_OK && log.count == 1);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
}

/* A GPU does it unless it is confidential; the CPU device never. */
int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(work_of_a_stream_runs_in_order);
	UNIT_RUN(a_failed_task_does_not_stop_its_stream);
	UNIT_RUN(streams_run_at_once);
	UNIT_RUN(no_more_compute_at_once_than_there_are_jobs);
	UNIT_RUN(events_order_work_across_streams);
	UNIT_RUN(a_task_has_ended_once_its_stream_or_an_event_behind_it_was_asked_for);
	UNIT_RUN(streams_that_wait_for_one_another_are_waited_for_at_once);
	UNIT_RUN(copies_and_clears_of_all_sizes);
	UNIT_RUN(ranges_that_are_not_allocated_are_refused);
	UNIT_RUN(cancel_stops_what_runs_and_what_comes_until_it_is_lifted);
	return unit_done();
}
