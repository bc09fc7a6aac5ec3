/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of many threads over one ring.
 */
#include <errno.h>
#include <pthread.h>

#include "ring_harness.h"

enum { THREADS = 8, CALLS = 300 };
#define LAST UINT64_MAX

static struct ring r;
static struct sgpu_ring_calls *calls;

static bool open_calls(uint32_t entries, bool doorbell)
{
	const bool good =
		ring_open(&r, entries, entries, true, doorbell) &&
		sgpu_ring_calls_open(r.client, r.client_end, &calls, &ring_error) == SGPU_OK;

	CHECK(good);
	return good;
}

static void close_calls(void)
{
	sgpu_ring_calls_close(&calls);
	ring_close(&r);
}

static int call(uint64_t argument, struct sgpu_ring_result *result)
{
	const struct sgpu_ring_descriptor descriptor = { .opcode = OP_ANY,
							 .cookie = 99,
							 .argument = argument };

	return sgpu_ring_call(calls, &descriptor, result, &ring_error);
}

/* ---- a worker that answers ---- */

static uint64_t answer_to(uint64_t argument)
{
	return argument * 3 + 1;
}

/* Holds operations back while others come, and finishes them last first. */
static void *work(void *unused)
{
	struct sgpu_ring_operation held[THREADS], operation;
	enum sgpu_ring_event event;
	unsigned count = 0;
	bool last = false;
	int rc = SGPU_OK;

	(void)unused;
	while (rc == SGPU_OK && (!last || count)) {
		rc = sgpu_ring_next(r.worker, &operation, &event, &ring_error);
		if (rc == SGPU_OK && event == SGPU_RING_START) {
			held[count++] = operation;
			last = last || operation.descriptor.argument == LAST;
			if (count < THREADS) {
				continue;
			}
		}
		while (rc == SGPU_OK && count) {
			const struct sgpu_ring_operation *o = &held[--count];

			rc = sgpu_ring_finish(r.worker, o->ticket, SGPU_OK,
					      answer_to(o->descriptor.argument), &ring_error);
		}
		if (rc == SGPU_OK && !last && event == SGPU_RING_IDLE) {
			rc = sgpu_ring_worker_wait(r.worker, 0, &ring_error);
		}
	}
	return rc == SGPU_OK ? NULL : &r;
}

/* Returns NULL if each call got its own answer. */
static void *call_often(void *argument)
{
	const uint64_t first = (uint64_t)(uintptr_t)argument * CALLS;
	struct sgpu_ring_result result;

	for (uint64_t i = first; i < first + CALLS; i++) {
		if (call(i, &result) != SGPU_OK || result.status != SGPU_OK || result.cookie != 0 ||
		    result.value != answer_to(i)) {
			return &r;
		}
	}
	return NULL;
}

static void run_threads(bool doorbell)
{
	struct sgpu_ring_result result;
	pthread_t worker, threads[THREADS];
	void *bad;

	REQUIRE(open_calls(16, doorbell));
	REQUIRE(pthread_create(&worker, NULL, work, NULL) == 0);
	for (uintptr_t i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, call_often, (void *)i) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], &bad) == 0 && !bad);
	}
	CHECK(call(LAST, &result) == SGPU_OK && result.value == answer_to(LAST));
	CHECK(pthread_join(worker, &bad) == 0 && !bad);
	close_calls();
}

UNIT_TEST(each_of_many_threads_gets_its_own_completion)
{
	run_threads(true);
	run_threads(false);
}

/* More than the ring has room for. */
static void *call_many(void *argument)
{
	const uint64_t first = (uint64_t)(uintptr_t)argument * CALLS;
	struct sgpu_ring_descriptor descriptors[SGPU_RING_CALLS_MAX] = { 0 };
	struct sgpu_ring_result results[SGPU_RING_CALLS_MAX];

	for (uint64_t i = 0; i < SGPU_RING_CALLS_MAX; i++) {
		descriptors[i].opcode = OP_ANY;
		descriptors[i].argument = first + i;
	}
	for (int round = 0; round < 20; round++) {
		if (sgpu_ring_call_all(calls, descriptors, SGPU_RING_CALLS_MAX, results,
				       &ring_error) != SGPU_OK) {
			return &r;
		}
		for (uint64_t i = 0; i < SGPU_RING_CALLS_MAX; i++) {
			if (results[i].value != answer_to(first + i)) {
				return &r;
			}
		}
	}
	return NULL;
}

UNIT_TEST(operations_of_one_call_complete_together)
{
	const struct sgpu_ring_descriptor mixed[2] = { { .opcode = OP_ANY, .argument = 5 }, { 0 } };
	struct sgpu_ring_result results[2] = { 0 };
	pthread_t worker;
	void *bad;

	REQUIRE(open_calls(16, true));
	REQUIRE(pthread_create(&worker, NULL, work, NULL) == 0);
	CHECK(call_many((void *)1) == NULL);
	CHECK(sgpu_ring_call_all(calls, mixed, 2, results, &ring_error) == SGPU_EUSAGE);
	CHECK(results[0].value == answer_to(5));
	CHECK(sgpu_ring_call_all(calls, mixed, 0, results, &ring_error) == SGPU_EUSAGE);
	CHECK(call(LAST, results) == SGPU_OK);
	CHECK(pthread_join(worker, &bad) == 0 && !bad);
	close_calls();
}

/* ---- a worker that takes calls and does not answer ---- */

struct waiting {
	pthread_t thread;
	int code;
	char text[SGPU_ERROR_TEXT_MAX];
};

static void *call_in_vain(void *argument)
{
	struct waiting *w = argument;
	struct sgpu_ring_result result;

	w->code = call(1, &result);
	snprintf(w->text, sizeof(w->text), "%s", ring_error.text);
	return NULL;
}

/* Returns when the worker has taken all of the calls. */
static void start_waiting(struct waiting *waiting)
{
	struct sgpu_ring_operation operation;

	for (int i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&waiting[i].thread, NULL, call_in_vain, &waiting[i]) == 0);
	}
	while (sgpu_ring_outstanding(r.worker) < THREADS) {
		if (ring_next(&r, &operation) == SGPU_RING_IDLE) {
			REQUIRE(sgpu_ring_worker_wait(r.worker, 0, &ring_error) == SGPU_OK);
		}
	}
}

static void check_waiting(struct waiting *waiting, int code, const char *text)
{
	struct sgpu_ring_result result;

	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(waiting[i].thread, NULL) == 0);
		CHECK(waiting[i].code == code && strstr(waiting[i].text, text));
	}
	/* And so for those that come later. */
	CHECK(call(1, &result) == code && strstr(ring_error.text, text));
}

/* Starts a call and returns when the worker has it. */
static struct sgpu_ring_operation start_one(struct waiting *w)
{
	struct sgpu_ring_operation operation = { 0 };

	CHECK(pthread_create(&w->thread, NULL, call_in_vain, w) == 0);
	while (ring_next(&r, &operation) == SGPU_RING_IDLE) {
		CHECK(sgpu_ring_worker_wait(r.worker, 0, &ring_error) == SGPU_OK);
	}
	return operation;
}

UNIT_TEST(a_thread_that_leaves_lets_another_one_reap)
{
	struct sgpu_ring_operation first, second;
	struct waiting leader, follower;

	REQUIRE(open_calls(16, true));
	first = start_one(&leader);
	second = start_one(&follower);
	usleep(50000); /* the second sleeps by now, or not: it is to return in any case */
	CHECK(sgpu_ring_finish(r.worker, first.ticket, SGPU_OK, 0, &ring_error) == SGPU_OK);
	CHECK(pthread_join(leader.thread, NULL) == 0 && leader.code == SGPU_OK);
	CHECK(sgpu_ring_finish(r.worker, second.ticket, SGPU_OK, 0, &ring_error) == SGPU_OK);
	CHECK(pthread_join(follower.thread, NULL) == 0 && follower.code == SGPU_OK);
	close_calls();
}

UNIT_TEST(the_end_of_the_calls_wakes_all_that_wait)
{
	const struct sgpu_error first = { .code = SGPU_ECANCELED, .text = "enough" };
	const struct sgpu_error second = { .code = SGPU_ESYSTEM, .text = "too late" };
	struct waiting waiting[THREADS];

	REQUIRE(open_calls(16, true));
	start_waiting(waiting);
	sgpu_ring_calls_end(calls, &first);
	sgpu_ring_calls_end(calls, &second);
	check_waiting(waiting, SGPU_ECANCELED, "enough");
	/* The worker learns it, too. */
	CHECK(sgpu_ring_worker_wait(r.worker, 0, &ring_error) == SGPU_ESYSTEM);
	close_calls();
}

UNIT_TEST(a_worker_that_goes_ends_all_calls)
{
	struct waiting waiting[THREADS];

	REQUIRE(open_calls(16, true));
	start_waiting(waiting);
	CHECK(shutdown(r.worker_end, SHUT_RDWR) == 0);
	check_waiting(waiting, SGPU_ESYSTEM, "has gone");
	close_calls();
}

/* Wakes the client. A client that was awake has perhaps seen the completions by now, and has left.
 */
static void ring_bell(void)
{
	CHECK(send(r.worker_end, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 || errno == EPIPE);
}

UNIT_TEST(a_completion_of_nothing_ends_all_calls)
{
	struct waiting waiting[THREADS];

	REQUIRE(open_calls(16, true));
	start_waiting(waiting);
	atomic_store(&r.raw.completions[0], 12345); /* the cookie */
	atomic_store(&r.raw.completions[3], (uint64_t)1 << 32);
	ring_bell();
	check_waiting(waiting, SGPU_EINVALID, "12345, which is not open");
	close_calls();
}

UNIT_TEST(a_completion_that_comes_twice_ends_the_calls_and_the_first_counts)
{
	struct sgpu_ring_result result;
	struct sgpu_ring_operation operation;
	struct sgpu_ring_completion twice = { .value = 7, .generation = 1 };
	uint64_t words[SGPU_COMPLETION_WORDS];
	struct waiting w;

	REQUIRE(open_calls(16, true));
	operation = start_one(&w);
	twice.cookie = operation.descriptor.cookie;
	memcpy(words, &twice, sizeof(words));
	for (int i = 1; i >= 0; i--) { /* the last word of an entry says that it is there */
		for (int k = 0; k < SGPU_COMPLETION_WORDS; k++) {
			atomic_store(&r.raw.completions[i * SGPU_COMPLETION_WORDS + k], words[k]);
		}
	}
	ring_bell();
	CHECK(pthread_join(w.thread, NULL) == 0 && w.code == SGPU_OK);
	CHECK(call(1, &result) == SGPU_EINVALID && strstr(ring_error.text, "which is not open"));
	close_calls();
}

UNIT_TEST(a_ring_without_room_says_so_and_takes_nothing)
{
	struct sgpu_ring_result result;
	struct waiting waiting[THREADS];

	REQUIRE(open_calls(THREADS, true));
	start_waiting(waiting);
	CHECK(call(1, &result) == SGPU_ERETRY);
	CHECK(sgpu_ring_outstanding(r.worker) == THREADS);
	CHECK(shutdown(r.worker_end, SHUT_RDWR) == 0);
	check_waiting(waiting, SGPU_ESYSTEM, "has gone");
	close_calls();
}

UNIT_TEST(a_descriptor_that_the_ring_refuses_ends_nothing)
{
	const struct sgpu_ring_descriptor bad = { .opcode = 0 };
	struct sgpu_ring_result result;
	pthread_t worker;
	void *failed;

	REQUIRE(open_calls(16, true));
	CHECK(sgpu_ring_call(calls, &bad, &result, &ring_error) == SGPU_EUSAGE);
	REQUIRE(pthread_create(&worker, NULL, work, NULL) == 0);
	CHECK(call(LAST, &result) == SGPU_OK && result.value == answer_to(LAST));
	CHECK(pthread_join(worker, &failed) == 0 && !failed);
	close_calls();
}

int main(void)
{
	UNIT_RUN(each_of_many_threads_gets_its_own_completion);
	UNIT_RUN(operations_of_one_call_complete_together);
	UNIT_RUN(a_thread_that_leaves_lets_another_one_reap);
	UNIT_RUN(the_end_of_the_calls_wakes_all_that_wait);
	UNIT_RUN(a_worker_that_goes_ends_all_calls);
	UNIT_RUN(a_completion_of_nothing_ends_all_calls);
	UNIT_RUN(a_completion_that_comes_twice_ends_the_calls_and_the_first_counts);
	UNIT_RUN(a_ring_without_room_says_so_and_takes_nothing);
	UNIT_RUN(a_descriptor_that_the_ring_refuses_ends_nothing);
	return unit_done();
}
