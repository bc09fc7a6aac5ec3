/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of tasks on a GPU, by events and by %globaltimer.
 * No threads of kernels share memory: racecheck has nothing to find.
 */
#include <stdlib.h>
#include <time.h>

#include "cuda_harness.h"

enum { STREAMS = 4, MANY = 4000, ROUNDS = 4 };
#define SIZE ((uint64_t)64 << 20)

static const enum sgpu_device_timer timers[] = { SGPU_TIMER_EVENTS, SGPU_TIMER_GLOBALTIMER };
static sgpu_devptr memory;
static void *host;
static bool off; /* confidential computing is */

static bool begin_with(enum sgpu_device_timer timer)
{
	const struct sgpu_device_config config = { .timer = timer };
	struct sgpu_error error = { 0 };
	struct sgpu_device_info info;

	if (sgpu_device_open("cuda", &config, &device, &error) != SGPU_OK ||
	    sgpu_stream_create(device, &stream, &error) != SGPU_OK ||
	    sgpu_device_alloc(device, SIZE, &memory, &error) != SGPU_OK ||
	    sgpu_host_alloc(device, SIZE, &host, &error) != SGPU_OK ||
	    sgpu_device_get_info(device, &info, &error) != SGPU_OK) {
		printf("# %s\n", error.text);
		return false;
	}
	off = strcmp(info.confidential, "off") == 0;
	CHECK(strcmp(info.timer, sgpu_device_timer_name(timer)) == 0);
	return true;
}

static void finish_with(void)
{
	sgpu_device_free(device, &memory, SIZE);
	sgpu_host_free(device, &host, SIZE);
	finish();
}

/* Events tell the wrong time in confidential computing mode: what is said of them there is only
 * that it is not possible. */
static bool trusts(enum sgpu_device_timer timer)
{
	return off || timer == SGPU_TIMER_GLOBALTIMER;
}

static bool is_timed(const struct sgpu_task *task, uint64_t begin, uint64_t end)
{
	return task->code == SGPU_OK && !task->mistimed && task->begin_ns >= begin &&
	       task->begin_ns <= task->end_ns && task->end_ns <= end;
}

UNIT_TEST(auto_takes_events_unless_the_gpu_is_confidential)
{
	struct sgpu_device_info info;

	REQUIRE(begin());
	REQUIRE(sgpu_device_get_info(device, &info, NULL) == SGPU_OK);
	if (strcmp(info.confidential, "on") == 0 || strcmp(info.confidential, "devtools") == 0) {
		CHECK(strcmp(info.timer, "globaltimer") == 0);
	} else {
		CHECK(strcmp(info.timer, "events") == 0);
	}
	finish();
}

UNIT_TEST(each_task_ends_after_the_one_before_and_while_it_was_waited_for)
{
	for (size_t t = 0; t < SGPU_ARRAY_LENGTH(timers); t++) {
		struct sgpu_task tasks[8] = { 0 };
		uint64_t begin_ns, end_ns;

		REQUIRE(begin_with(timers[t]));
		begin_ns = sgpu_now_ns();
		for (int i = 0; i < 8; i++) {
			CHECK(sgpu_copy_in(stream, memory, host, SIZE, &tasks[i]) == SGPU_OK);
		}
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		end_ns = sgpu_now_ns();
		for (int i = 0; i < 8 && trusts(timers[t]); i++) {
			CHECK(is_timed(&tasks[i], i > 0 ? tasks[i - 1].end_ns : begin_ns, end_ns));
		}
		finish_with();
	}
}

UNIT_TEST(a_base_that_is_old_is_taken_anew)
{
	const struct timespec pause = { 1, 300000000 };

	for (size_t t = 0; t < SGPU_ARRAY_LENGTH(timers); t++) {
		REQUIRE(begin_with(timers[t]));
		for (int i = 0; i < 3; i++) {
			struct sgpu_task task = { 0 };
			uint64_t begin_ns = sgpu_now_ns();

			CHECK(sgpu_copy_in(stream, memory, host, SIZE, &task) == SGPU_OK);
			CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
			CHECK(!trusts(timers[t]) || is_timed(&task, begin_ns, sgpu_now_ns()));
			nanosleep(&pause, NULL);
		}
		finish_with();
	}
}

/* More in all than there are words for times. */
UNIT_TEST(words_for_times_are_given_back)
{
	struct sgpu_task *tasks = calloc(STREAMS * MANY, sizeof(*tasks));
	struct sgpu_stream *streams[STREAMS] = { NULL };
	int bad = 0;

	REQUIRE(tasks && begin_with(SGPU_TIMER_GLOBALTIMER));
	for (int i = 0; i < STREAMS; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
	}
	for (int round = 0; round < ROUNDS / (getenv("SGPU_TEST_SMALL") ? 4 : 1); round++) {
		memset(tasks, 0, STREAMS * MANY * sizeof(*tasks));
		for (int i = 0; i < STREAMS * MANY; i++) {
			bad += sgpu_device_clear(streams[i % STREAMS], memory, 16, &tasks[i]) !=
			       SGPU_OK;
		}
		for (int i = 0; i < STREAMS; i++) {
			CHECK(sgpu_stream_sync(streams[i], NULL) == SGPU_OK);
		}
		for (int i = 0; i < STREAMS * MANY; i++) {
			bad += tasks[i].code != SGPU_OK || tasks[i].mistimed ||
			       tasks[i].end_ns < tasks[i].begin_ns;
		}
		CHECK(bad == 0);
	}
	for (int i = 0; i < STREAMS; i++) {
		sgpu_stream_free(&streams[i]);
	}
	CHECK(works());
	finish_with();
	free(tasks);
}

int main(void)
{
	CUDA_OR_SKIP();
	UNIT_RUN(auto_takes_events_unless_the_gpu_is_confidential);
	UNIT_RUN(each_task_ends_after_the_one_before_and_while_it_was_waited_for);
	UNIT_RUN(a_base_that_is_old_is_taken_anew);
	UNIT_RUN(words_for_times_are_given_back);
	return unit_done();
}
