/* SPDX-License-Identifier: Apache-2.0
 *
 * Two secure contexts of one device: neither reaches the other, whatever its groups name; both keep what is theirs while they
 * take turns; and what one gives back is zero when the other gets it.
 */
#include <pthread.h>

#include "secure/secure.h"

#include "secure_harness.h"

enum { SIZE = 300000 };

static struct sgpu_secure *ours, *theirs;
static struct sgpu_stream *our_stream, *their_stream;
static sgpu_devptr our_memory, their_memory;
static uint8_t our_data[SIZE], their_data[SIZE], back[SIZE];

/* ---- groups that the owner of `ours` makes by hand, around the checks of her own device ---- */
static uint64_t number(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static bool is_refused(struct sgpu_group *group, size_t size)
{
	struct sgpu_error why = { 0 };
	struct sgpu_secure_stats before, after;
	int rc;

	sgpu_secure_get_stats(ours, &before);
	rc = sgpu_lane_submit((struct sgpu_lane *)(void *)our_stream, group, size, &why);
	sgpu_secure_get_stats(ours, &after);
	if (rc != SGPU_EPOLICY || after.refused != before.refused + 1) {
		printf("# %d '%s'\n", rc, why.text);
	}
	return rc == SGPU_EPOLICY && after.refused == before.refused + 1 && strstr(why.text, "not of this context");
}

static bool move_is_refused(enum sgpu_item_kind kind, sgpu_devptr address, uint64_t size, void *host)
{
	struct { struct sgpu_group group; struct sgpu_item_move item; } request = {
		.item = { .head = { kind, sizeof(request.item) }, .device = address, .size = size, .host = number(host) },
	};

	return is_refused(&request.group, sizeof(request));
}

static bool chunks_are_refused(enum sgpu_item_kind kind, struct sgpu_device_key *key, sgpu_devptr in, sgpu_devptr out)
{
	struct sgpu_task task = { 0 };
	struct { struct sgpu_group group; struct sgpu_item_chunks item; } request = {
		.item = { .head = { kind, sizeof(request.item) }, .key = number(key), .last = 1, .in = in, .size = 1000,
			  .out = out, .task = number(&task) },
	};

	return is_refused(&request.group, sizeof(request));
}

/* Loading into a key of another's, or freeing it. */
static bool key_is_refused(enum sgpu_item_kind kind, struct sgpu_device_key *key)
{
	struct { struct sgpu_group group; struct sgpu_item_key item; } request = {
		.item = { .head = { kind, sizeof(request.item) }, .key = number(key), .keys = { .key = { 9 } } },
	};

	return is_refused(&request.group, sizeof(request));
}

static int never(struct sgpu_launch *launch, void *argument)
{
	(void)launch;
	++*(int *)argument;
	return SGPU_OK;
}

static bool launch_is_refused(sgpu_devptr second)
{
	sgpu_launch_fn function = never;
	int ran = 0;
	struct {
		struct sgpu_group group;
		struct sgpu_item_launch item;
		struct sgpu_device_range ranges[2];
	} request = {
		.item = { .head = { SGPU_ITEM_LAUNCH, sizeof(request.item) + sizeof(request.ranges) },
			  .argument = number(&ran), .range_count = 2 },
		.ranges = { { our_memory, 100 }, { second, 100 } },
	};

	memcpy(&request.item.function, &function, sizeof(function));
	return is_refused(&request.group, sizeof(request)) && sgpu_stream_sync(our_stream, &error) == SGPU_OK && ran == 0;
}

static bool digest_is_refused(void)
{
	struct sgpu_task task = { 0 };
	struct { struct sgpu_group group; struct sgpu_item_digest item; } request = {
		.item = { .head = { SGPU_ITEM_DIGEST, sizeof(request.item) }, .memory = their_memory, .size = SIZE,
			  .digest = number(back), .task = number(&task) },
	};

	return is_refused(&request.group, sizeof(request));
}

static bool theirs_is_whole(void)
{
	memset(back, 0, SIZE);
	return get(their_stream, back, their_memory, SIZE) == SGPU_OK && !memcmp(back, their_data, SIZE);
}

UNIT_TEST(a_group_that_names_memory_of_another_context_is_refused)
{
	uint8_t data[1000] = { 1 };

	CHECK(move_is_refused(SGPU_ITEM_COPY_IN, their_memory, 1000, data));
	CHECK(move_is_refused(SGPU_ITEM_COPY_OUT, their_memory, 1000, data) && data[0] == 1);
	CHECK(move_is_refused(SGPU_ITEM_CLEAR, their_memory, SIZE, NULL));
	CHECK(move_is_refused(SGPU_ITEM_COPY_OUT, our_memory, UINT64_MAX - 10, data));
	CHECK(move_is_refused(SGPU_ITEM_COPY_OUT, 4096, 8, data));
	CHECK(launch_is_refused(their_memory));
	CHECK(digest_is_refused());
	CHECK(theirs_is_whole());
}

UNIT_TEST(a_key_of_another_context_opens_nothing)
{
	struct sgpu_sealed_keys keys = { .key = { 3 } };
	struct sgpu_device_key *our_key = NULL, *their_key = NULL;

	REQUIRE(sgpu_device_key_load(our_stream, &keys, &our_key, &error) == SGPU_OK);
	REQUIRE(sgpu_device_key_load(their_stream, &keys, &their_key, &error) == SGPU_OK);
	CHECK(chunks_are_refused(SGPU_ITEM_OPEN, their_key, our_memory, our_memory + 8192));
	CHECK(chunks_are_refused(SGPU_ITEM_SEAL, their_key, our_memory, our_memory + 8192));
	CHECK(key_is_refused(SGPU_ITEM_KEY_LOAD, their_key) && key_is_refused(SGPU_ITEM_KEY_FREE, their_key));
	CHECK(chunks_are_refused(SGPU_ITEM_OPEN, our_key, our_memory, their_memory));
	CHECK(chunks_are_refused(SGPU_ITEM_SEAL, our_key, their_memory, our_memory));
	CHECK(chunks_are_refused(SGPU_ITEM_SEAL, our_key, our_memory, their_memory));
	sgpu_device_key_free(&our_key);
	sgpu_device_key_free(&their_key);
	CHECK(theirs_is_whole());
}

UNIT_TEST(malformed_groups_are_refused)
{
	uint64_t words[20] = { 0 };
	struct sgpu_error why = { 0 };
	struct sgpu_lane *lane = (struct sgpu_lane *)(void *)our_stream;
	/* Head of an item: kind in the low half, size in the high. */
	static const struct { uint64_t head; size_t size; } cases[] = {
		{ 0, 16 }, { 0, 24 }, { (uint64_t)8 << 32, 24 }, { ((uint64_t)8 << 32) | 99, 24 },
		{ ((uint64_t)40 << 32) | SGPU_ITEM_COPY_IN, 48 }, { ((uint64_t)48 << 32) | SGPU_ITEM_COPY_IN, 64 },
		{ ((uint64_t)12 << 32) | SGPU_ITEM_COPY_IN, 56 }, { ((uint64_t)40 << 32) | SGPU_ITEM_LAUNCH, 160 },
		{ ((uint64_t)144 << 32) | SGPU_ITEM_LAUNCH, 160 }, { ((uint64_t)144 << 32) | SGPU_ITEM_MODULE_LAUNCH, 160 },
		{ ((uint64_t)8 << 32) | SGPU_ITEM_KEY_LOAD, 24 }, { ((uint64_t)8 << 32) | SGPU_ITEM_OPEN, 24 },
		{ ((uint64_t)8 << 32) | SGPU_ITEM_DIGEST, 24 }, { ((uint64_t)8 << 32) | SGPU_ITEM_MODULE_LOAD, 24 },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		memset(words, 0, sizeof(words));
		words[2] = cases[i].head;
		for (size_t k = 3; k < SGPU_ARRAY_LENGTH(words); k++) {
			words[k] = cases[i].head >> 32 == 40 ? 0 : UINT64_MAX;
		}
		if (sgpu_lane_submit(lane, (struct sgpu_group *)(void *)words, cases[i].size, &why) != SGPU_EINVALID) {
			printf("# case %zu: '%s'\n", i, why.text);
			CHECK(!"it was refused");
		}
	}
	CHECK(put(our_stream, our_memory, our_data, SIZE) == SGPU_OK);
}

UNIT_TEST(another_contexts_memory_is_not_measured)
{
	uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE], expected[SGPU_CHANNEL_DIGEST_SIZE];
	struct sgpu_measurement measurement;
	struct sgpu_ground *ground = ours->ground;

	CHECK(sgpu_secure_measure(ours, their_memory, SIZE, false, digest, &error) == SGPU_EUSAGE);
	CHECK(sgpu_secure_memcpy(ours, back, their_memory, SIZE, SGPU_SECURE_TO_HOST, &error) == SGPU_EUSAGE);
	/* And the processor refuses, too. */
	ground->sender = ours;
	CHECK(sgpu_allocator_measure(ground->allocator, ours->first->grant.channel, their_memory - ours->base, SIZE, false,
				     &measurement, &error) != SGPU_OK);
	CHECK(sgpu_secure_measure(theirs, their_memory, SIZE, false, digest, &error) == SGPU_OK);
	sgpu_kt128(their_data, SIZE, SGPU_MEASURE_CUSTOM, sizeof(SGPU_MEASURE_CUSTOM) - 1, expected, sizeof(expected));
	CHECK(!memcmp(digest, expected, sizeof(digest)));
}

UNIT_TEST(contexts_take_turns_and_keep_what_is_theirs)
{
	for (int i = 0; i < 20; i++) {
		fill(our_data, SIZE, (unsigned)i);
		CHECK(put(our_stream, our_memory, our_data, SIZE) == SGPU_OK);
		fill(their_data, SIZE, (unsigned)i + 100);
		CHECK(put(their_stream, their_memory, their_data, SIZE) == SGPU_OK);
		CHECK(get(our_stream, back, our_memory, SIZE) == SGPU_OK && !memcmp(back, our_data, SIZE));
		CHECK(theirs_is_whole());
	}
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
			  sgpu_stream_sync(stream, &why) != SGPU_OK || tasks[0].code || tasks[1].code ||
			  memcmp(data, again, SIZE) != 0;
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
	struct sgpu_secure_config config = { .beside = ours };
	struct sgpu_secure *third = make_context(&config);
	sgpu_devptr memory = 0;

	REQUIRE(third != NULL);
	CHECK(sgpu_secure_malloc(third, 1 << 20, &memory, &error) == SGPU_OK);
	CHECK(sgpu_secure_memcpy(third, our_data, memory, SIZE, SGPU_SECURE_TO_DEVICE, &error) == SGPU_OK);
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
	if (!open_inner() || !(config.beside = ours = make_context(NULL)) || !(theirs = make_context(&config)) ||
	    sgpu_secure_stream_create(ours, &our_stream, &error) || sgpu_secure_stream_create(theirs, &their_stream, &error) ||
	    sgpu_secure_malloc(ours, SIZE, &our_memory, &error) || sgpu_secure_malloc(theirs, SIZE, &their_memory, &error) ||
	    put(our_stream, our_memory, our_data, SIZE) || put(their_stream, their_memory, their_data, SIZE)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(a_group_that_names_memory_of_another_context_is_refused);
	UNIT_RUN(a_key_of_another_context_opens_nothing);
	UNIT_RUN(malformed_groups_are_refused);
	UNIT_RUN(another_contexts_memory_is_not_measured);
	UNIT_RUN(contexts_take_turns_and_keep_what_is_theirs);
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
