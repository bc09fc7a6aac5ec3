/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and sealing on a device: the bytes that the host functions give, whatever the number of
 * workers.
 */
#include <stdint.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "device_harness.h"
#include "work_calls.h"

enum { C = SGPU_CHUNK, LARGEST = 100 * C + 77 };
static const uint64_t sizes[] = { 0,	 1,	    C - 1, C,	   C + 1,  7 * C,
				  8 * C, 8 * C + 1, 9 * C, 64 * C, LARGEST };

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
	return fixture->device &&
	       sgpu_stream_create(fixture->device, &fixture->stream, NULL) == SGPU_OK &&
	       sgpu_device_alloc(fixture->device, room, &fixture->in, NULL) == SGPU_OK &&
	       sgpu_device_alloc(fixture->device, room, &fixture->out, NULL) == SGPU_OK &&
	       sgpu_sealed_keys_new(secret, "context", 7, &fixture->keys, NULL) == SGPU_OK &&
	       sgpu_device_key_load(fixture->stream, &fixture->keys, &fixture->key, NULL) ==
		       SGPU_OK;
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

/* Copies `from` in, runs open or seal over it, waits for its end, and copies what came out to
 * result. */
static int round_trip(struct fixture *f, bool open, uint64_t first, bool last, const void *from,
		      uint64_t size, uint64_t out_size, struct sgpu_task *task)
{
	int code;

	memset(task, 0, sizeof(*task));
	memset(result, 0xee, out_size);
	code = sgpu_copy_in(f->stream, f->in + 56, from, size, NULL);
	if (code == SGPU_OK) {
		code = open ? sgpu_device_open_chunks(f->stream, f->key, first, last, f->in + 56,
						      size, f->out, task)
			    : sgpu_device_seal_chunks(f->stream, f->key, first, last, f->in + 56,
						      size, f->out, task);
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

/* By another implementation: key 00 01 ..., base nonce f0 f1 ..., plaintext "sgpu". All bits of the
 * chunk's number are in its nonce, or one would come again after 1 GiB or 64 TiB. */
static const struct {
	uint64_t chunk;
	uint8_t sealed[4 + SGPU_TAG_SIZE];
} vectors[] = {
	{ 0x0u, { 0x1a, 0x61, 0x33, 0x75, 0x9c, 0x4e, 0xe9, 0x63, 0x2d, 0xa6,
		  0x4f, 0x51, 0x0a, 0x69, 0x52, 0xce, 0xb9, 0xf8, 0xf9, 0xf4 } },
	{ 0x1u, { 0x70, 0x22, 0x6d, 0xbc, 0x6c, 0xdc, 0x27, 0x06, 0x0a, 0x01,
		  0xec, 0x31, 0x9d, 0x9f, 0x28, 0x7c, 0x4a, 0x0d, 0x65, 0xdc } },
	{ 0xffffu, { 0x5d, 0xaa, 0x41, 0x66, 0x4e, 0xd2, 0x02, 0xd0, 0x7e, 0x1f,
		     0xd8, 0x3a, 0x1b, 0x10, 0xff, 0x46, 0xd2, 0xcc, 0x78, 0x85 } },
	{ 0x10000u, { 0xe9, 0x9b, 0xd7, 0x8f, 0xe1, 0x0b, 0xef, 0x73, 0xdd, 0x6f,
		      0x01, 0xc1, 0x14, 0xae, 0x27, 0xc9, 0x7a, 0xd3, 0x12, 0x6e } },
	{ 0x10001u, { 0x59, 0x7e, 0xe0, 0x0a, 0xb1, 0x7c, 0x62, 0xaf, 0xf5, 0x15,
		      0x64, 0x48, 0x16, 0xe1, 0xc6, 0x7c, 0xe3, 0xa2, 0xf8, 0x9f } },
	{ 0xffffffffu, { 0x2e, 0xae, 0xa3, 0xb6, 0x53, 0xc8, 0x5c, 0x84, 0x08, 0x5c,
			 0x3b, 0xc3, 0xc3, 0x0f, 0x85, 0x34, 0xfe, 0xfa, 0x5b, 0x30 } },
	{ 0x100000000u, { 0x6b, 0x0d, 0xa7, 0x91, 0x4f, 0x76, 0x8a, 0xda, 0xa1, 0x2e,
			  0xaa, 0x70, 0x15, 0x6e, 0x2c, 0x93, 0x34, 0xbc, 0x22, 0x61 } },
	{ 0x100000001u, { 0xb4, 0x28, 0x0a, 0xc5, 0xdc, 0xbc, 0x1a, 0x02, 0x7e, 0xd2,
			  0xd6, 0xd9, 0x81, 0xb0, 0x16, 0x6e, 0x61, 0x90, 0x43, 0x4f } },
	{ 0x123456789abcdefu, { 0x9d, 0xfd, 0x8e, 0xa7, 0xa1, 0xf0, 0xa5, 0xe2, 0x7b, 0xde,
				0x24, 0x17, 0xff, 0x56, 0x9a, 0x08, 0xc9, 0x10, 0xbb, 0x46 } },
};

UNIT_TEST(every_bit_of_a_chunks_number_is_in_its_nonce)
{
	struct fixture f;
	struct sgpu_task task;
	struct sgpu_aead *aead = NULL;

	REQUIRE(set_up(&f, 2));
	sgpu_device_key_free(&f.key);
	for (unsigned i = 0; i < SGPU_KEY_SIZE; i++) {
		f.keys.key[i] = (uint8_t)i;
	}
	for (unsigned i = 0; i < SGPU_NONCE_SIZE; i++) {
		f.keys.base_nonce[i] = (uint8_t)(0xf0 + i);
	}
	REQUIRE(sgpu_device_key_load(f.stream, &f.keys, &f.key, NULL) == SGPU_OK);
	REQUIRE(sgpu_aead_create(NULL, f.keys.key, &aead, NULL) == SGPU_OK);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(vectors); i++) {
		const uint64_t chunk = vectors[i].chunk, size = sizeof(vectors[i].sealed);
		const uint8_t *expected = vectors[i].sealed;
		uint8_t opened[4];

		CHECK(sgpu_seal_chunks(aead, &f.keys, chunk, true, (const uint8_t *)"sgpu", 4,
				       sealed) == SGPU_OK);
		CHECK(!memcmp(sealed, expected, size));
		CHECK(sgpu_open_chunks(aead, &f.keys, chunk, true, expected, size, opened, NULL) ==
		      SGPU_OK);
		CHECK(round_trip(&f, false, chunk, true, "sgpu", 4, size, &task) == SGPU_OK);
		CHECK(task.code == SGPU_OK && !memcmp(result, expected, size));
		CHECK(round_trip(&f, true, chunk, true, expected, size, 4, &task) == SGPU_OK);
		CHECK(task.code == SGPU_OK && !memcmp(result, "sgpu", 4));
		/* And as the second chunk of a run that begins before. */
		if (chunk) {
			CHECK(round_trip(&f, false, chunk - 1, true, plaintext, C + 4,
					 C + 4 + 2 * SGPU_TAG_SIZE, &task) == SGPU_OK);
			CHECK(sgpu_seal_chunks(aead, &f.keys, chunk, true, plaintext + C, 4,
					       sealed) == SGPU_OK);
			CHECK(task.code == SGPU_OK &&
			      !memcmp(result + C + SGPU_TAG_SIZE, sealed, size));
		}
	}
	sgpu_aead_free(&aead);
	tear_down(&f);
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
			CHECK(round_trip(&f, true, 7, true, sealed, total, LARGEST, &task) ==
			      SGPU_OK);
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
	CHECK(round_trip(&f, true, 0, false, sealed, total, 1, &task) == SGPU_OK &&
	      task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 64 * SGPU_SEALED_CHUNK, 1, &task) == SGPU_OK);
	CHECK(task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, total - 1, 1, &task) == SGPU_OK &&
	      task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 0, 0, &task) == SGPU_OK &&
	      task.code == SGPU_EAUTH);
	CHECK(round_trip(&f, true, 0, true, sealed, 15, 0, &task) == SGPU_OK &&
	      task.code == SGPU_EAUTH);
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
			CHECK(round_trip(&f, true, 0, last, sealed,
					 counts[i] * SGPU_SEALED_CHUNK + rests[k], size + C,
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
	struct sgpu_task task = { 0 };
	struct fixture f;
	sgpu_devptr small;

	REQUIRE(set_up(&f, 1));
	REQUIRE(sgpu_device_alloc(f.device, 100, &small, NULL) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, 85, small, NULL) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, 84, small, NULL) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, false, f.in, 84, small, &task) ==
	      SGPU_EUSAGE);
	CHECK(task.code == SGPU_EUSAGE && task.error.text[0]);
	CHECK(sgpu_device_seal_chunks(f.stream, f.key, 0, true, f.in, UINT64_MAX, small, NULL) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, f.in, 117, small, NULL) ==
	      SGPU_EUSAGE);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, small, 101, f.out, NULL) ==
	      SGPU_EUSAGE);
	/* Whole chunks are written although the rest is too short for a tag. */
	sgpu_device_free(f.device, &small, 100);
	REQUIRE(sgpu_device_alloc(f.device, C - 1, &small, NULL) == SGPU_OK);
	CHECK(sgpu_device_open_chunks(f.stream, f.key, 0, true, f.in, SGPU_SEALED_CHUNK + 5, small,
				      NULL) == SGPU_EUSAGE);
	tear_down(&f);
}

/* A GPU's kernels reach short runs in pinned memory, those of the CPU device all memory. */
UNIT_TEST(memory_of_the_host_is_used_in_place_where_it_is_reached)
{
	struct fixture f;
	struct sgpu_task task = { 0 };
	uint8_t own[64] = { 0 };
	void *pinned = NULL;
	bool gpu;

	REQUIRE(set_up(&f, 1));
	REQUIRE(sgpu_host_alloc(f.device, 4096, &pinned, NULL) == SGPU_OK);
	memset(pinned, 0, 4096);
	gpu = !sgpu_device_reaches(f.device, own, sizeof(own), false);
	CHECK(sgpu_device_reaches(f.device, pinned, 116, true));
	CHECK(sgpu_device_reaches(f.device, pinned, SGPU_REACHED_MAX + 1, false) == !gpu);
	CHECK(open_from(f.stream, f.key, 0, true, own, sizeof(own), f.out, &task) ==
	      (gpu ? SGPU_EUSAGE : SGPU_OK));
	CHECK(sgpu_stream_sync(f.stream, NULL) == SGPU_OK);
	CHECK(task.code == (gpu ? SGPU_EUSAGE : SGPU_EAUTH)); /* of zeros */
	CHECK(seal_to(f.stream, f.key, 0, true, f.in, 16, own, NULL) ==
	      (gpu ? SGPU_EUSAGE : SGPU_OK));
	CHECK(seal_to(f.stream, f.key, 0, true, f.in, 100, pinned, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(f.stream, NULL) == SGPU_OK);
	sgpu_host_free(f.device, &pinned, 4096);
	tear_down(&f);
}

/* ---- several pieces by one call ---- */
enum { PIECES = 70, SMALL = 1000, SMALL_SEALED = SMALL + SGPU_TAG_SIZE };

/* Each piece reads what the one before it wrote: sealed and opened by turns, from `in` to `out` and
 * back. */
static void make_chain(struct fixture *f, struct sgpu_work *work, struct sgpu_task *tasks)
{
	memset(tasks, 0, PIECES * sizeof(*tasks));
	for (int i = 0; i < PIECES; i++) {
		const bool seals = i % 2 == 0;

		work[i] = (struct sgpu_work){ .kind = seals ? SGPU_WORK_SEAL : SGPU_WORK_OPEN,
					      .in = seals ? f->in : f->out,
					      .out = seals ? f->out : f->in,
					      .size = seals ? SMALL : SMALL_SEALED,
					      .key = f->key,
					      .first = (uint64_t)i / 2,
					      .last = true,
					      .task = &tasks[i] };
	}
}

static bool in_is(struct fixture *f, const uint8_t *bytes, sgpu_devptr from, uint64_t size)
{
	return sgpu_copy_out(f->stream, result, from, size, NULL) == SGPU_OK &&
	       sgpu_stream_sync(f->stream, NULL) == SGPU_OK && memcmp(result, bytes, size) == 0;
}

UNIT_TEST(pieces_of_one_call_are_carried_out_in_their_order)
{
	struct sgpu_work work[PIECES];
	struct sgpu_task tasks[PIECES];
	struct fixture f;

	REQUIRE(set_up(&f, 2));
	make_chain(&f, work, tasks);
	CHECK(sgpu_copy_in(f.stream, f.in, plaintext, SMALL, NULL) == SGPU_OK);
	CHECK(sgpu_enqueue(f.stream, work, PIECES) == SGPU_OK);
	CHECK(in_is(&f, plaintext, f.in, SMALL));
	CHECK(host_seal(&f, (PIECES - 1) / 2, true, SMALL) == SMALL_SEALED);
	CHECK(in_is(&f, sealed, f.out, SMALL_SEALED));
	for (int i = 0; i < PIECES; i++) {
		CHECK(tasks[i].code == SGPU_OK && tasks[i].end_ns > 0);
	}
	CHECK(sgpu_enqueue(f.stream, work, 0) == SGPU_OK);
	tear_down(&f);
}

UNIT_TEST(a_piece_that_does_not_verify_fails_alone)
{
	struct sgpu_work work[3];
	struct sgpu_task tasks[3];
	struct fixture f;

	REQUIRE(set_up(&f, 1));
	(void)host_seal(&f, 0, true, SMALL);
	for (uint64_t i = 0; i < 3; i++) {
		tasks[i] = (struct sgpu_task){ 0 };
		sealed[7] ^= i > 0; /* only the second one differs */
		work[i] = (struct sgpu_work){ .kind = SGPU_WORK_OPEN,
					      .in = f.in + i * SMALL_SEALED,
					      .out = f.out + i * SMALL,
					      .size = SMALL_SEALED,
					      .key = f.key,
					      .last = true,
					      .task = &tasks[i] };
		CHECK(sgpu_copy_in(f.stream, work[i].in, sealed, SMALL_SEALED, NULL) == SGPU_OK &&
		      sgpu_stream_sync(f.stream, NULL) == SGPU_OK);
	}
	CHECK(sgpu_enqueue(f.stream, work, 3) == SGPU_OK);
	CHECK(in_is(&f, plaintext, f.out, SMALL) && in_is(&f, plaintext, f.out + 2 * SMALL, SMALL));
	CHECK(tasks[0].code == SGPU_OK && tasks[1].code == SGPU_EAUTH && tasks[2].code == SGPU_OK);
	memset(sealed, 0, SMALL);
	CHECK(in_is(&f, sealed, f.out + SMALL, SMALL));
	tear_down(&f);
}

/* A range that is not allocated, an argument that no device takes. */
UNIT_TEST(a_piece_that_is_refused_ends_the_call_and_its_task_tells_why)
{
	static const int places[] = { 0, 1, 31, 32, 40, PIECES - 1 };
	struct sgpu_work work[PIECES];
	struct sgpu_task tasks[PIECES];
	struct fixture f;

	REQUIRE(set_up(&f, 2));
	for (size_t i = 0; i < 2 * SGPU_ARRAY_LENGTH(places); i++) {
		const int at = places[i / 2];
		struct sgpu_work *bad = &work[at];

		make_chain(&f, work, tasks);
		if (i % 2 == 0) {
			bad->in = 16;
		} else {
			*bad = (struct sgpu_work){ .kind = SGPU_WORK_DIGEST, .in = f.in };
		}
		CHECK(sgpu_copy_in(f.stream, f.in, plaintext, SMALL, NULL) == SGPU_OK);
		CHECK(sgpu_enqueue(f.stream, work, PIECES) == SGPU_EUSAGE);
		CHECK(sgpu_stream_sync(f.stream, NULL) == SGPU_OK);
		for (int k = 0; k < PIECES; k++) {
			CHECK((k < at) == (tasks[k].end_ns > 0));
			CHECK(tasks[k].code == (k == at && i % 2 == 0 ? SGPU_EUSAGE : SGPU_OK));
		}
		CHECK(i % 2 == 1 || strstr(tasks[at].error.text, "not allocated"));
	}
	tear_down(&f);
}

UNIT_TEST(keys_that_are_loaded_together_are_each_their_own)
{
	enum { KEYS = 5 };
	struct sgpu_sealed_keys material[KEYS];
	struct sgpu_device_key *keys[KEYS];
	struct sgpu_task task;
	struct fixture f;

	REQUIRE(set_up(&f, 1));
	for (int i = 0; i < KEYS; i++) {
		REQUIRE(sgpu_sealed_keys_new(secret, "context", 7, &material[i], NULL) == SGPU_OK);
	}
	REQUIRE(sgpu_device_keys_load(f.stream, material, KEYS, keys, NULL) == SGPU_OK);
	sgpu_device_key_free(&f.key);
	sgpu_device_key_free(&keys[1]);
	for (int i = KEYS - 1; i >= 0; i -= 2) {
		f.keys = material[i];
		f.key = keys[i];
		CHECK(host_seal(&f, 0, true, SMALL) == SMALL_SEALED);
		CHECK(round_trip(&f, true, 0, true, sealed, SMALL_SEALED, SMALL, &task) == SGPU_OK);
		CHECK(task.code == SGPU_OK && memcmp(result, plaintext, SMALL) == 0);
	}
	f.key = NULL;
	for (int i = 0; i < KEYS; i++) {
		sgpu_device_key_free(&keys[i]);
		CHECK(!keys[i]);
		sgpu_device_key_free(&keys[i]);
	}
	tear_down(&f);
}

int main(void)
{
	DEVICE_OR_SKIP();
	UNIT_RUN(one_worker_gives_the_bytes_of_the_host);
	UNIT_RUN(several_workers_give_the_bytes_of_the_host);
	UNIT_RUN(every_bit_of_a_chunks_number_is_in_its_nonce);
	UNIT_RUN(a_failed_open_names_the_chunk_and_leaves_no_plaintext);
	UNIT_RUN(the_end_mark_is_demanded_and_refused);
	UNIT_RUN(a_run_that_was_cut_short_leaves_nothing_either);
	UNIT_RUN(ranges_are_checked_for_what_the_chunks_need);
	UNIT_RUN(memory_of_the_host_is_used_in_place_where_it_is_reached);
	UNIT_RUN(pieces_of_one_call_are_carried_out_in_their_order);
	UNIT_RUN(a_piece_that_does_not_verify_fails_alone);
	UNIT_RUN(a_piece_that_is_refused_ends_the_call_and_its_task_tells_why);
	UNIT_RUN(keys_that_are_loaded_together_are_each_their_own);
	return unit_done();
}
