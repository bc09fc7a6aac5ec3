/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest and the measure of device memory against those of host memory, on the CPU device or
 * the one of SGPU_TEST_DEVICE.
 */

#include "crypto/crypto.h"
#include "crypto/kt128.h"
#include "device/device.h"
#include "unit.h"
#include "work_calls.h"

#define MIB ((uint64_t)1 << 20)

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static sgpu_devptr memory;
static uint8_t *host; /* what is in the memory */
static uint64_t room;
static bool small; /* sizes for slow tools */

/* Whether the digest of [offset, offset + size) is the one that the host computes. */
static bool agrees(uint64_t offset, uint64_t size)
{
	uint8_t expected[SGPU_KT128_SIZE], digest[SGPU_KT128_SIZE] = { 0 };
	struct sgpu_task task = { 0 };

	sgpu_kt128(host + offset, size, NULL, 0, expected, sizeof(expected));
	if (digest_of(stream, memory + offset, size, digest, &task) != SGPU_OK ||
	    sgpu_stream_sync(stream, NULL) != SGPU_OK || task.code != SGPU_OK) {
		printf("# %llu bytes at %llu: %s\n", (unsigned long long)size,
		       (unsigned long long)offset, task.error.text);
		return false;
	}
	return memcmp(expected, digest, sizeof(digest)) == 0;
}

UNIT_TEST(sizes_around_every_edge)
{
	static const uint64_t edges[] = {
		0,
		1,
		7,
		8,
		9,
		167,
		168,
		169,
		335,
		336,
		4096,
		8063,
		8064,
		8065,
		8182,
		8183,
		8184,
		8189,
		8190,
		8191,
		8192,
		8193,
		8199,
		8200,
		2 * 8192 - 2,
		2 * 8192 - 1,
		2 * 8192,
		2 * 8192 + 1,
		3 * 8192,
		33 * 8192,
		64 * 8192 + 17,
		65 * 8192 - 1,
		65 * 8192,
		66 * 8192 + 100,
		129 * 8192,
	};
	size_t i;

	for (i = 0; i < SGPU_ARRAY_LENGTH(edges); i++) {
		CHECK(agrees(0, edges[i]));
	}
}

UNIT_TEST(every_alignment)
{
	uint64_t offset;

	for (offset = 1; offset < (small ? 9 : 20); offset++) {
		CHECK(agrees(offset, 100 + offset));
		CHECK(agrees(offset, 4 * 8192 + offset));
		CHECK(agrees(offset, 4 * 8192 - offset));
		CHECK(agrees(offset, 4 * 8192));
	}
}

UNIT_TEST(up_to_the_last_byte_of_the_allocation)
{
	uint64_t left;

	for (left = 1; left < 20; left += 3) {
		CHECK(agrees(room - left, left));
		CHECK(agrees(room - 3 * 8192 - left, 3 * 8192 + left));
		CHECK(agrees(room - 3 * 8192 - left, 3 * 8192));
	}
}

UNIT_TEST(large_sizes)
{
	uint64_t size, step = small ? 3 * MIB : 71 * MIB;

	for (size = MIB + 5; size < room; size += step) {
		CHECK(agrees(0, size));
		CHECK(agrees(room - size, size));
	}
	CHECK(agrees(0, room));
}

/* ---- measures ---- */
static bool measures(sgpu_devptr at, const uint8_t *bytes, uint64_t size, const uint8_t *key)
{
	uint8_t expected[SGPU_KT128_SIZE], digest[SGPU_KT128_SIZE] = { 0 };
	struct sgpu_task task = { 0 };

	sgpu_measure_pages(bytes, size, key, expected);
	if (sgpu_device_measure(stream, at, size, key, digest, &task) != SGPU_OK ||
	    sgpu_stream_sync(stream, NULL) != SGPU_OK || task.code != SGPU_OK) {
		printf("# measuring %llu bytes: %s\n", (unsigned long long)size, task.error.text);
		return false;
	}
	return memcmp(expected, digest, sizeof(digest)) == 0;
}

UNIT_TEST(measures_of_sizes_around_chunks_and_pages)
{
	static const uint64_t edges[] = {
		0,
		1,
		7,
		8,
		168,
		8141,
		8142,
		8143,
		8174,
		8175,
		8176,
		8191,
		8192,
		8193,
		16383,
		16384,
		2 * MIB - 8193,
		2 * MIB - 8192,
		2 * MIB - 51,
		2 * MIB - 50,
		2 * MIB - 49,
		2 * MIB - 17,
		2 * MIB - 16,
		2 * MIB - 1,
		2 * MIB,
		2 * MIB + 1,
		2 * MIB + 8192,
		3 * MIB,
		4 * MIB - 1,
		4 * MIB,
		6 * MIB + 100,
		12 * MIB - 3,
		64 * MIB,
		255 * MIB,
		600 * MIB,
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(edges) && edges[i] <= room; i++) {
		CHECK(measures(memory, host, edges[i], NULL));
		CHECK(measures(memory, host, edges[i], host));
	}
}

/* Pages are counted from where the range begins. */
UNIT_TEST(measures_from_any_address)
{
	static const uint64_t offsets[] = { 1, 2, 5, 8, 12, 16, 4096 + 3, MIB };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(offsets); i++) {
		CHECK(measures(memory + offsets[i], host + offsets[i], 100, NULL));
		CHECK(measures(memory + offsets[i], host + offsets[i], 2 * MIB + 8000, NULL));
		CHECK(measures(memory + offsets[i], host + offsets[i], room - offsets[i], NULL));
	}
}

/* What a stream works in for one measure says nothing to the next. */
UNIT_TEST(measures_follow_each_other_in_a_stream)
{
	enum { COUNT = 6 };
	static uint8_t digests[COUNT][SGPU_KT128_SIZE];
	uint8_t expected[SGPU_KT128_SIZE], keys[COUNT][SGPU_KEY_SIZE] = { { 0 } };
	struct sgpu_task tasks[COUNT] = { 0 };
	uint64_t sizes[COUNT] = { room, 9000, 2 * MIB, room - 1, 3 * MIB + 1, 50 };

	for (int i = 0; i < COUNT; i++) {
		keys[i][0] = (uint8_t)i;
		CHECK(sgpu_device_measure(stream, memory, sizes[i], keys[i], digests[i],
					  &tasks[i]) == SGPU_OK);
	}
	REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (int i = 0; i < COUNT; i++) {
		sgpu_measure_pages(host, sizes[i], keys[i], expected);
		CHECK(tasks[i].code == SGPU_OK &&
		      memcmp(expected, digests[i], sizeof(expected)) == 0);
	}
}

UNIT_TEST(several_streams_measure_at_once)
{
	enum { COUNT = 4 };
	static uint8_t digests[COUNT][SGPU_KT128_SIZE];
	struct sgpu_stream *streams[COUNT] = { 0 };
	struct sgpu_task tasks[COUNT] = { 0 };
	uint8_t expected[SGPU_KT128_SIZE];

	for (int i = 0; i < COUNT; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
		CHECK(sgpu_device_measure(streams[i], memory + (uint64_t)i, room / 2, NULL,
					  digests[i], &tasks[i]) == SGPU_OK);
	}
	for (int i = 0; i < COUNT; i++) {
		CHECK(sgpu_stream_sync(streams[i], NULL) == SGPU_OK && tasks[i].code == SGPU_OK);
		sgpu_measure_pages(host + i, room / 2, NULL, expected);
		CHECK(memcmp(expected, digests[i], sizeof(expected)) == 0);
		sgpu_stream_free(&streams[i]);
	}
}

/* A measure of `copies` times the pattern, from its pages' digests. */
static void measure_copies(uint64_t copies, uint8_t digest[SGPU_KT128_SIZE])
{
	static const char custom[] = "sgpu measure v1";
	struct sgpu_kt128 list = { 0 };
	uint8_t page[SGPU_KT128_SIZE];

	for (uint64_t at = 0; at < copies * room; at += SGPU_MEASURE_PAGE) {
		sgpu_kt128(host + at % room, SGPU_MEASURE_PAGE, custom, sizeof(custom) - 1, page,
			   sizeof(page));
		sgpu_kt128_update(&list, page, sizeof(page));
	}
	sgpu_kt128_finish(&list, custom, sizeof(custom) - 1, digest, SGPU_KT128_SIZE);
}

/* 2.3 GiB on a GPU: more than it keeps chaining values of at once. */
UNIT_TEST(a_size_that_is_hashed_in_many_steps)
{
	enum { COPIES = 4 };
	uint8_t expected[SGPU_KT128_SIZE], digest[SGPU_KT128_SIZE] = { 0 };
	struct sgpu_task task = { 0 };
	struct sgpu_kt128 state = { 0 };
	sgpu_devptr large;
	uint64_t i;

	REQUIRE(sgpu_device_alloc(device, COPIES * room, &large, NULL) == SGPU_OK);
	for (i = 0; i < COPIES; i++) {
		CHECK(sgpu_copy_in(stream, large + i * room, host, room, NULL) == SGPU_OK);
		sgpu_kt128_update(&state, host, room - (i == COPIES - 1));
	}
	sgpu_kt128_finish(&state, NULL, 0, expected, sizeof(expected));
	CHECK(digest_of(stream, large, COPIES * room - 1, digest, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	CHECK(memcmp(expected, digest, sizeof(digest)) == 0);
	measure_copies(COPIES, expected);
	CHECK(sgpu_device_measure(stream, large, COPIES * room, NULL, digest, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK);
	CHECK(memcmp(expected, digest, sizeof(digest)) == 0);
	sgpu_device_free(device, &large, COPIES * room);
}

/* Work of one stream runs in order: the digest sees what was written before it, and not what is
 * written after. */
UNIT_TEST(a_digest_is_taken_in_the_order_of_its_stream)
{
	enum { COUNT = 6 };
	static uint8_t digests[COUNT][SGPU_KT128_SIZE];
	uint64_t size = room / 16;
	struct sgpu_task tasks[COUNT] = { 0 };
	uint8_t expected[SGPU_KT128_SIZE], *zeros = calloc(1, size);
	int i;

	REQUIRE(zeros);
	for (i = 0; i < COUNT; i++) {
		CHECK(digest_of(stream, memory, size, digests[i], &tasks[i]) == SGPU_OK);
		if (i % 2 == 0) {
			CHECK(sgpu_device_clear(stream, memory, size, NULL) == SGPU_OK);
		} else {
			CHECK(sgpu_copy_in(stream, memory, host, size, NULL) == SGPU_OK);
		}
	}
	REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (i = 0; i < COUNT; i++) {
		sgpu_kt128(i % 2 == 0 ? host : zeros, size, NULL, 0, expected, sizeof(expected));
		CHECK(tasks[i].code == SGPU_OK && tasks[i].end_ns >= tasks[i].begin_ns);
		CHECK(memcmp(expected, digests[i], sizeof(expected)) == 0);
	}
	free(zeros);
}

UNIT_TEST(several_streams_at_once)
{
	enum { COUNT = 12 };
	static uint8_t digests[COUNT][SGPU_KT128_SIZE];
	struct sgpu_stream *streams[COUNT] = { 0 };
	struct sgpu_task tasks[COUNT] = { 0 };
	uint8_t expected[SGPU_KT128_SIZE];
	uint64_t size = room / 32;
	int i;

	for (i = 0; i < COUNT; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
		CHECK(digest_of(streams[i], memory + (uint64_t)i * 13, size, digests[i],
				&tasks[i]) == SGPU_OK);
	}
	for (i = 0; i < COUNT; i++) {
		CHECK(sgpu_stream_sync(streams[i], NULL) == SGPU_OK && tasks[i].code == SGPU_OK);
		sgpu_kt128(host + (uint64_t)i * 13, size, NULL, 0, expected, sizeof(expected));
		CHECK(memcmp(expected, digests[i], sizeof(expected)) == 0);
		sgpu_stream_free(&streams[i]);
	}
}

UNIT_TEST(what_is_refused)
{
	uint8_t digest[SGPU_KT128_SIZE];
	struct sgpu_task task = { 0 };

	CHECK(digest_of(stream, memory, room + 4096, digest, &task) == SGPU_EUSAGE);
	CHECK(task.code == SGPU_EUSAGE);
	CHECK(digest_of(stream, memory, 1, digest, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_measure(stream, memory + 1, room + 4096, NULL, digest, &task) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_device_measure(stream, memory, 1, NULL, digest, NULL) == SGPU_EUSAGE);
}

static int set_up(void)
{
	const char *selector = getenv("SGPU_TEST_DEVICE");
	struct sgpu_error error;
	uint64_t i, word = 88172645463325252;

	selector = selector && *selector ? selector : "cpu";
	small = getenv("SGPU_TEST_SMALL") != NULL;
	room = small ? 4 * MIB : strcmp(selector, "cpu") == 0 ? 12 * MIB : 600 * MIB;
	if (sgpu_device_open(selector, NULL, &device, &error) != SGPU_OK) {
		printf("1..0 # SKIP no device '%s': %s\n", selector, error.text);
		return 77;
	}
	host = malloc(room);
	if (!host || sgpu_stream_create(device, &stream, &error) != SGPU_OK ||
	    sgpu_device_alloc(device, room, &memory, &error) != SGPU_OK) {
		printf("# cannot start: %s\n", host ? error.text : "no memory");
		return 1;
	}
	for (i = 0; i < room; i += 8) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		memcpy(host + i, &word, 8);
	}
	if (sgpu_copy_in(stream, memory, host, room, NULL) != SGPU_OK ||
	    sgpu_stream_sync(stream, &error) != SGPU_OK) {
		printf("# cannot start: %s\n", error.text);
		return 1;
	}
	return 0;
}

int main(void)
{
	int status = set_up();

	if (status != 0) {
		return status;
	}
	UNIT_RUN(sizes_around_every_edge);
	UNIT_RUN(every_alignment);
	UNIT_RUN(up_to_the_last_byte_of_the_allocation);
	UNIT_RUN(large_sizes);
	UNIT_RUN(measures_of_sizes_around_chunks_and_pages);
	UNIT_RUN(measures_from_any_address);
	UNIT_RUN(measures_follow_each_other_in_a_stream);
	UNIT_RUN(several_streams_measure_at_once);
	UNIT_RUN(a_size_that_is_hashed_in_many_steps);
	UNIT_RUN(a_digest_is_taken_in_the_order_of_its_stream);
	UNIT_RUN(several_streams_at_once);
	UNIT_RUN(what_is_refused);
	sgpu_device_free(device, &memory, room);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	free(host);
	return unit_done();
}
