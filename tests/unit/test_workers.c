/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: every call is answered, whether they look, sleep, or are about to; and none looks for
 * ever.
 */
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "transfer/engine.h"
#include "unit.h"

enum { ITEMS = 20000 };

static atomic_int items, done;

static bool take_item(void *argument, unsigned thread)
{
	int left = atomic_load(&items);

	(void)argument;
	(void)thread;
	while (left > 0) {
		if (atomic_compare_exchange_weak(&items, &left, left - 1)) {
			atomic_fetch_add(&done, 1);
			return true;
		}
	}
	return false;
}

/* Each item is posted, called for, and waited for: one call that is lost hangs here. */
static void post_one_by_one(unsigned count, uint64_t spin_ns, int rounds)
{
	struct sgpu_worker_job job = { .step = take_item };
	struct sgpu_workers *workers = NULL;
	struct sgpu_error error = { 0 };

	REQUIRE(sgpu_workers_create(count, spin_ns, &workers, &error) == SGPU_OK);
	REQUIRE(sgpu_workers_add(workers, &job, &error) == SGPU_OK);
	atomic_store(&done, 0);
	for (int i = 0; i < rounds; i++) {
		atomic_fetch_add(&items, 1);
		sgpu_workers_wake(workers, 1);
		while (atomic_load(&done) <= i) {
			sched_yield();
		}
	}
	sgpu_workers_remove(workers, &job);
	sgpu_workers_free(&workers);
	CHECK(atomic_load(&done) == rounds);
}

UNIT_TEST(sleeping_workers_lose_no_call)
{
	post_one_by_one(1, 0, ITEMS);
	post_one_by_one(3, 0, ITEMS);
}

UNIT_TEST(looking_workers_lose_no_call)
{
	post_one_by_one(1, 1000000, ITEMS);
	post_one_by_one(3, 1000000, ITEMS);
}

/* They fall asleep at any moment of the next call. */
UNIT_TEST(workers_that_fall_asleep_lose_no_call)
{
	for (uint64_t ns = 100; ns < 200000; ns = ns * 5 / 3) {
		post_one_by_one(2, ns, ITEMS / 10);
	}
}

/* What is posted before one call for it all is done by whoever comes. */
UNIT_TEST(one_call_is_for_all_that_was_posted)
{
	struct sgpu_worker_job job = { .step = take_item };
	struct sgpu_workers *workers = NULL;
	struct sgpu_error error = { 0 };

	REQUIRE(sgpu_workers_create(4, 50000, &workers, &error) == SGPU_OK);
	REQUIRE(sgpu_workers_add(workers, &job, &error) == SGPU_OK);
	for (int i = 0; i < 200; i++) {
		atomic_store(&done, 0);
		atomic_store(&items, 50);
		sgpu_workers_wake(workers, i % 7 + 1); /* more than there are, too */
		while (atomic_load(&done) < 50) {
			sched_yield();
		}
	}
	sgpu_workers_remove(workers, &job);
	sgpu_workers_free(&workers);
}

static atomic_int inside, most;

/* Stays until all workers are in it, as those of a live copy do. */
static bool meet(void *argument, unsigned thread)
{
	(void)thread;
	if (atomic_load(&most) == 4) {
		return false;
	}
	if (atomic_fetch_add(&inside, 1) + 1 == 4) {
		atomic_store(&most, 4);
	}
	while (atomic_load(&most) < 4) {
		sched_yield();
	}
	atomic_fetch_sub((atomic_int *)argument, 1);
	return true;
}

UNIT_TEST(a_call_for_all_brings_all)
{
	struct sgpu_workers *workers = NULL;
	struct sgpu_error error = { 0 };
	atomic_int left;
	struct sgpu_worker_job job = { .step = meet, .argument = &left };

	REQUIRE(sgpu_workers_create(4, 20000, &workers, &error) == SGPU_OK);
	for (int i = 0; i < 500; i++) {
		atomic_store(&left, 4);
		atomic_store(&inside, 0);
		atomic_store(&most, 0);
		REQUIRE(sgpu_workers_add(workers, &job, &error) == SGPU_OK);
		sgpu_workers_wake(workers, 4);
		while (atomic_load(&left) > 0) {
			sched_yield();
		}
		sgpu_workers_remove(workers, &job);
	}
	sgpu_workers_free(&workers);
}

UNIT_TEST(no_worker_is_left_behind_at_the_end)
{
	struct sgpu_error error = { 0 };

	for (int i = 0; i < 300; i++) {
		struct sgpu_worker_job job = { .step = take_item };
		struct sgpu_workers *workers = NULL;

		REQUIRE(sgpu_workers_create(5, i % 2 ? 0 : 10000, &workers, &error) == SGPU_OK);
		REQUIRE(sgpu_workers_add(workers, &job, &error) == SGPU_OK);
		sgpu_workers_wake(workers, i % 3);
		sgpu_workers_remove(workers, &job);
		sgpu_workers_free(&workers);
	}
}

int main(void)
{
	alarm(300); /* a call that is lost hangs */
	UNIT_RUN(sleeping_workers_lose_no_call);
	UNIT_RUN(looking_workers_lose_no_call);
	UNIT_RUN(workers_that_fall_asleep_lose_no_call);
	UNIT_RUN(one_call_is_for_all_that_was_posted);
	UNIT_RUN(a_call_for_all_brings_all);
	UNIT_RUN(no_worker_is_left_behind_at_the_end);
	return unit_done();
}
