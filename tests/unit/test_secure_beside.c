/* SPDX-License-Identifier: Apache-2.0
 *
 * Two secure contexts of one device: neither reaches the other, whatever its requests name; both
 * keep what is theirs while they take turns; and what one gives back is zero when the other gets
 * it.
 */
#include "crypto/crypto.h"
#include "channel_check.h"

#include <pthread.h>
#include <time.h>

#include "channel/context.h"

#include "secure_harness.h"
#include "work_calls.h"

enum { SIZE = 300000 };

static struct sgpu_secure *ours, *theirs;
static struct sgpu_stream *our_stream, *their_stream;
static sgpu_devptr our_memory, their_memory;
static uint8_t our_data[SIZE], their_data[SIZE], back[SIZE];

/* ---- requests that name what is another context's ---- */
static bool theirs_is_whole(void)
{
	memset(back, 0, SIZE);
	return get(their_stream, back, their_memory, SIZE) == SGPU_OK &&
	       !memcmp(back, their_data, SIZE);
}

static int never(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	++*(int *)argument;
	return SGPU_OK;
}

static uint64_t requests(void)
{
	struct sgpu_secure_stats stats;

	sgpu_secure_get_stats(ours, &stats);
	return stats.requests;
}

/* Every kind of request of `ours` on memory of theirs. None may be enqueued. */
static void ask_for_theirs(const char *reason)
{
	const struct sgpu_device_range ranges[2] = { { our_memory, 100 }, { their_memory, 100 } };
	uint8_t data[1000] = { 1 }, result[SGPU_KT128_SIZE];
	struct sgpu_sealed_keys keys = { .key = { 3 } };
	struct sgpu_device_key *key = NULL;
	struct sgpu_task task = { 0 };
	uint64_t before;
	int ran = 0;

	REQUIRE(sgpu_device_key_load(our_stream, &keys, &key, &error) == SGPU_OK);
	before = requests();
	CHECK(sgpu_copy_in(our_stream, their_memory, data, 1000, &task) == SGPU_EUSAGE);
	CHECK(task.code == SGPU_EUSAGE && strstr(task.error.text, reason) != NULL);
	CHECK(sgpu_copy_out(our_stream, data, their_memory, 1000, NULL) == SGPU_EUSAGE &&
	      data[0] == 1);
	CHECK(sgpu_device_clear(our_stream, their_memory, SIZE, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_launch_on(our_stream, never, &ran, ranges, 2, &task) == SGPU_EUSAGE);
	CHECK(digest_of(our_stream, their_memory, SIZE, result, &task) == SGPU_EUSAGE);
	CHECK(sgpu_device_measure(our_stream, their_memory, SIZE, NULL, result, &task) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_device_open_chunks(our_stream, key, 0, true, our_memory, 1000, their_memory,
				      &task) == SGPU_EUSAGE);
	CHECK(sgpu_device_seal_chunks(our_stream, key, 0, true, their_memory, 1000, our_memory,
				      &task) == SGPU_EUSAGE);
	CHECK(sgpu_device_seal_chunks(our_stream, key, 0, true, our_memory, 1000, their_memory,
				      &task) == SGPU_EUSAGE);
	CHECK(requests() == before && sgpu_stream_sync(our_stream, &error) == SGPU_OK && ran == 0);
	sgpu_device_key_free(&key);
	CHECK(theirs_is_whole());
}

UNIT_TEST(a_request_that_names_memory_of_another_context_is_refused)
{
	ask_for_theirs("not allocated");
}

/* By the processor's account, when that of the context says that theirs is ours. */
UNIT_TEST(the_processor_refuses_what_the_context_believes_to_be_its_own)
{
	const uint64_t extent = sgpu_arena_extent(SIZE);
	struct sgpu_arena kept = ours->arena;

	memset(&ours->arena, 0, sizeof(ours->arena));
	REQUIRE(sgpu_arena_add(&ours->arena, their_memory, extent) == SGPU_OK &&
		sgpu_arena_take(&ours->arena, SIZE)->range.address == their_memory);
	REQUIRE(sgpu_arena_add(&ours->arena, our_memory, extent) == SGPU_OK &&
		sgpu_arena_take(&ours->arena, SIZE)->range.address == our_memory);
	ask_for_theirs("not of this context");
	sgpu_arena_clear(&ours->arena);
	ours->arena = kept;
	CHECK(put(our_stream, our_memory, our_data, SIZE) == SGPU_OK);
}

UNIT_TEST(a_key_of_another_context_opens_nothing)
{
	struct sgpu_sealed_keys keys = { .key = { 3 } };
	struct sgpu_device_key *their_key = NULL;
	struct sgpu_stream *plain = NULL;
	struct sgpu_task task = { 0 };
	uint64_t before = requests();

	REQUIRE(sgpu_device_key_load(their_stream, &keys, &their_key, &error) == SGPU_OK);
	CHECK(sgpu_device_open_chunks(our_stream, their_key, 0, true, our_memory, 1000,
				      our_memory + 8192, &task) == SGPU_EPOLICY);
	CHECK(task.code == SGPU_EPOLICY && strstr(task.error.text, "not of this context") != NULL);
	CHECK(sgpu_device_seal_chunks(our_stream, their_key, 0, true, our_memory, 1000,
				      our_memory + 8192, &task) == SGPU_EPOLICY);
	CHECK(requests() == before);
	/* Nor where there is no context, whose memory would not be checked. */
	REQUIRE(sgpu_stream_create(inner, &plain, &error) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(plain, their_key, 0, true, their_memory, 1000,
				      their_memory + 8192, &task) == SGPU_EPOLICY);
	sgpu_device_key_free(&their_key);
	REQUIRE(sgpu_device_key_load(plain, &keys, &their_key, &error) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(our_stream, their_key, 0, true, our_memory, 1000,
				      our_memory + 8192, &task) == SGPU_EPOLICY);
	sgpu_device_key_free(&their_key);
	sgpu_stream_free(&plain);
}

UNIT_TEST(a_module_of_another_context_does_not_run)
{
	struct sgpu_device_object others[] = { { .guard = &theirs->guard }, { .guard = NULL } };
	const struct sgpu_module_memory memory = { 0 };
	const struct sgpu_module_shape shape = { { 1, 1, 1 }, { 1, 1, 1 }, 0 };
	struct sgpu_task task = { 0 };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(others); i++) {
		CHECK(sgpu_device_module_launch_on(
			      our_stream, (struct sgpu_device_module *)(void *)&others[i], "f",
			      &shape, NULL, NULL, 0, &memory, &task) == SGPU_EPOLICY);
		CHECK(task.code == SGPU_EPOLICY &&
		      strstr(task.error.text, "not of this context") != NULL);
	}
}

/* While a request of one is being enqueued, nothing of the other is reachable, and it waits for its
 * turn. */
static void *enter_theirs(void *argument)
{
	atomic_int *entered = argument;
	struct sgpu_error why;

	*entered = sgpu_processor_enter(theirs->ground->processor, theirs->grant.channel,
					&(struct sgpu_device_range){ their_memory, SIZE }, 1,
					&why) == SGPU_OK
			   ? 1
			   : -1;
	if (*entered == 1) {
		sgpu_processor_leave(theirs->ground->processor);
	}
	return NULL;
}

UNIT_TEST(a_context_waits_while_a_request_of_another_is_enqueued)
{
	struct sgpu_processor *processor = sgpu_secure_processor(ours);
	const struct sgpu_device_range range = { our_memory, SIZE };
	const struct timespec moment = { .tv_nsec = 50000000 };
	struct sgpu_stream *plain = NULL;
	atomic_int entered = 0;
	pthread_t thread;

	REQUIRE(sgpu_stream_create(inner, &plain, &error) == SGPU_OK);
	REQUIRE(sgpu_processor_enter(processor, ours->grant.channel, &range, 1, &error) == SGPU_OK);
	REQUIRE(pthread_create(&thread, NULL, enter_theirs, &entered) == 0);
	nanosleep(&moment, NULL);
	CHECK(entered == 0);
	/* By the device's own account, too. */
	CHECK(sgpu_copy_out(plain, back, their_memory, 1, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_out(plain, back, our_memory, 1, NULL) == SGPU_OK);
	sgpu_processor_leave(processor);
	pthread_join(thread, NULL);
	CHECK(entered == 1);
	CHECK(sgpu_copy_out(plain, back, our_memory, 1, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_processor_enter(processor, SGPU_CHANNEL_MAX, NULL, 0, &error) == SGPU_EUSAGE);
	CHECK(sgpu_processor_enter(processor, ours->grant.channel,
				   &(struct sgpu_device_range){ ours->base, UINT64_MAX }, 1,
				   &error) == SGPU_EUSAGE);
	CHECK(sgpu_processor_enter(processor, ours->grant.channel,
				   &(struct sgpu_device_range){ ours->base - 1, 1 }, 1,
				   &error) == SGPU_EUSAGE);
	sgpu_stream_free(&plain);
}

UNIT_TEST(another_contexts_memory_is_not_measured)
{
	uint8_t digest[SGPU_KT128_SIZE], expected[SGPU_KT128_SIZE];
	struct sgpu_report measurement;
	struct sgpu_ground *ground = ours->ground;

	CHECK(sgpu_secure_measure(ours, their_memory, SIZE, false, digest, &error) == SGPU_EUSAGE);
	CHECK(sgpu_secure_memcpy(ours, back, their_memory, SIZE, &error) == SGPU_EUSAGE);
	/* And the processor refuses, too. */
	ground->sender = ours;
	CHECK(sgpu_allocator_measure(ground->allocator, ours->grant.channel,
				     their_memory - ours->base, SIZE, false, &measurement,
				     &error) != SGPU_OK);
	CHECK(sgpu_secure_measure(theirs, their_memory, SIZE, false, digest, &error) == SGPU_OK);
	sgpu_measure_pages(their_data, SIZE, NULL, expected);
	CHECK(!memcmp(digest, expected, sizeof(digest)));
}

struct worker {
	struct sgpu_secure *context;
	int bad;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct sgpu_device *device = sgpu_secure_device(w->context);
	uint8_t *data = malloc(SIZE), *again = malloc(SIZE);
	struct sgpu_stream *stream = NULL;
	struct sgpu_error why = { 0 };

	w->bad += sgpu_stream_create(device, &stream, &why) != SGPU_OK;
	for (int i = 0; i < 30 && w->bad == 0; i++) {
		struct sgpu_task tasks[2] = { { 0 } };
		sgpu_devptr memory = 0;

		fill(data, SIZE, (unsigned)i + (unsigned)(uintptr_t)w);
		w->bad += sgpu_device_alloc(device, SIZE, &memory, &why) != SGPU_OK ||
			  sgpu_copy_in(stream, memory, data, SIZE, &tasks[0]) != SGPU_OK ||
			  sgpu_copy_out(stream, again, memory, SIZE, &tasks[1]) != SGPU_OK ||
			  sgpu_stream_sync(stream, &why) != SGPU_OK || tasks[0].code ||
			  tasks[1].code || memcmp(data, again, SIZE) != 0;
		sgpu_device_free(device, &memory, SIZE);
	}
	sgpu_stream_free(&stream);
	free(data);
	free(again);
	return NULL;
}

UNIT_TEST(threads_of_both_contexts_work_at_the_same_time)
{
	struct worker workers[4] = { { ours, 0 }, { theirs, 0 }, { ours, 0 }, { theirs, 0 } };
	pthread_t threads[4];

	for (int i = 0; i < 4; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		CHECK(workers[i].bad == 0);
	}
	CHECK(sgpu_processor_check(sgpu_secure_processor(ours), &error) == SGPU_OK);
}

UNIT_TEST(what_one_gives_back_is_zero_for_the_other)
{
	uint64_t size = (uint64_t)24 << 20;
	uint8_t *data = malloc(size);
	sgpu_devptr memory = 0;
	bool good;

	for (int i = 0; i < 3; i++) {
		memset(data, 0xee, size);
		REQUIRE(sgpu_secure_malloc(ours, size, &memory, &error) == SGPU_OK);
		CHECK(put(our_stream, memory, data, size) == SGPU_OK);
		sgpu_secure_free(ours, &memory);
		CHECK(sgpu_secure_trim(ours, &error) == SGPU_OK);
		REQUIRE(sgpu_secure_malloc(theirs, size, &memory, &error) == SGPU_OK);
		good = get(their_stream, data, memory, size) == SGPU_OK && all_zero(data, size);
		CHECK(good);
		sgpu_secure_free(theirs, &memory);
		CHECK(sgpu_secure_trim(theirs, &error) == SGPU_OK);
	}
	free(data);
}

UNIT_TEST(a_context_that_ends_leaves_the_other_as_it_is)
{
	struct sgpu_secure_config config = { .sibling = ours };
	struct sgpu_secure *third = make_context(&config);
	sgpu_devptr memory = 0;

	REQUIRE(third != NULL);
	CHECK(sgpu_secure_malloc(third, 1 << 20, &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(third, our_data, memory, SIZE, &error) == SGPU_OK);
	sgpu_secure_destroy(&third);
	CHECK(theirs_is_whole());
	CHECK(sgpu_processor_check(sgpu_secure_processor(ours), &error) == SGPU_OK);
}

int main(void)
{
	struct sgpu_secure_config config = { 0 };

	DEVICE_OR_SKIP();
	fill(our_data, SIZE, 1);
	fill(their_data, SIZE, 2);
	if (!open_inner() || !(config.sibling = ours = make_context(NULL)) ||
	    !(theirs = make_context(&config)) ||
	    sgpu_stream_create(sgpu_secure_device(ours), &our_stream, &error) ||
	    sgpu_stream_create(sgpu_secure_device(theirs), &their_stream, &error) ||
	    sgpu_secure_malloc(ours, SIZE, &our_memory, &error) ||
	    sgpu_secure_malloc(theirs, SIZE, &their_memory, &error) ||
	    put(our_stream, our_memory, our_data, SIZE) ||
	    put(their_stream, their_memory, their_data, SIZE)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_request_that_names_memory_of_another_context_is_refused);
	UNIT_RUN(the_processor_refuses_what_the_context_believes_to_be_its_own);
	UNIT_RUN(a_key_of_another_context_opens_nothing);
	UNIT_RUN(a_module_of_another_context_does_not_run);
	UNIT_RUN(a_context_waits_while_a_request_of_another_is_enqueued);
	UNIT_RUN(another_contexts_memory_is_not_measured);
	UNIT_RUN(threads_of_both_contexts_work_at_the_same_time);
	UNIT_RUN(what_one_gives_back_is_zero_for_the_other);
	UNIT_RUN(a_context_that_ends_leaves_the_other_as_it_is);
	sgpu_secure_free(ours, &our_memory);
	sgpu_stream_free(&our_stream);
	sgpu_stream_free(&their_stream);
	sgpu_secure_destroy(&theirs);
	sgpu_secure_destroy(&ours);
	sgpu_device_close(&inner);
	return unit_done();
}
