/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of the CPU device's streams: how many there are, and when they end.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "device/device.h"
#include "device_harness.h"

static struct sgpu_device *device;

static int tick(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	atomic_fetch_add((atomic_int *)argument, 1);
	return SGPU_OK;
}

/* Threads of this process. */
static int count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = -2; /* "." and ".." */

	while (tasks && readdir(tasks)) {
		count++;
	}
	if (tasks) {
		closedir(tasks);
	}
	return count;
}

UNIT_TEST(streams_that_are_freed_are_given_out_again)
{
	enum { STREAMS = 64 };
	struct sgpu_stream *streams[STREAMS];
	atomic_int calls = 0;
	int i, round, threads = 0;

	CPU_ONLY("a GPU's streams have no threads");
	device = open_test_device(2, 0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < STREAMS; i++) {
			REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
			CHECK(sgpu_device_launch_on(streams[i], tick, &calls, NULL, 0, NULL) ==
			      SGPU_OK);
		}
		CHECK(round == 0 || count_threads() == threads);
		threads = count_threads();
		for (i = 0; i < STREAMS; i++) {
			sgpu_stream_free(&streams[i]);
		}
		CHECK(atomic_load(&calls) == STREAMS * (round + 1));
	}
	sgpu_device_close(&device);
	/* One that was joined may be listed until the kernel has put it away. */
	for (i = 0; i < 60000 && count_threads() > threads - STREAMS; i++) {
		usleep(1000);
	}
	CHECK(count_threads() <= threads - STREAMS);
}

UNIT_TEST(streams_without_number_are_refused)
{
	enum { STREAMS = 5000 };
	static struct sgpu_stream *streams[STREAMS + 1];
	struct sgpu_error error = { 0 };
	atomic_int calls = 0;
	int i, made = 0, rc;

	CPU_ONLY("a GPU's streams have no threads");
	device = open_test_device(2, 0);
	while (made < STREAMS &&
	       (rc = sgpu_stream_create(device, &streams[made], &error)) == SGPU_OK) {
		made++;
	}
	CHECK(made >= 64 && made < STREAMS && rc == SGPU_ENOMEM && !streams[made]);
	CHECK(strstr(error.text, "streams in use"));
	for (i = 0; i < made; i++) {
		CHECK(sgpu_device_launch_on(streams[i], tick, &calls, NULL, 0, NULL) == SGPU_OK);
	}
	CHECK(sgpu_device_synchronize(device, NULL) == SGPU_OK && atomic_load(&calls) == made);
	sgpu_stream_free(&streams[0]);
	CHECK(sgpu_stream_create(device, &streams[0], &error) == SGPU_OK);
	for (i = 0; i < made; i++) {
		sgpu_stream_free(&streams[i]);
	}
	sgpu_device_close(&device);
}

UNIT_TEST(a_device_that_is_closed_ends_the_work_of_its_streams_first)
{
	struct sgpu_stream *a, *b;
	struct sgpu_event *event;
	atomic_int calls = 0;

	CPU_ONLY("a GPU's streams are freed before it is closed");
	device = open_test_device(2, 0);
	REQUIRE(sgpu_stream_create(device, &a, NULL) == SGPU_OK &&
		sgpu_stream_create(device, &b, NULL) == SGPU_OK);
	REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK);
	for (int i = 0; i < 1000; i++) {
		CHECK(sgpu_device_launch_on(b, tick, &calls, NULL, 0, NULL) == SGPU_OK);
	}
	CHECK(sgpu_event_record(b, event) == SGPU_OK && sgpu_stream_wait(a, event) == SGPU_OK);
	CHECK(sgpu_device_launch_on(a, tick, &calls, NULL, 0, NULL) == SGPU_OK);
	sgpu_event_free(&event);
	sgpu_device_close(&device);
	CHECK(atomic_load(&calls) == 1001);
}

/* Work that is held up until it is told to end. */
struct held {
	struct sgpu_stream *stream;
	struct sgpu_device_range range;
	atomic_bool begun, ends;
};

static int hold(struct sgpu_launch *launch, void *argument)
{
	struct held *held = argument;

	(void)launch;
	atomic_store(&held->begun, true);
	while (!atomic_load(&held->ends)) {
		usleep(1000);
	}
	return SGPU_OK;
}

static void *enqueue_held(void *argument)
{
	struct held *held = argument;

	CHECK(sgpu_device_launch_on(held->stream, hold, held, &held->range, 1, NULL) == SGPU_OK);
	return NULL;
}

/* The stream has no thread: its only work is run by the thread that enqueues it. */
UNIT_TEST(an_event_that_is_recorded_while_another_thread_does_the_work_completes)
{
	struct held held = { .range = { .size = 4096 } };
	struct sgpu_event *event;
	pthread_t thread;
	bool done = true;

	CPU_ONLY("a GPU's streams have no threads");
	device = open_test_device(2, 0);
	REQUIRE(sgpu_device_alloc(device, 4096, &held.range.address, NULL) == SGPU_OK &&
		sgpu_stream_create(device, &held.stream, NULL) == SGPU_OK &&
		sgpu_event_create(device, &event, NULL) == SGPU_OK &&
		pthread_create(&thread, NULL, enqueue_held, &held) == 0);
	while (!atomic_load(&held.begun)) {
		usleep(1000);
	}
	CHECK(sgpu_event_record(held.stream, event) == SGPU_OK);
	CHECK(sgpu_event_query(event, &done, NULL) == SGPU_OK && !done);
	atomic_store(&held.ends, true);
	pthread_join(thread, NULL);
	CHECK(sgpu_event_sync(event, NULL) == SGPU_OK);
	sgpu_event_free(&event);
	sgpu_stream_free(&held.stream);
	sgpu_device_free(device, &held.range.address, 4096);
	sgpu_device_close(&device);
}

/* A stream that never runs dry. */
struct busy {
	struct sgpu_stream *stream;
	atomic_int calls, stop;
};

static void *keep_busy(void *argument)
{
	struct busy *busy = argument;
	int enqueued = 0;

	while (!atomic_load(&busy->stop)) {
		if (enqueued - atomic_load(&busy->calls) < 100) {
			CHECK(sgpu_device_launch_on(busy->stream, tick, &busy->calls, NULL, 0,
						    NULL) == SGPU_OK);
			enqueued++;
		}
	}
	return NULL;
}

UNIT_TEST(to_wait_for_a_device_takes_an_end_while_others_go_on)
{
	struct busy busy = { .calls = 0 };
	struct sgpu_stream *other;
	atomic_int calls = 0;
	pthread_t thread;

	device = open_test_device(2, 0);
	REQUIRE(sgpu_stream_create(device, &busy.stream, NULL) == SGPU_OK);
	REQUIRE(sgpu_stream_create(device, &other, NULL) == SGPU_OK);
	REQUIRE(pthread_create(&thread, NULL, keep_busy, &busy) == 0);
	while (atomic_load(&busy.calls) < 100) {
	}
	for (int i = 1; i <= 20; i++) {
		CHECK(sgpu_device_launch_on(other, tick, &calls, NULL, 0, NULL) == SGPU_OK);
		CHECK(sgpu_device_synchronize(device, NULL) == SGPU_OK && atomic_load(&calls) == i);
	}
	atomic_store(&busy.stop, 1);
	CHECK(pthread_join(thread, NULL) == 0);
	sgpu_stream_free(&other);
	sgpu_stream_free(&busy.stream);
	sgpu_device_close(&device);
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(streams_that_are_freed_are_given_out_again);
	UNIT_RUN(streams_without_number_are_refused);
	UNIT_RUN(a_device_that_is_closed_ends_the_work_of_its_streams_first);
	UNIT_RUN(an_event_that_is_recorded_while_another_thread_does_the_work_completes);
	UNIT_RUN(to_wait_for_a_device_takes_an_end_while_others_go_on);
	return unit_done();
}
