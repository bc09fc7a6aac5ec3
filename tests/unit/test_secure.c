/* SPDX-License-Identifier: Apache-2.0
 *
 * A secure context as a device: memory, launches, and its figures.
 */
#include "channel_check.h"
#include "secure_harness.h"

#include <device/backend.h>

enum { MIB = 1 << 20 };

static struct sgpu_secure *context;
static struct sgpu_device *device;
static struct sgpu_stream *stream;

static struct sgpu_secure_stats stats(void)
{
	struct sgpu_secure_stats s;

	sgpu_secure_get_stats(context, &s);
	return s;
}

UNIT_TEST(it_tells_what_it_is)
{
	struct sgpu_device_info plain, info;
	struct sgpu_secure_stats s = stats();

	REQUIRE(sgpu_device_get_info(inner, &plain, &error) == SGPU_OK);
	REQUIRE(sgpu_device_get_info(device, &info, &error) == SGPU_OK);
	CHECK(!plain.secure && info.secure && !strcmp(plain.name, info.name) &&
	      !strcmp(plain.selector, info.selector));
	CHECK(info.memory_total > 0 && info.memory_total <= plain.memory_total);
	CHECK(s.commands > 0 && s.refused == 0);
}

UNIT_TEST(what_is_not_one_allocation_is_refused_at_once)
{
	struct sgpu_device_range range;
	struct sgpu_task task = { 0 };
	uint8_t byte[64] = { 0 };
	sgpu_devptr a = 0;
	uint64_t before = stats().requests;

	REQUIRE(sgpu_device_alloc(device, 100, &a, &error) == SGPU_OK);
	CHECK(sgpu_copy_in(stream, a + 50, byte, 51, &task) == SGPU_EUSAGE &&
	      strstr(task.error.text, "not allocated"));
	CHECK(sgpu_copy_in(stream, a + 101, byte, 0, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_out(stream, byte, a - 1, 2, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_copy_out(stream, byte, a, UINT64_MAX, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_clear(stream, 4096, 1, NULL) == SGPU_EUSAGE);
	range = (struct sgpu_device_range){ a, 101 };
	CHECK(sgpu_device_launch_on(stream, NULL, NULL, &range, 1, &task) == SGPU_EUSAGE);
	CHECK(stats().requests == before);
	CHECK(sgpu_copy_in(stream, a + 36, byte, 64, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, &error) == SGPU_OK);
	sgpu_device_free(device, &a, 100);
	CHECK(sgpu_copy_in(stream, a, byte, 1, NULL) == SGPU_EUSAGE);
}

/* ---- memory ---- */
UNIT_TEST(memory_is_zero_when_it_is_given_out_again)
{
	static const uint64_t sizes[] = { 1, 4096, 5000, 100000, MIB, 4 * MIB + 1 };
	uint8_t *data = malloc(5 * MIB);

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
			sgpu_devptr memory = 0;

			REQUIRE(sgpu_device_alloc(device, sizes[i], &memory, &error) == SGPU_OK);
			CHECK(get(stream, data, memory, sizes[i]) == SGPU_OK &&
			      all_zero(data, sizes[i]));
			memset(data, 0xa5, sizes[i]);
			CHECK(put(stream, memory, data, sizes[i]) == SGPU_OK);
			sgpu_device_free(device, &memory, sizes[i]);
			CHECK(memory == 0);
		}
	}
	free(data);
}

UNIT_TEST(memory_from_the_pool_needs_no_command)
{
	struct sgpu_secure_stats before, after;
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_device_alloc(device, 4 * MIB, &memory, &error) == SGPU_OK);
	sgpu_device_free(device, &memory, 4 * MIB);
	before = stats();
	for (int i = 0; i < 20; i++) {
		CHECK(sgpu_device_alloc(device, 4 * MIB, &memory, &error) == SGPU_OK);
		CHECK(stats().used_bytes == before.used_bytes + 4 * MIB);
		sgpu_device_free(device, &memory, 4 * MIB);
	}
	after = stats();
	CHECK(after.commands == before.commands && after.mapped_bytes == before.mapped_bytes);
	CHECK(after.used_bytes == before.used_bytes);
}

UNIT_TEST(no_bytes_are_memory_as_well)
{
	sgpu_devptr a = 0, b = 0;

	CHECK(sgpu_device_alloc(device, 0, &a, &error) == SGPU_OK &&
	      sgpu_device_alloc(device, 0, &b, &error) == SGPU_OK);
	CHECK(a != 0 && b != 0 && a != b);
	CHECK(sgpu_copy_in(stream, a, "", 0, NULL) == SGPU_OK &&
	      sgpu_copy_in(stream, a, "x", 1, NULL) == SGPU_EUSAGE);
	sgpu_device_free(device, &a, 0);
	sgpu_device_free(device, &b, 0);
}

UNIT_TEST(too_much_is_out_of_memory_and_leaves_the_rest_as_it_was)
{
	struct sgpu_device_info info;
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_device_get_info(device, &info, &error) == SGPU_OK);
	CHECK(sgpu_device_alloc(device, UINT64_MAX, &memory, &error) == SGPU_ENOMEM);
	CHECK(strstr(error.text, "out of device memory: 18446744073709551615 bytes asked for") !=
	      NULL);
	CHECK(sgpu_device_alloc(device, 2 * info.memory_total, &memory, &error) == SGPU_ENOMEM &&
	      memory == 0);
	CHECK(strstr(error.text, "out of device memory") != NULL);
	CHECK(sgpu_device_alloc(device, 100, &memory, &error) == SGPU_OK);
	sgpu_device_free(device, &memory, 100);
}

/* The device keeps pages that were mapped, so what counts is all that ever were. */
UNIT_TEST(a_limit_of_the_device_that_is_set_later_holds_for_a_context)
{
	struct sgpu_device_config config = { .jobs = 1 };
	struct sgpu_device *own = NULL, *limited;
	struct sgpu_secure *other = NULL;
	struct sgpu_device_info info;
	sgpu_devptr one = 0, two = 0;

	CPU_ONLY("its pages are small");
	REQUIRE(sgpu_device_open(test_device(), &config, &own, &error) == SGPU_OK);
	REQUIRE(sgpu_secure_create(own, NULL, &other, &error) == SGPU_OK);
	limited = sgpu_secure_device(other);
	sgpu_device_set_limit(limited, 8 * MIB);
	REQUIRE(sgpu_device_get_info(limited, &info, &error) == SGPU_OK);
	CHECK(info.memory_total == 8 * MIB && info.memory_free == 8 * MIB);
	CHECK(sgpu_device_alloc(limited, 5 * MIB, &one, &error) == SGPU_OK);
	CHECK(sgpu_device_alloc(limited, 4 * MIB, &two, &error) == SGPU_ENOMEM && two == 0);
	sgpu_device_free(limited, &one, 5 * MIB);
	CHECK(sgpu_device_alloc(limited, 8 * MIB, &one, &error) == SGPU_OK);
	sgpu_device_free(limited, &one, 8 * MIB);
	CHECK(sgpu_device_alloc(limited, 8 * MIB + 1, &one, &error) == SGPU_ENOMEM);
	/* In small blocks, too, and they come back whole. */
	for (int i = 0; i < 4; i++) {
		CHECK(sgpu_device_alloc(limited, 3 * MIB, &one, &error) == SGPU_OK);
		CHECK(sgpu_device_alloc(limited, 4096, &two, &error) == SGPU_OK);
		sgpu_device_free(limited, &one, 3 * MIB);
		sgpu_device_free(limited, &two, 4096);
	}
	sgpu_device_set_limit(limited, 2 * MIB); /* what the context has it keeps */
	CHECK(sgpu_device_alloc(limited, 16 * MIB, &one, &error) == SGPU_ENOMEM);
	CHECK(sgpu_device_alloc(limited, 2 * MIB, &one, &error) == SGPU_OK);
	sgpu_device_free(limited, &one, 2 * MIB);
	sgpu_device_set_limit(limited, 0);
	CHECK(sgpu_device_alloc(limited, 16 * MIB, &one, &error) == SGPU_OK);
	sgpu_device_free(limited, &one, 16 * MIB);
	sgpu_secure_destroy(&other);
	sgpu_device_close(&own);
	/* All that is free, in one block. */
	config.memory_limit = 16 * MIB;
	REQUIRE(sgpu_device_open(test_device(), &config, &own, &error) == SGPU_OK);
	REQUIRE(sgpu_secure_create(own, NULL, &other, &error) == SGPU_OK);
	limited = sgpu_secure_device(other);
	REQUIRE(sgpu_device_get_info(limited, &info, &error) == SGPU_OK);
	CHECK(sgpu_device_alloc(limited, info.memory_free, &one, &error) == SGPU_OK);
	sgpu_device_free(limited, &one, info.memory_free);
	sgpu_secure_destroy(&other);
	sgpu_device_close(&own);
}

/* Two would give out the same frames. */
UNIT_TEST(a_device_has_one_processor)
{
	struct sgpu_secure *second = NULL;

	CHECK(sgpu_secure_create(inner, NULL, &second, &error) == SGPU_EUSAGE && !second);
	CHECK(strstr(error.text, "another processor") != NULL);
}

UNIT_TEST(trimming_gives_pages_back_and_they_come_again_as_zero)
{
	struct sgpu_secure_stats before, after;
	uint8_t *data = malloc(8 * MIB);
	sgpu_devptr memory = 0;

	memset(data, 0x5a, 8 * MIB);
	REQUIRE(sgpu_device_alloc(device, 8 * MIB, &memory, &error) == SGPU_OK);
	CHECK(put(stream, memory, data, 8 * MIB) == SGPU_OK);
	sgpu_device_free(device, &memory, 8 * MIB);
	before = stats();
	CHECK(sgpu_secure_trim(context, &error) == SGPU_OK);
	after = stats();
	CHECK(after.mapped_bytes < before.mapped_bytes && after.commands > before.commands &&
	      after.refused == 0);
	CHECK(sgpu_secure_trim(context, &error) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 8 * MIB, &memory, &error) == SGPU_OK);
	/* whole pages, and no more; a GPU's are not counted here */
	CHECK(!on_cpu() || stats().mapped_bytes == after.mapped_bytes + 8 * MIB);
	CHECK(get(stream, data, memory, 8 * MIB) == SGPU_OK && all_zero(data, 8 * MIB));
	sgpu_device_free(device, &memory, 8 * MIB);
	CHECK(sgpu_processor_check(sgpu_secure_processor(context), &error) == SGPU_OK);
	free(data);
}

/* ---- requests ---- */
static int add_one(struct sgpu_launch *launch, void *argument)
{
	uint8_t *data = argument;

	(void)launch;
	for (int i = 0; i < 1000; i++) {
		data[i]++;
	}
	launch->status[1] = 77;
	return SGPU_OK;
}

UNIT_TEST(a_launch_names_what_it_touches)
{
	uint8_t data[1000], back[1000];
	struct sgpu_device_range range = { 0, 1000 };
	struct sgpu_task task = { 0 };

	CPU_ONLY("the kernel is the host's");
	fill(data, 1000, 3);
	REQUIRE(sgpu_device_alloc(device, 1000, &range.address, &error) == SGPU_OK);
	CHECK(put(stream, range.address, data, 1000) == SGPU_OK);
	CHECK(sgpu_device_launch_on(stream, add_one, (void *)(uintptr_t)range.address, &range, 1,
				    &task) == SGPU_OK);
	CHECK(get(stream, back, range.address, 1000) == SGPU_OK && task.code == SGPU_OK &&
	      task.actual == 77);
	for (int i = 0; i < 1000; i++) {
		CHECK(back[i] == (uint8_t)(data[i] + 1));
	}
	sgpu_device_free(device, &range.address, 1000);
}

UNIT_TEST(of_several_pieces_those_before_a_foreign_range_are_carried_out)
{
	static const uint8_t zeros[3 * 64];
	const uint64_t before = stats().requests;
	struct sgpu_task tasks[3] = { 0 };
	struct sgpu_work work[3];
	uint8_t data[sizeof(zeros)], back[sizeof(zeros)];
	sgpu_devptr memory = 0;

	REQUIRE(sgpu_device_alloc(device, sizeof(data), &memory, &error) == SGPU_OK);
	fill(data, sizeof(data), 6);
	for (uint64_t i = 0; i < 3; i++) {
		work[i] = (struct sgpu_work){ .kind = SGPU_WORK_COPY_IN,
					      .out = memory + 64 * i,
					      .from = data + 64 * i,
					      .size = 64,
					      .task = &tasks[i] };
	}
	CHECK(sgpu_enqueue(stream, work, 3) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, &error) == SGPU_OK);
	CHECK(stats().requests == before + 1);
	work[0].from = work[1].from = work[2].from = zeros;
	work[1].out = memory + sizeof(data) + (64 << 20);
	memset(tasks, 0, sizeof(tasks));
	CHECK(sgpu_enqueue(stream, work, 3) == SGPU_EUSAGE);
	memset(data, 0, 64);
	CHECK(get(stream, back, memory, sizeof(back)) == SGPU_OK &&
	      !memcmp(back, data, sizeof(back)));
	CHECK(tasks[0].code == SGPU_OK && tasks[1].code == SGPU_EUSAGE && tasks[0].end_ns > 0 &&
	      tasks[2].end_ns == 0);
	sgpu_device_free(device, &memory, sizeof(data));
}

int main(void)
{
	DEVICE_OR_SKIP();
	if (!open_inner() || !(context = make_context(NULL))) {
		printf("Bail out! no secure context\n");
		return 1;
	}
	device = sgpu_secure_device(context);
	if (sgpu_stream_create(device, &stream, &error) != SGPU_OK) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	UNIT_RUN(it_tells_what_it_is);
	UNIT_RUN(what_is_not_one_allocation_is_refused_at_once);
	UNIT_RUN(memory_is_zero_when_it_is_given_out_again);
	UNIT_RUN(memory_from_the_pool_needs_no_command);
	UNIT_RUN(no_bytes_are_memory_as_well);
	UNIT_RUN(too_much_is_out_of_memory_and_leaves_the_rest_as_it_was);
	UNIT_RUN(a_limit_of_the_device_that_is_set_later_holds_for_a_context);
	UNIT_RUN(a_device_has_one_processor);
	UNIT_RUN(trimming_gives_pages_back_and_they_come_again_as_zero);
	UNIT_RUN(a_launch_names_what_it_touches);
	UNIT_RUN(of_several_pieces_those_before_a_foreign_range_are_carried_out);
	sgpu_stream_free(&stream);
	sgpu_secure_destroy(&context);
	sgpu_device_close(&inner);
	return unit_done();
}
