/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and sealing on a device: the bytes that the host functions give, whatever the number of workers.
 */
#include <stdint.h>

#include <sgpu/device.h>

#include "device_harness.h"

enum { C = SGPU_CHUNK, LARGEST = 100 * C + 77 };
static const uint64_t sizes[] = { 0, 1, C - 1, C, C + 1, 7 * C, 8 * C, 8 * C + 1, 9 * C, 64 * C, LARGEST };

static const uint8_t secret[SGPU_KEY_SIZE] = { 1, 2, 3 };
static uint8_t *plaintext, *sealed, *result;

struct fixture {
	struct sgpu_device *device;
	struct sgpu_stream *stream;
	sgpu_devptr in, out;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key;
};

static bool set_up(struct fixture *fixture, unsigned jobs)
{
	uint64_t room = LARGEST + 200 * SGPU_TAG_SIZE, i;

	memset(fixture, 0, sizeof(*fixture));
	plaintext = malloc(room);
	sealed = malloc(room);
	result = malloc(room);
	for (i = 0; i < room; i++) {
		plaintext[i] = (uint8_t)(i * 11 + i / 253);
	}
	fixture->device = open_test_device(jobs, 0);
	return fixture->device && sgpu_stream_create(fixture->device, &fixture->stream, NULL) == SGPU_OK &&
	       sgpu_device_alloc(fixture->device, room, &fixture->in, NULL) == SGPU_OK &&
	       sgpu_device_alloc(fixture->device, room, &fixture->out, NULL) == SGPU_OK &&
	       sgpu_sealed_keys_new(secret, "context", 7, &fixture->keys, NULL) == SGPU_OK &&
	       sgpu_device_key_load(fixture->stream, &fixture->keys, &fixture->key, NULL) == SGPU_OK;
}

static void tear_down(struct fixture *fixture)
{
	sgpu_stream_free(&fixture->stream);
	sgpu_device_key_free(&fixture->key);
	sgpu_device_close(&fixture->device);
	free(plaintext);
	free(sealed);
	free(result);
}

/* Copies `from` in, runs open or seal over it, waits for its end, and copies what came out to result. */
static int round_trip(struct fixture *f, bool open, uint64_t first, bool last, const void *from, uint64_t size,
		      uint64_t out_size, struct sgpu_task *task)
{
	int code;

	memset(task, 0, sizeof(*task));
	memset(result, 0xee, out_size);
	code = sgpu_copy_in(f->stream, f->in + 56, from, size, NULL);
	if (code == SGPU_OK) {
		code = open ? sgpu_device_open_chunks(f->stream, f->key, first, last, f->in + 56, size, f->out, task)
			    : sgpu_device_seal_chunks(f->stream, f->key, first, last, f->in + 56, size, f->out, task);
	}
	if (code == SGPU_OK) {
		code = sgpu_stream_sync(f->stream, NULL);
	}
	if (code == SGPU_OK) {
		code = sgpu_copy_out(f->stream, result, f->out, out_size, NULL);
	}
	return code == SGPU_OK ? sgpu_stream_sync(f->stream, NULL) : code;
}

static uint64_t host_seal(struct fixture *f, uint64_t first, bool last, uint64_t size)
{
	struct sgpu_aead *aead = NULL;

	CHECK(sgpu_aead_create(NULL, f->keys.key, &aead, NULL) == SGPU_OK);
	CHECK(sgpu_seal_chunks(aead, &f->keys, first, last, plaintext, size, sealed) == SGPU_OK);
	sgpu_aead_free(&aead);
	return size + (size / C + last) * SGPU_TAG_SIZE;
}

static void same_bytes(unsigned jobs)
{
	struct fixture f;
	struct sgpu_task task;
	uint64_t total;
	size_t i;

	REQUIRE(set_up(&f, jobs));
	for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		total = host_seal(&f, 5, true, sizes[i]);
		CHECK(round_trip(&f, false, 5, true, plaintext, sizes[i], total, &task) == SGPU_OK);
		CHECK(task.code == SGPU_OK && memcmp(result, sealed, total) == 0);
		CHECK(round_trip(&f, true, 5, true, sealed, total, sizes[i], &task) == SGPU_OK);
		CHECK(task.code == SGPU_OK && memcmp(result, plaintext, sizes[i]) == 0);
		CHECK(task.begin_ns > 0 && task.end_ns >= task.begin_ns);
	}
	/* A run without the end. */
	total = host_seal(&f, 0, false, 40 * C);
	CHECK(round_trip(&f, false, 0, false, plaintext, 40 * C, total, &task) == SGPU_OK);
	CHECK(task.code == SGPU_OK && memcmp(result, sealed, total) == 0);
	CHECK(round_trip(&f, true, 0, false, sealed, total, 40 * C, &task) == SGPU_OK);
	CHECK(task.code == SGPU_OK && memcmp(result, plaintext, 40 * C) == 0);
	tear_down(&f);
}

UNIT_TEST(one_worker_gives_the_bytes_of_the_host)
{
	same_bytes(1);
}

UNIT_TEST(several_workers_give_the_bytes_of_the_host)
{
	same_bytes(5);
}

UNIT_TEST(a_failed_open_names_the_chunk_and_leaves_no_plaintext)
{
	static const uint64_t bad[] = { 0, 3, 50, 99, 100 };
	struct fixture f;
	struct sgpu_task task;
	uint64_t total, i, k;
	unsigned jobs;

	for (jobs = 1; jobs <= 4; jobs += 3) {
		REQUIRE(set_up(&f, jobs));
		for (i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
			total = host_seal(&f, 7, true, LARGEST);
			sealed[bad[i] * SGPU_SEALED_CHUNK + 20] ^= 1;
			sealed[100 * SGPU_SEALED_CHUNK + 20] ^= 1;
			sealed[100 * SGPU_SEALED_CHUNK + 21] ^= 1;
			CHECK(round_trip(&f, true, 7, true, sealed, total, LARGEST, &task) == SGPU_OK);
			CHECK(task.code == SGPU_EAUTH && task.error.code == SGPU_EAUTH);
			CHECK(task.bad_chunk == 7 + bad[i]);
			for (k = 0; k < LARGEST && result[k] == 0; k++) {
			}
			CHECK(k == LARGEST);
		}
		tear_down(&f);
	}
}

UNIT_TEST(the_end_mark_is_demanded_and_refused)
{
	struct fixture f;
	struct sgpu_task task;
	uint64_t total;

	REQUIRE(set_up(&f, 3));
	total = host_seal(&f, 0, true, 64 * C + 5);
	CHECK(round_trip(&f, true, 0, false, sealed, total, 1, &task) == SGPU_OK && task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 64 * SGPU_SEALED_CHUNK, 1, &task) == SGPU_OK);
	CHECK(task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, total - 1, 1, &task) == SGPU_OK && task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 0, 0, &task) == SGPU_OK && task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 15, 0, &task) == SGPU_OK && task.code == SGPU_EAUTH);
	tear_down(&f);
}

/* A rest that is shorter than a tag comes after whole chunks that verify. */
UNIT_TEST(a_run_that_was_cut_short_leaves_nothing_either)
{
	static const uint64_t counts[] = { 1, 7, 40 };
	static const uint64_t rests[] = { 1, 5, SGPU_TAG_SIZE - 1, SGPU_TAG_SIZE };
	struct fixture f;
	struct sgpu_task task;
	size_t i, k;

	REQUIRE(set_up(&f, 3));
	for (i = 0; i < SGPU_ARRAY_LENGTH(counts); i++) {
		uint64_t size = counts[i] * C, at;

		for (k = 0; k < SGPU_ARRAY_LENGTH(rests); k++) {
			bool last = rests[k] < SGPU_TAG_SIZE;

			(void)host_seal(&f, 0, true, size + 20);
			memset(result, 0xee, size + C);
			CHECK(sgpu_copy_in(f.stream, f.out, result, size + C, NULL) == SGPU_OK);
			CHECK(sgpu_stream_sync(f.stream, NULL) == SGPU_OK);
			CHECK(round_trip(&f, true, 0, last, sealed, counts[i] * SGPU_SEALED_CHUNK + rests[k], size + C,
					 &task) == SGPU_OK);
			CHECK(task.code == SGPU_EAUTH && task.bad_chunk == counts[i]);
			for (at = 0; at < size && result[at] == 0; at++) {
			}
			CHECK(at == size && result[size] == 0xee);
		}
	}
	tear_down(&f);
}

UNIT_TEST(ranges_are_checked_for_what_the_chunks_need)
{
	struct fixture f;
	sgpu_devptr small;

	REQUIRE(set_up(&f, 1));
	REQUIRE(sgpu_device_alloc(f.device, 100, &small, NULL) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, 85, small, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, 84, small, NULL) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, false, f.in, 84, small, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, UINT64_MAX, small, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, f.in, 117, small, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, small, 101, f.out, NULL) == SGPU_EUSAGE);
	/* Whole chunks are written although the rest is too short for a tag. */
	sgpu_device_free(f.device, &small, 100);
	REQUIRE(sgpu_device_alloc(f.device, C - 1, &small, NULL) == SGPU_OK);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, f.in, SGPU_SEALED_CHUNK + 5, small, NULL) ==
	      SGPU_EUSAGE);
	tear_down(&f);
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(one_worker_gives_the_bytes_of_the_host);
	UNIT_RUN(several_workers_give_the_bytes_of_the_host);
	UNIT_RUN(a_failed_open_names_the_chunk_and_leaves_no_plaintext);
	UNIT_RUN(the_end_mark_is_demanded_and_refused);
	UNIT_RUN(a_run_that_was_cut_short_leaves_nothing_either);
	UNIT_RUN(ranges_are_checked_for_what_the_chunks_need);
	return unit_done();
}
