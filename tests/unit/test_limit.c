/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of a process on memory that it takes for others: exact, whoever asks at the same time.
 */
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "unit.h"

enum { PAGE = 4096, THREADS = 8, ROUNDS = 20000, PLACES = 5 };

static struct sgpu_error error;

UNIT_TEST(without_a_limit_all_is_counted_and_nothing_refused)
{
	CHECK(sgpu_limit_left(SGPU_DEVICE_MEMORY) == UINT64_MAX);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, (uint64_t)1 << 60, &error) == SGPU_OK);
	sgpu_limit_give(SGPU_DEVICE_MEMORY, (uint64_t)1 << 60);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 0, &error) == SGPU_OK);
}

UNIT_TEST(what_is_above_the_limit_is_refused_and_the_text_says_which)
{
	sgpu_limit_set(SGPU_DEVICE_MEMORY, 3 * PAGE);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 3 * PAGE + 1, &error) == SGPU_ENOMEM);
	CHECK(strstr(error.text,
		     "12289 bytes of device memory are needed, and the limit is 12288") != NULL);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, UINT64_MAX, &error) == SGPU_ENOMEM);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 1, &error) == SGPU_OK);
	CHECK(sgpu_limit_left(SGPU_DEVICE_MEMORY) == 2 * PAGE);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 2 * PAGE + 1, &error) == SGPU_ENOMEM);
	CHECK(strstr(error.text, "8193 bytes of device memory are needed, and 8192 of the limit of "
				 "12288 are free") != NULL);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 2 * PAGE, &error) == SGPU_OK);
	CHECK(sgpu_limit_left(SGPU_DEVICE_MEMORY) == 0);
	CHECK(sgpu_limit_take(SGPU_HOST_MEMORY, 5 * PAGE, &error) == SGPU_OK); /* another limit */
	sgpu_limit_give(SGPU_HOST_MEMORY, 5 * PAGE);
	/* A smaller one takes nothing away, and lets nothing come before enough has gone. */
	sgpu_limit_set(SGPU_DEVICE_MEMORY, PAGE);
	CHECK(sgpu_limit_left(SGPU_DEVICE_MEMORY) == 0);
	sgpu_limit_give(SGPU_DEVICE_MEMORY, 2 * PAGE);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 1, &error) == SGPU_ENOMEM);
	sgpu_limit_give(SGPU_DEVICE_MEMORY, 1);
	CHECK(sgpu_limit_take(SGPU_DEVICE_MEMORY, 1, &error) == SGPU_OK);
	sgpu_limit_give(SGPU_DEVICE_MEMORY, 1);
	sgpu_limit_set(SGPU_DEVICE_MEMORY, 0);
}

UNIT_TEST(a_counter_elsewhere_has_what_was_counted_before)
{
	static _Atomic uint64_t counter;

	CHECK(sgpu_limit_take(SGPU_HOST_MEMORY, 2 * PAGE, &error) == SGPU_OK);
	sgpu_limit_count_in(SGPU_HOST_MEMORY, &counter);
	CHECK(counter == 2 * PAGE);
	sgpu_limit_give(SGPU_HOST_MEMORY, 2 * PAGE);
	CHECK(counter == 0);
}

static atomic_uint taken, most;

static void *take_and_give(void *argument)
{
	(void)argument;
	for (int i = 0; i < ROUNDS; i++) {
		if (sgpu_limit_take(SGPU_DEVICE_MEMORY, PAGE, NULL) != SGPU_OK) {
			continue;
		}
		const unsigned now = atomic_fetch_add(&taken, 1) + 1;
		unsigned before = atomic_load(&most);

		while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
		}
		atomic_fetch_sub(&taken, 1);
		sgpu_limit_give(SGPU_DEVICE_MEMORY, PAGE);
	}
	return NULL;
}

UNIT_TEST(threads_together_never_have_more)
{
	pthread_t threads[THREADS];

	sgpu_limit_set(SGPU_DEVICE_MEMORY, PLACES * PAGE);
	for (int i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, take_and_give, NULL) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0);
	}
	CHECK(most >= 1 && most <= PLACES);
	CHECK(sgpu_limit_left(SGPU_DEVICE_MEMORY) == PLACES * PAGE);
	sgpu_limit_set(SGPU_DEVICE_MEMORY, 0);
}

int main(void)
{
	UNIT_RUN(without_a_limit_all_is_counted_and_nothing_refused);
	UNIT_RUN(what_is_above_the_limit_is_refused_and_the_text_says_which);
	UNIT_RUN(a_counter_elsewhere_has_what_was_counted_before);
	UNIT_RUN(threads_together_never_have_more);
	return unit_done();
}
