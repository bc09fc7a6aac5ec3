/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring through its public functions.
 */
#include <pthread.h>

#include "ring_harness.h"

static struct ring r;
static struct sgpu_ring_descriptor operation;

UNIT_TEST(an_operation_arrives_whole)
{
	const struct sgpu_ring_descriptor sent = {
		.opcode = OP_ANY, .cookie = 1, .handle = 2, .offset = 3, .length = 4, .argument = 6
	};
	struct sgpu_ring_result result;

	REQUIRE(ring_open(&r, 4, 8, false));
	CHECK(sgpu_ring_submit(r.client, &sent, &ring_error) == SGPU_OK);
	REQUIRE(ring_next(&r, &operation));
	CHECK(operation.opcode == OP_ANY && operation.cookie != sent.cookie);
	CHECK(operation.handle == 2 && operation.offset == 3 && operation.length == 4 &&
	      operation.argument == 6);
	CHECK(sgpu_ring_finish(r.worker, 1, 42, &ring_error) == SGPU_EUSAGE);
	CHECK(sgpu_ring_finish(r.worker, -256, 42, &ring_error) == SGPU_EUSAGE);
	CHECK(sgpu_ring_finish(r.worker, SGPU_EDEVICE, 42, &ring_error) == SGPU_OK);
	result = ring_reap(&r);
	CHECK(result.cookie == 1 && result.status == SGPU_EDEVICE && result.value == 42);
	/* Finished once only. */
	CHECK(sgpu_ring_finish(r.worker, SGPU_OK, 0, &ring_error) == SGPU_EUSAGE);
	ring_close(&r);
}

UNIT_TEST(a_client_that_does_not_reap_is_told_to_retry_and_holds_up_nobody)
{
	REQUIRE(ring_open(&r, 4, 8, false));
	for (uint64_t i = 0; i < 8; i++) {
		CHECK(ring_submit(&r, OP_ANY, i) == SGPU_OK);
		CHECK(ring_serve(&r) == 1); /* the worker gets rid of each completion */
	}
	CHECK(ring_submit(&r, OP_ANY, 8) == SGPU_ERETRY);
	CHECK(ring_serve(&r) == 0);
	CHECK(ring_reap(&r).cookie == 0);
	CHECK(ring_submit(&r, OP_ANY, 8) == SGPU_OK);
	CHECK(ring_submit(&r, OP_ANY, 9) == SGPU_ERETRY);
	ring_close(&r);
}

UNIT_TEST(what_the_ring_would_refuse_is_not_submitted)
{
	static const struct sgpu_ring_descriptor bad[] = {
		{ .opcode = 0 },
		{ .opcode = 15 },
		{ .opcode = 256 },
		{ .opcode = OP_ANY, .reserved = 1 },
		{ .opcode = OP_ANY, .reserved2 = 1 },
		{ .opcode = OP_ANY, .reserved3 = 1 },
		{ .opcode = OP_ANY, .generation = 1 },
		{ .opcode = OP_ANY, .length = 1, .offset = UINT64_MAX },
	};

	REQUIRE(ring_open(&r, 4, 8, false));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_ring_submit(r.client, &bad[i], &ring_error) == SGPU_EUSAGE);
	}
	CHECK(!ring_next(&r, &operation) && ring_reap(&r).cookie == UINT64_MAX);
	/* An opcode that only this service does not have is for the worker to refuse. */
	CHECK(ring_submit(&r, 17, 0) == SGPU_OK);
	CHECK(sgpu_ring_next(r.worker, &operation, &ring_error) == SGPU_EINVALID);
	CHECK(strstr(ring_error.text, "unknown opcode 17"));
	ring_close(&r);
}

/* ---- two threads ---- */
enum { OPERATIONS = 20000 };

static atomic_bool served;

static void *serve(void *argument)
{
	struct sgpu_ring_descriptor op;
	struct sgpu_error error;

	(void)argument;
	while (!atomic_load(&served)) {
		int rc = sgpu_ring_next(r.worker, &op, &error);

		if (rc == SGPU_OK) {
			rc = sgpu_ring_finish(r.worker, SGPU_OK, 0, &error);
		} else if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_await(r.worker, sgpu_now_ns() + 2000000, &error);
		}
		if (rc < 0 && rc != SGPU_ETIMEOUT) {
			return (void *)1;
		}
	}
	return NULL;
}

/* One thread submits as much as it can and reaps what there is. */
static void run_threads(bool doorbell)
{
	static uint8_t seen[OPERATIONS];
	struct sgpu_ring_result results[16];
	struct sgpu_error error;
	pthread_t server;
	size_t count, submitted = 0, total = 0, twice = 0;
	void *bad;
	int rc;

	memset(seen, 0, sizeof(seen));
	REQUIRE(ring_open(&r, 8, 32, doorbell));
	atomic_store(&served, false);
	REQUIRE(pthread_create(&server, NULL, serve, NULL) == 0);
	while (total < OPERATIONS) {
		for (rc = SGPU_OK; submitted < OPERATIONS && rc == SGPU_OK;
		     submitted += rc == SGPU_OK) {
			rc = ring_submit(&r, OP_ANY, submitted);
		}
		REQUIRE(rc == SGPU_OK || rc == SGPU_ERETRY);
		REQUIRE(sgpu_ring_await(r.client, sgpu_now_ns() + 60000000000u, &error) == SGPU_OK);
		REQUIRE(sgpu_ring_reap(r.client, results, 16, &count, &error) == SGPU_OK);
		for (size_t i = 0; i < count; i++) {
			twice += results[i].cookie >= OPERATIONS || seen[results[i].cookie]++;
		}
		total += count;
	}
	CHECK(twice == 0);
	atomic_store(&served, true);
	pthread_join(server, &bad);
	CHECK(!bad);
	ring_close(&r);
}

UNIT_TEST(two_threads_share_a_ring_and_a_futex)
{
	run_threads(false);
}

UNIT_TEST(two_threads_share_a_ring_and_a_doorbell)
{
	run_threads(true);
}

int main(void)
{
	UNIT_RUN(an_operation_arrives_whole);
	UNIT_RUN(a_client_that_does_not_reap_is_told_to_retry_and_holds_up_nobody);
	UNIT_RUN(what_the_ring_would_refuse_is_not_submitted);
	UNIT_RUN(two_threads_share_a_ring_and_a_futex);
	UNIT_RUN(two_threads_share_a_ring_and_a_doorbell);
	return unit_done();
}
