/* SPDX-License-Identifier: Apache-2.0
 *
 * One queue in ordinary memory, so that the thread sanitizer sees both ends: order, full and empty,
 * positions and generations beyond 2^32, heads and generations that cannot be.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "ring/private.h"
#include "unit.h"

enum { COUNT = 8, WORDS = 8, MANY = 80000 };

struct fixture {
	_Alignas(64) _Atomic uint64_t entries[COUNT * WORDS];
	_Atomic uint64_t head;
	struct sgpu_queue queue;
	struct sgpu_producer producer;
	struct sgpu_consumer consumer;
};

static struct fixture f;
static _Thread_local struct sgpu_error error;

/* As if everything before `position` had gone through the queue. */
static void set_up(unsigned words, uint64_t position)
{
	memset(&f, 0, sizeof(f));
	atomic_store(&f.head, position);
	sgpu_queue_set(&f.queue, f.entries, words, COUNT, &f.head);
	for (uint64_t i = 0; i < COUNT; i++) {
		/* The last position before this one that fell into place i, and so the generation
		 * that it has. */
		uint64_t laps = (position + COUNT - 1 - i) / COUNT;

		atomic_store(&f.entries[i * words + words - 1], laps << 32);
	}
	f.producer.queue = f.consumer.queue = f.queue;
	f.producer.tail = f.producer.head_seen = f.consumer.position = position;
}

static int put(uint64_t number)
{
	uint64_t words[WORDS];

	for (int i = 0; i < WORDS; i++) {
		words[i] = number * WORDS + (uint64_t)i;
	}
	words[f.queue.words - 1] = (uint32_t)number;
	return sgpu_producer_put(&f.producer, words, &error);
}

/* Takes an entry, whole; UINT64_MAX: there is none. */
static uint64_t take(void)
{
	uint64_t words[WORDS] = { 0 };
	int rc = sgpu_consumer_take(&f.consumer, words, &error);

	if (rc == SGPU_ERETRY) {
		return UINT64_MAX;
	}
	CHECK(rc == SGPU_OK);
	for (unsigned i = 0; i + 1 < f.queue.words; i++) {
		CHECK(words[i] == words[0] + i);
	}
	CHECK(words[f.queue.words - 1] == (uint32_t)(words[0] / WORDS));
	return words[0] / WORDS;
}

static void fill_and_empty(unsigned words, uint64_t position)
{
	uint64_t next = 0, taken = 0;

	set_up(words, position);
	for (int lap = 0; lap < 5; lap++) {
		CHECK(take() == UINT64_MAX);
		for (int i = 0; i < COUNT; i++) {
			CHECK(put(next++) == SGPU_OK);
		}
		CHECK(put(99) == SGPU_ERETRY && put(99) == SGPU_ERETRY);
		for (int i = 0; i < 3; i++) {
			CHECK(take() == taken++);
		}
		for (int i = 0; i < 3; i++) {
			CHECK(put(next++) == SGPU_OK);
		}
		CHECK(put(99) == SGPU_ERETRY);
		for (int i = 0; i < COUNT; i++) {
			CHECK(take() == taken++);
		}
	}
	CHECK(atomic_load(&f.head) == position + taken);
}

UNIT_TEST(entries_come_in_order_and_a_full_queue_says_retry)
{
	fill_and_empty(8, 0);
	fill_and_empty(4, 0);
}

UNIT_TEST(positions_pass_2_to_the_32_and_generations_wrap)
{
	static const uint64_t places[] = {
		UINT32_MAX,
		(uint64_t)UINT32_MAX - 2 * COUNT,
		(uint64_t)1 << 32,
		((uint64_t)1 << 32) - 1,
		/* Where the generation goes from 2^32 - 1 to 0 and on to 1. */
		((uint64_t)COUNT << 32) - COUNT - 3,
		((uint64_t)COUNT << 32) - 1,
		(uint64_t)COUNT << 32,
		((uint64_t)COUNT << 32) - 2 * COUNT,
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(places); i++) {
		fill_and_empty(8, places[i]);
		fill_and_empty(4, places[i]);
	}
}

static void *produce(void *argument)
{
	(void)argument;
	for (uint64_t i = 0; i < MANY; i++) {
		while (put(i) == SGPU_ERETRY) {
			sched_yield();
		}
	}
	return NULL;
}

UNIT_TEST(the_producer_and_the_consumer_run_at_once)
{
	pthread_t thread;
	uint64_t next = 0, number, out_of_order = 0;

	set_up(WORDS, ((uint64_t)COUNT << 32) - MANY / 2);
	REQUIRE(pthread_create(&thread, NULL, produce, NULL) == 0);
	while (next < MANY) {
		number = take();
		if (number == UINT64_MAX) {
			sched_yield();
			continue;
		}
		out_of_order += number != next++; /* none twice, none lost */
	}
	CHECK(out_of_order == 0 && take() == UINT64_MAX);
	pthread_join(thread, NULL);
}

UNIT_TEST(a_head_that_cannot_be_is_a_fault)
{
	set_up(WORDS, 100);
	for (uint64_t i = 0; i < COUNT; i++) {
		CHECK(put(i) == SGPU_OK);
	}
	atomic_store(&f.head, 99); /* goes back */
	CHECK(put(9) == SGPU_EINVALID && strstr(error.text, "99 entries"));
	atomic_store(&f.head, 100 + COUNT + 1); /* more than were put */
	CHECK(put(9) == SGPU_EINVALID);
	atomic_store(&f.head, UINT64_MAX);
	CHECK(put(9) == SGPU_EINVALID);
	atomic_store(&f.head, 0);
	CHECK(put(9) == SGPU_EINVALID);
	atomic_store(&f.head, 101);
	CHECK(put(9) == SGPU_OK && put(9) == SGPU_ERETRY);
}

UNIT_TEST(a_generation_that_cannot_be_is_a_fault)
{
	uint64_t words[WORDS];

	set_up(WORDS, 0);
	for (uint32_t generation = 2; generation; generation *= 2) {
		atomic_store(&f.entries[WORDS - 1], (uint64_t)generation << 32);
		CHECK(sgpu_consumer_take(&f.consumer, words, &error) == SGPU_EINVALID);
	}
	CHECK(strstr(error.text, "generation 2147483648, not 0 or 1"));
	CHECK(atomic_load(&f.head) == 0);
	atomic_store(&f.entries[WORDS - 1], 0);
	CHECK(sgpu_consumer_take(&f.consumer, words, &error) == SGPU_ERETRY &&
	      !sgpu_consumer_ready(&f.consumer));
	CHECK(put(0) == SGPU_OK && sgpu_consumer_ready(&f.consumer) && take() == 0);
}

/* Sets the head to and fro between what can be and what cannot, while the producer runs. */
static atomic_bool stop;

static void *scramble_head(void *argument)
{
	uint64_t seed = 1;

	(void)argument;
	while (!atomic_load(&stop)) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		atomic_store(&f.head, seed >> 62 ? seed >> 60 : seed);
	}
	return NULL;
}

UNIT_TEST(no_head_keeps_a_producer_in_the_queue)
{
	pthread_t scrambler;

	set_up(WORDS, 0);
	atomic_store(&stop, false);
	REQUIRE(pthread_create(&scrambler, NULL, scramble_head, NULL) == 0);
	for (uint64_t i = 0; i < MANY; i++) {
		(void)put(i); /* each comes back: that is the test */
	}
	atomic_store(&stop, true);
	pthread_join(scrambler, NULL);
	CHECK(f.producer.tail <= MANY);
}

int main(void)
{
	UNIT_RUN(entries_come_in_order_and_a_full_queue_says_retry);
	UNIT_RUN(positions_pass_2_to_the_32_and_generations_wrap);
	UNIT_RUN(the_producer_and_the_consumer_run_at_once);
	UNIT_RUN(a_head_that_cannot_be_is_a_fault);
	UNIT_RUN(a_generation_that_cannot_be_is_a_fault);
	UNIT_RUN(no_head_keeps_a_producer_in_the_queue);
	return unit_done();
}
