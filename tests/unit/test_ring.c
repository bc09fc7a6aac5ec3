/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring through its public functions, both sides in one thread.
 */
#include <pthread.h>
#include <sched.h>

#include "ring_harness.h"

static struct ring r;
static struct sgpu_ring_operation operation;

UNIT_TEST(an_empty_operation_comes_back_with_its_cookie)
{
	struct sgpu_ring_result result;

	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (uint64_t i = 0; i < 100; i++) {
		CHECK(ring_submit(&r, SGPU_RING_NOP, i << 40) == SGPU_OK);
		CHECK(ring_reap(&r).cookie == UINT64_MAX);
		CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE);
		result = ring_reap(&r);
		CHECK(result.cookie == i << 40 && result.status == SGPU_OK && result.value == 0);
	}
	CHECK(ring_reap(&r).cookie == UINT64_MAX);
	ring_close(&r);
}

UNIT_TEST(a_service_operation_arrives_whole_and_stamped)
{
	const struct sgpu_ring_descriptor sent = { .opcode = OP_ANY,
						   .flags = SGPU_RING_FENCE,
						   .cookie = 1,
						   .handle = 2,
						   .offset = 3,
						   .length = 4,
						   .counter = 5,
						   .argument = 6 };
	struct sgpu_ring_result result;
	uint64_t id = 0;

	REQUIRE(ring_open(&r, 4, 8, false, false));
	CHECK(sgpu_ring_submit(r.client, &sent, &id, &ring_error) == SGPU_OK);
	REQUIRE(ring_next(&r, &operation) == SGPU_RING_START);
	CHECK(operation.descriptor.client == RING_CLIENT_ID && operation.descriptor.cookie == id &&
	      id != sent.cookie);
	CHECK(operation.descriptor.opcode == OP_ANY &&
	      operation.descriptor.flags == SGPU_RING_FENCE);
	CHECK(operation.descriptor.handle == 2 && operation.descriptor.offset == 3 &&
	      operation.descriptor.length == 4);
	CHECK(operation.descriptor.counter == 5 && operation.descriptor.argument == 6);
	CHECK(sgpu_ring_outstanding(r.worker) == 1);
	CHECK(sgpu_ring_finish(r.worker, operation.ticket, SGPU_EDEVICE, 42, &ring_error) ==
	      SGPU_OK);
	CHECK(sgpu_ring_outstanding(r.worker) == 0);
	result = ring_reap(&r);
	CHECK(result.cookie == 1 && result.status == SGPU_EDEVICE && result.value == 42);
	/* Finished once only. */
	CHECK(sgpu_ring_finish(r.worker, operation.ticket, SGPU_OK, 0, &ring_error) == SGPU_EUSAGE);
	CHECK(sgpu_ring_finish(r.worker, UINT32_MAX, SGPU_OK, 0, &ring_error) == SGPU_EUSAGE);
	ring_close(&r);
}

UNIT_TEST(operations_complete_in_any_order)
{
	uint32_t tickets[4];

	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (int i = 0; i < 4; i++) {
		CHECK(ring_submit(&r, OP_ANY, (uint64_t)i) == SGPU_OK);
		CHECK(ring_next(&r, &operation) == SGPU_RING_START);
		tickets[i] = operation.ticket;
	}
	for (int i = 3; i >= 0; i--) {
		CHECK(sgpu_ring_finish(r.worker, tickets[i], SGPU_OK, 0, &ring_error) == SGPU_OK);
	}
	for (int i = 3; i >= 0; i--) {
		CHECK(ring_reap(&r).cookie == (uint64_t)i);
	}
	ring_close(&r);
}

UNIT_TEST(a_full_queue_says_retry_and_loses_nothing)
{
	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (uint64_t i = 0; i < 4; i++) {
		CHECK(ring_submit(&r, SGPU_RING_NOP, i) == SGPU_OK);
	}
	CHECK(ring_submit(&r, SGPU_RING_NOP, 4) == SGPU_ERETRY);
	CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE);
	CHECK(ring_submit(&r, SGPU_RING_NOP, 4) == SGPU_OK);
	CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE);
	for (uint64_t i = 0; i < 5; i++) {
		CHECK(ring_reap(&r).cookie == i);
	}
	CHECK(ring_reap(&r).cookie == UINT64_MAX);
	ring_close(&r);
}

UNIT_TEST(a_client_that_does_not_reap_is_told_to_retry_and_holds_up_nobody)
{
	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (uint64_t i = 0; i < 8; i++) {
		CHECK(ring_submit(&r, SGPU_RING_NOP, i) == SGPU_OK);
		CHECK(ring_next(&r, &operation) ==
		      SGPU_RING_IDLE); /* the worker gets rid of each completion */
	}
	CHECK(ring_submit(&r, SGPU_RING_NOP, 8) == SGPU_ERETRY);
	CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE && sgpu_ring_outstanding(r.worker) == 0);
	CHECK(ring_reap(&r).cookie == 0);
	CHECK(ring_submit(&r, SGPU_RING_NOP, 8) == SGPU_OK);
	CHECK(ring_submit(&r, SGPU_RING_NOP, 9) == SGPU_ERETRY);
	ring_close(&r);
}

UNIT_TEST(what_the_ring_would_refuse_is_not_submitted)
{
	static const struct sgpu_ring_descriptor bad[] = {
		{ .opcode = 0 },
		{ .opcode = 5 },
		{ .opcode = 15 },
		{ .opcode = SGPU_RING_NOP, .flags = 2 },
		{ .opcode = SGPU_RING_NOP, .handle = 1 },
		{ .opcode = SGPU_RING_NOP, .client = RING_CLIENT_ID },
		{ .opcode = SGPU_RING_NOP, .reserved = 1 },
		{ .opcode = SGPU_RING_NOP, .reserved2 = 1 },
		{ .opcode = SGPU_RING_NOP, .generation = 1 },
		{ .opcode = SGPU_RING_DRAIN, .flags = SGPU_RING_FENCE },
		{ .opcode = SGPU_RING_CANCEL, .length = 1 },
		{ .opcode = SGPU_RING_BATCH },
		{ .opcode = SGPU_RING_BATCH, .length = 63 },
		{ .opcode = SGPU_RING_BATCH, .length = 257 * 64 },
		{ .opcode = SGPU_RING_BATCH, .length = 64, .offset = -64 },
		{ .opcode = OP_ANY, .length = 1, .offset = UINT64_MAX },
	};

	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_ring_submit(r.client, &bad[i], NULL, &ring_error) == SGPU_EUSAGE);
	}
	CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE && ring_reap(&r).cookie == UINT64_MAX);
	/* An opcode that only this service does not have is for the worker to refuse. */
	CHECK(ring_submit(&r, 17, 0) == SGPU_OK);
	CHECK(sgpu_ring_next(r.worker, &operation, &(enum sgpu_ring_event){ 0 }, &ring_error) ==
	      SGPU_EINVALID);
	CHECK(strstr(ring_error.text, "unknown opcode 17"));
	ring_close(&r);
}

UNIT_TEST(every_store_is_tried_and_one_that_is_not_there_refused)
{
	struct sgpu_ring_client *client;
	struct sgpu_ring_client_config config = { .doorbell = -1 };

	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (int store = SGPU_RING_STORE_AUTO; store <= SGPU_RING_STORE_DIRECT; store++) {
		config.store = (enum sgpu_ring_store)store;
		if (!sgpu_ring_store_available(config.store)) {
			CHECK(sgpu_ring_client_open(r.fd, &config, &client, &ring_error) ==
				      SGPU_EUNAVAILABLE &&
			      !client);
			continue;
		}
		ring_close(&r);
		REQUIRE(ring_open(&r, 4, 8, false, false));
		REQUIRE(sgpu_ring_client_open(r.fd, &config, &client, &ring_error) == SGPU_OK);
		sgpu_ring_client_close(&r.client);
		r.client = client;
		for (uint64_t i = 0; i < 20; i++) {
			CHECK(ring_submit(&r, SGPU_RING_NOP, i) == SGPU_OK);
			CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE &&
			      ring_reap(&r).cookie == i);
		}
	}
	ring_close(&r);
}

UNIT_TEST(one_call_of_next_does_a_bounded_amount_of_work)
{
	uint64_t reaped = 0, calls = 0;

	REQUIRE(ring_open(&r, 1024, 1024, false, false));
	for (uint64_t i = 0; i < 1024; i++) {
		CHECK(ring_submit(&r, SGPU_RING_NOP, i) == SGPU_OK);
	}
	while (ring_next(&r, &operation) == SGPU_RING_BUSY) {
		calls++;
	}
	CHECK(calls >= 1024 / 64);
	while (ring_reap(&r).cookie == reaped) {
		reaped++;
	}
	CHECK(reaped == 1024);
	/* A cancellation looks at all that is outstanding: one is enough for a call. */
	for (uint64_t i = 0; i < 3; i++) {
		CHECK(sgpu_ring_cancel(r.client, 1, i, &ring_error) == SGPU_OK);
	}
	for (uint64_t i = 0; i < 3; i++) {
		CHECK(ring_next(&r, &operation) == SGPU_RING_BUSY);
		CHECK(ring_reap(&r).cookie == i && ring_reap(&r).cookie == UINT64_MAX);
	}
	ring_close(&r);
}

UNIT_TEST(a_submission_is_cancelled_by_its_id)
{
	const struct sgpu_ring_descriptor held = { .opcode = OP_ANY,
						   .flags = SGPU_RING_FENCE,
						   .cookie = 2 };
	struct sgpu_ring_result result;
	uint32_t ticket;
	uint64_t id;

	REQUIRE(ring_open(&r, 4, 8, false, false));
	CHECK(ring_submit(&r, OP_ANY, 1) == SGPU_OK);
	CHECK(sgpu_ring_submit(r.client, &held, &id, &ring_error) == SGPU_OK);
	CHECK(ring_next(&r, &operation) == SGPU_RING_START);
	ticket = operation.ticket;
	CHECK(sgpu_ring_cancel(r.client, id, 3, &ring_error) == SGPU_OK);
	CHECK(ring_next(&r, &operation) == SGPU_RING_BUSY);
	result = ring_reap(&r);
	CHECK(result.cookie == 2 && result.status == SGPU_ECANCELED);
	result = ring_reap(&r);
	CHECK(result.cookie == 3 && result.status == SGPU_OK && result.value == 1);
	CHECK(sgpu_ring_finish(r.worker, ticket, SGPU_OK, 0, &ring_error) == SGPU_OK);
	CHECK(ring_reap(&r).cookie == 1 && ring_next(&r, &operation) == SGPU_RING_IDLE);
	ring_close(&r);
}

UNIT_TEST(a_batch_crosses_the_ring_as_one_submission)
{
	const struct sgpu_ring_descriptor batch = {
		.opcode = SGPU_RING_BATCH, .cookie = 9, .handle = 5, .offset = 64, .length = 3 * 64
	};
	const struct sgpu_ring_descriptor elsewhere = { .opcode = SGPU_RING_BATCH,
							.cookie = 10,
							.handle = 5,
							.offset = sizeof(r.area),
							.length = 64 };
	struct sgpu_ring_result result;

	REQUIRE(ring_open(&r, 4, 8, false, false));
	for (uint64_t i = 0; i < 3; i++) {
		r.area[1 + i] = (struct sgpu_ring_descriptor){ .opcode = OP_ANY, .argument = i };
	}
	CHECK(sgpu_ring_submit(r.client, &batch, NULL, &ring_error) == SGPU_OK);
	CHECK(sgpu_ring_submit(r.client, &elsewhere, NULL, &ring_error) == SGPU_OK);
	for (uint64_t i = 0; i < 3; i++) {
		CHECK(ring_next(&r, &operation) == SGPU_RING_START);
		CHECK(operation.descriptor.argument == i &&
		      operation.descriptor.client == RING_CLIENT_ID);
		CHECK(sgpu_ring_finish(r.worker, operation.ticket, SGPU_OK, 0, &ring_error) ==
		      SGPU_OK);
	}
	CHECK(ring_next(&r, &operation) == SGPU_RING_IDLE);
	result = ring_reap(&r);
	CHECK(result.cookie == 9 && result.status == SGPU_OK && result.value == 3);
	result = ring_reap(&r);
	CHECK(result.cookie == 10 && result.status == SGPU_EPOLICY && result.value == 0);
	ring_close(&r);
}

/* ---- many threads of one client ---- */
enum { THREADS = 4, EACH = 5000 };

static void *submit_many(void *argument)
{
	const uint64_t who = (uint64_t)(uintptr_t)argument;
	int rc;

	for (uint64_t i = 0; i < EACH; i++) {
		while ((rc = ring_submit(&r, SGPU_RING_NOP, who * EACH + i)) == SGPU_ERETRY) {
			sched_yield();
		}
		if (rc < 0) {
			return (void *)1;
		}
	}
	return NULL;
}

static atomic_bool served;

static void *serve(void *argument)
{
	struct sgpu_ring_operation op;
	enum sgpu_ring_event event;
	struct sgpu_error error;

	(void)argument;
	while (!atomic_load(&served)) {
		if (sgpu_ring_next(r.worker, &op, &event, &error) < 0) {
			return (void *)1;
		}
		if (event == SGPU_RING_IDLE) {
			int rc = sgpu_ring_worker_wait(r.worker, sgpu_now_ns() + 2000000, &error);

			if (rc < 0 && rc != SGPU_ETIMEOUT) {
				return (void *)1;
			}
		}
	}
	return NULL;
}

static void run_threads(bool doorbell)
{
	static uint8_t seen[THREADS * EACH];
	struct sgpu_ring_result results[16];
	struct sgpu_error error;
	pthread_t threads[THREADS], server;
	size_t count, total = 0, twice = 0;
	void *bad;

	memset(seen, 0, sizeof(seen));
	REQUIRE(ring_open(&r, 8, 32, true, doorbell));
	atomic_store(&served, false);
	REQUIRE(pthread_create(&server, NULL, serve, NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, submit_many, (void *)(uintptr_t)i) == 0);
	}
	while (total < THREADS * EACH) {
		REQUIRE(sgpu_ring_client_wait(r.client, sgpu_now_ns() + 60000000000u, &error) ==
			SGPU_OK);
		REQUIRE(sgpu_ring_reap(r.client, results, 16, &count, &error) == SGPU_OK);
		for (size_t i = 0; i < count; i++) {
			twice += results[i].cookie >= THREADS * EACH || seen[results[i].cookie]++;
		}
		total += count;
	}
	CHECK(twice == 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &bad);
		CHECK(!bad);
	}
	atomic_store(&served, true);
	pthread_join(server, &bad);
	CHECK(!bad);
	ring_close(&r);
}

UNIT_TEST(many_threads_share_a_client_and_a_futex)
{
	run_threads(false);
}

UNIT_TEST(many_threads_share_a_client_and_a_doorbell)
{
	run_threads(true);
}

int main(void)
{
	UNIT_RUN(an_empty_operation_comes_back_with_its_cookie);
	UNIT_RUN(a_service_operation_arrives_whole_and_stamped);
	UNIT_RUN(operations_complete_in_any_order);
	UNIT_RUN(a_full_queue_says_retry_and_loses_nothing);
	UNIT_RUN(a_client_that_does_not_reap_is_told_to_retry_and_holds_up_nobody);
	UNIT_RUN(what_the_ring_would_refuse_is_not_submitted);
	UNIT_RUN(every_store_is_tried_and_one_that_is_not_there_refused);
	UNIT_RUN(one_call_of_next_does_a_bounded_amount_of_work);
	UNIT_RUN(a_submission_is_cancelled_by_its_id);
	UNIT_RUN(a_batch_crosses_the_ring_as_one_submission);
	UNIT_RUN(many_threads_share_a_client_and_a_futex);
	UNIT_RUN(many_threads_share_a_client_and_a_doorbell);
	return unit_done();
}
