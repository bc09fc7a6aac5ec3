/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure copies, on the device that SGPU_TEST_DEVICE names: the bytes that arrive, what is left of
 * a copy that fails, and that the engine works afterwards. Its kernels are those of test_cuda_aead:
 * racecheck has nothing to find.
 */
#include <stdatomic.h>
#include <stdint.h>

#include <transfer/engine.h>

#include "crypto/crypto.h"
#include "device_harness.h"
#include "fake_backend.h"

/* A checker has several bytes for each. */
enum { CHUNKS = UNIT_SANITIZED ? 310 : 900 };
enum { C = SGPU_CHUNK, LARGEST = CHUNKS * C + 77, OFFSET = 3 };
enum { ROOM = LARGEST + 1000 * SGPU_TAG_SIZE };
static uint8_t plaintext[ROOM], arrived[ROOM];

static const uint64_t sizes[] = { 0,	  1,	   16,		C - 1,	C,
				  C + 1,  2 * C,   5 * C + 3,	32 * C, 33 * C - 1,
				  64 * C, 129 * C, 300 * C + 5, LARGEST };

/* Small chunk runs, so that there are many of them. */
static const struct sgpu_engine_config small = { .workers = 3,
						 .direct_run = 64 * C,
						 .direct_count = 2,
						 .staged_run = 40 * C,
						 .last_run = 8 * C,
						 .pinned_max = 256 * C };
static const struct sgpu_engine_config alone = { .workers = 1,
						 .direct_run = 16 * C,
						 .direct_count = 1,
						 .staged_run = 8 * C,
						 .last_run = C,
						 .pinned_max = C };

static const uint8_t secret[SGPU_KEY_SIZE] = { 7, 7, 1 };

struct fixture {
	struct sgpu_device *device;
	struct sgpu_stream *stream, *copies;
	struct sgpu_engine *engine;
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key;
	struct sgpu_live_key *live;
	struct sgpu_aead *aead;
	sgpu_devptr memory;
	void *sealed, *sealed_again; /* from sgpu_host_alloc */
};

/* A device that does wrong: the real one's table with other functions in it. */
static const struct sgpu_device_backend *real;
static struct fake_backend wrong;

static int create_wrong(struct sgpu_device *device, struct sgpu_stream **stream,
			struct sgpu_error *error)
{
	int rc = real->stream->create(device, stream, error);

	if (rc == SGPU_OK) {
		fake_backend_give(*stream, &wrong);
	}
	return rc;
}

static void be_wrong(struct sgpu_device *device)
{
	real = sgpu_device_backend_of(device);
	fake_backend_copy(&wrong, real);
	wrong.stream.create = create_wrong;
	fake_backend_give(device, &wrong);
}

static bool open_fixture(struct fixture *f, const struct sgpu_engine_config *config, bool is_wrong)
{
	memset(f, 0, sizeof(*f));
	f->device = open_test_device(2, 0);
	if (f->device && is_wrong) {
		be_wrong(f->device);
	}
	return f->device && sgpu_stream_create(f->device, &f->stream, NULL) == SGPU_OK &&
	       sgpu_stream_create(f->device, &f->copies, NULL) == SGPU_OK &&
	       sgpu_engine_create(f->device, config, &f->engine, NULL) == SGPU_OK &&
	       sgpu_device_alloc(f->device, ROOM, &f->memory, NULL) == SGPU_OK &&
	       sgpu_host_alloc(f->device, ROOM, &f->sealed, NULL) == SGPU_OK &&
	       sgpu_host_alloc(f->device, ROOM, &f->sealed_again, NULL) == SGPU_OK &&
	       sgpu_sealed_keys_new(secret, "", 0, &f->keys, NULL) == SGPU_OK &&
	       sgpu_aead_create(NULL, f->keys.key, &f->aead, NULL) == SGPU_OK &&
	       sgpu_device_key_load(f->stream, &f->keys, &f->key, NULL) == SGPU_OK &&
	       sgpu_live_key_load(f->engine, &f->live, NULL) == SGPU_OK;
}

static bool set_up(struct fixture *f, const struct sgpu_engine_config *config)
{
	return open_fixture(f, config, false);
}

static void tear_down(struct fixture *f)
{
	sgpu_live_key_free(&f->live);
	sgpu_engine_free(&f->engine);
	sgpu_device_key_free(&f->key);
	sgpu_aead_free(&f->aead);
	sgpu_host_free(f->device, &f->sealed, ROOM);
	sgpu_host_free(f->device, &f->sealed_again, ROOM);
	sgpu_device_free(f->device, &f->memory, ROOM);
	sgpu_stream_free(&f->stream);
	sgpu_stream_free(&f->copies);
	sgpu_device_close(&f->device);
}

static void to_device(struct fixture *f, const void *from, uint64_t size)
{
	CHECK(sgpu_copy_in(f->stream, f->memory, from, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(f->stream, NULL) == SGPU_OK);
}

static void from_device(struct fixture *f, uint64_t size)
{
	CHECK(sgpu_copy_out(f->stream, arrived, f->memory, size, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(f->stream, NULL) == SGPU_OK);
}

/* Spoils the device's memory, so that what was there before is not taken for a result. */
static void spoil(struct fixture *f)
{
	memset(arrived, 0xee, ROOM);
	to_device(f, arrived, ROOM);
}

static bool all(const uint8_t *data, uint64_t size, uint8_t value)
{
	return size == 0 || (data[0] == value && memcmp(data, data + 1, size - 1) == 0);
}

/* On the host, with the library's own function. */
static uint64_t seal(struct fixture *f, uint64_t first, bool last, uint64_t size)
{
	CHECK(sgpu_seal_chunks(f->aead, &f->keys, first, last, plaintext, size, f->sealed) ==
	      SGPU_OK);
	return size + (size / C + last) * SGPU_TAG_SIZE;
}

/* Begins a transfer and waits for its end. */
static int move(struct fixture *f, struct sgpu_transfer_request request,
		struct sgpu_transfer_result *result)
{
	struct sgpu_transfer_result own;
	struct sgpu_transfer *transfer = NULL;

	result = result ? result : &own;
	memset(result, 0, sizeof(*result));
	request.copy = f->copies;
	request.crypt = f->stream;
	result->code = sgpu_transfer_begin(f->engine, &request, &transfer, &result->error);
	if (result->code == SGPU_OK) {
		*result = *sgpu_transfer_wait(transfer);
		sgpu_transfer_free(&transfer);
	}
	return result->code;
}

/* Sealed at rest, from and to memory that the device reaches by itself. */
static int in_sealed_at(struct fixture *f, uint64_t first, bool last, const void *sealed,
			uint64_t size, sgpu_devptr to, struct sgpu_transfer_result *result)
{
	const struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_IN,
		.key = f->key,
		.first = first,
		.last = last,
		.memory = to,
		.size = size,
		.end = { .memory = (uint8_t *)(uintptr_t)sealed, .registered = true },
	};

	return move(f, request, result);
}

static int out_sealed_at(struct fixture *f, uint64_t first, bool last, sgpu_devptr from,
			 uint64_t size, void *sealed, struct sgpu_transfer_result *result)
{
	const struct sgpu_transfer_request request = {
		.direction = SGPU_TRANSFER_OUT,
		.key = f->key,
		.first = first,
		.last = last,
		.memory = from,
		.size = size,
		.end = { .memory = (uint8_t *)(uintptr_t)sealed, .registered = true },
	};

	return move(f, request, result);
}

static void check_in(struct fixture *f, int code, uint64_t size)
{
	from_device(f, ROOM);
	CHECK(code == SGPU_OK);
	CHECK(all(arrived, OFFSET, 0xee));
	CHECK(memcmp(arrived + OFFSET, plaintext, size) == 0);
	CHECK(all(arrived + OFFSET + size, ROOM - OFFSET - size, 0xee));
}

static void in_sealed(struct fixture *f, uint64_t first, bool last, uint64_t size)
{
	struct sgpu_transfer_result task;
	uint64_t total = seal(f, first, last, size);

	spoil(f);
	int code = in_sealed_at(f, first, last, f->sealed, total, f->memory + OFFSET, &task);

	check_in(f, code, size);
	CHECK(task.code == SGPU_OK && task.begin_ns > 0 && task.end_ns >= task.begin_ns);
}

static void out_sealed(struct fixture *f, uint64_t first, bool last, uint64_t size)
{
	uint64_t total = seal(f, first, last, size);

	to_device(f, plaintext, size);
	memset(f->sealed_again, 0xee, ROOM);
	CHECK(out_sealed_at(f, first, last, f->memory, size, f->sealed_again, NULL) == 0);
	CHECK(memcmp(f->sealed, f->sealed_again, total) == 0);
	CHECK(all((uint8_t *)f->sealed_again + total, ROOM - total, 0xee));
}

static void in_live(struct fixture *f, uint64_t size)
{
	struct sgpu_transfer_result task;

	spoil(f);
	check_in(f, sgpu_live_in(f->live, plaintext, size, f->memory + OFFSET, &task), size);
	CHECK(task.code == SGPU_OK && task.begin_ns > 0 && task.end_ns >= task.begin_ns);
}

/* How many of the sizes: a checker takes long for the largest, which other tests have. */
static size_t size_count(void)
{
	return SGPU_ARRAY_LENGTH(sizes) - (getenv("SGPU_TEST_SMALL") ? 1 : 0);
}

static void sealed_at_rest(const struct sgpu_engine_config *config)
{
	struct fixture f;

	REQUIRE(set_up(&f, config));
	for (size_t i = 0; i < size_count(); i++) {
		in_sealed(&f, 5, true, sizes[i]);
		out_sealed(&f, 5, true, sizes[i]);
	}
	for (uint64_t chunks = 0; chunks <= 200; chunks += 40) {
		in_sealed(&f, 1000, false, chunks * C);
		out_sealed(&f, 1000, false, chunks * C);
	}
	tear_down(&f);
}

static void sealed_live(const struct sgpu_engine_config *config)
{
	struct fixture f;

	REQUIRE(set_up(&f, config));
	for (size_t i = 0; i < size_count(); i++) {
		in_live(&f, sizes[i]);
	}
	tear_down(&f);
}

UNIT_TEST(what_is_sealed_at_rest_arrives)
{
	sealed_at_rest(&small);
}

UNIT_TEST(what_is_sealed_live_arrives)
{
	sealed_live(&small);
}

UNIT_TEST(what_is_sealed_live_arrives_without_threads)
{
	sealed_live(&alone);
}

UNIT_TEST(what_is_sealed_live_arrives_with_the_standard_sizes)
{
	struct fixture f;

	REQUIRE(set_up(&f, NULL));
	in_sealed(&f, 0, true, LARGEST);
	out_sealed(&f, 0, true, LARGEST);
	in_live(&f, LARGEST);
	tear_down(&f);
}

/* ---- a device that does wrong ---- */
static atomic_int countdown; /* copies that go well before one is altered */

static int alter_one_in(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if ((work->kind == SGPU_WORK_COPY_IN || work->kind == SGPU_WORK_OPEN_FROM) &&
	    work->size > 0 && countdown-- == 0) {
		((uint8_t *)(uintptr_t)work->from)[work->size / 2] ^= 0x10;
	}
	return real->stream->enqueue(stream, work, 1);
}
FAKE_ENQUEUE(alter_in, alter_one_in)

static bool set_up_wrong(struct fixture *f)
{
	return open_fixture(f, &small, true);
}

UNIT_TEST(what_is_altered_on_the_bus_is_found)
{
	struct fixture f;
	struct sgpu_transfer_result task;

	REQUIRE(set_up_wrong(&f));
	/* As many runs as there are; half of the first one has 10 chunks, or 16. */
	for (int after = 0; after < (UNIT_SANITIZED ? 10 : 17);
	     after += getenv("SGPU_TEST_SMALL") ? 9 : 3) {
		wrong.stream.enqueue = alter_in;
		spoil(&f);
		countdown = after;
		CHECK(sgpu_live_in(f.live, plaintext, LARGEST, f.memory, &task) == SGPU_EAUTH);
		CHECK(task.bad_chunk <= CHUNKS &&
		      (after > 0 || task.bad_chunk == (UNIT_SANITIZED ? 10 : 16)) &&
		      task.error.text[0]);
		wrong.stream.enqueue = real->stream->enqueue;
		from_device(&f, ROOM);
		CHECK(all(arrived, LARGEST, 0) && all(arrived + LARGEST, ROOM - LARGEST, 0xee));
	}
	in_live(&f, LARGEST);
	tear_down(&f);
}

/* What crossed the bus first, of each copy. */
enum { CAUGHT = 6 };
static uint8_t caught[CAUGHT][256];
static atomic_int caught_count; /* workers copy, too */

static void catch (const void *from, uint64_t size)
{
	const int at = size >= sizeof(caught[0]) ? atomic_exchange(&caught_count, -1) : -1;

	if (at >= 0) {
		memcpy(caught[at], from, sizeof(caught[0]));
	}
}

/* The next number that no chunk has had. */
static uint64_t next_number;
static bool is_repeated;

/* Where kernels reach the host's memory, little is opened from there without a copy. */
static int catch_one_in(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	if (work->kind == SGPU_WORK_OPEN || work->kind == SGPU_WORK_OPEN_FROM) {
		is_repeated |= work->first < next_number;
		next_number =
			work->first + (work->size + SGPU_SEALED_CHUNK - 1) / SGPU_SEALED_CHUNK;
	}
	if (work->kind == SGPU_WORK_COPY_IN || work->kind == SGPU_WORK_OPEN_FROM) {
		catch (work->from, work->size);
	}
	return real->stream->enqueue(stream, work, 1);
}
FAKE_ENQUEUE(catch_in, catch_one_in)

/* Sealed text of the same plaintext under the same nonce would be the same. */
UNIT_TEST(no_two_live_copies_use_a_nonce_twice)
{
	struct sgpu_transfer_result task;
	struct fixture f;

	REQUIRE(set_up_wrong(&f));
	next_number = 0;
	wrong.stream.enqueue = catch_in;
	for (int i = 0; i < CAUGHT; i++) {
		caught_count = i;
		if (i == 2) { /* one that fails has used its nonces, too */
			CHECK(sgpu_live_in(f.live, plaintext, LARGEST, f.memory + ROOM - C,
					   &task) == SGPU_EUSAGE);
		} else {
			CHECK(sgpu_live_in(f.live, plaintext, 3 * C, f.memory, &task) == SGPU_OK);
		}
		for (int k = 0; k < i; k++) {
			CHECK(memcmp(caught[k], caught[i], sizeof(caught[0])) != 0);
		}
		CHECK(caught_count == -1);
	}
	CHECK(!is_repeated && next_number > 0);
	wrong.stream.enqueue = real->stream->enqueue;
	tear_down(&f);
}

static int reached, alone_count; /* work in the host's memory; and of these, where nobody else is */

static int note_one(struct sgpu_stream *stream, const struct sgpu_work *work)
{
	reached += work->kind >= SGPU_WORK_OPEN_FROM;
	alone_count += work->kind >= SGPU_WORK_OPEN_FROM && work->alone;
	return real->stream->enqueue(stream, work, 1);
}
FAKE_ENQUEUE(note_alone, note_one)

/* The client may change what lies in a lease while it is opened. */
UNIT_TEST(memory_of_the_caller_is_not_taken_for_memory_that_nobody_changes)
{
	struct fixture f;
	uint64_t total;

	REQUIRE(set_up_wrong(&f));
	wrong.stream.enqueue = note_alone;
	reached = alone_count = 0;
	total = seal(&f, 0, true, 3 * C);
	CHECK(in_sealed_at(&f, 0, true, f.sealed, total, f.memory, NULL) == SGPU_OK);
	CHECK(out_sealed_at(&f, 0, true, f.memory, 3 * C, f.sealed, NULL) == SGPU_OK);
	CHECK(alone_count == 0);
	reached = alone_count = 0;
	in_live(&f, 3 * C); /* through a staging buffer */
	CHECK(alone_count == reached);
	wrong.stream.enqueue = real->stream->enqueue;
	tear_down(&f);
}

/* A thread that copies to its own part of the memory, again and again. */
struct copier {
	struct fixture *f;
	uint64_t at, size;
	int failed;
};

static void *copy_live(void *argument)
{
	struct sgpu_transfer_result result;
	struct copier *c = argument;

	for (int i = 0; i < 10; i++) {
		c->failed += sgpu_live_in(c->f->live, plaintext, c->size, c->f->memory + c->at,
					  &result) != SGPU_OK;
	}
	return NULL;
}

UNIT_TEST(live_copies_of_many_threads_take_turns)
{
	enum { THREADS = 3 };
	struct copier copiers[THREADS];
	pthread_t threads[THREADS];
	struct fixture f;

	REQUIRE(set_up(&f, &alone));
	spoil(&f);
	for (int i = 0; i < THREADS; i++) {
		copiers[i] =
			(struct copier){ &f, (uint64_t)i * 50 * C, (uint64_t)(1 + 23 * i) * C, 0 };
		CHECK(pthread_create(&threads[i], NULL, copy_live, &copiers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], NULL) == 0 && copiers[i].failed == 0);
	}
	from_device(&f, ROOM);
	for (int i = 0; i < THREADS; i++) {
		const uint8_t *at = arrived + copiers[i].at;

		CHECK(memcmp(at, plaintext, copiers[i].size) == 0);
		CHECK(all(at + copiers[i].size, 50 * C - copiers[i].size, 0xee));
	}
	tear_down(&f);
}

int main(void)
{
	DEVICE_OR_SKIP();
	for (uint64_t i = 0; i < ROOM; i++) {
		plaintext[i] = (uint8_t)(i * 13 + i / 251 + i / 16384);
	}
	UNIT_RUN(what_is_sealed_at_rest_arrives);
	UNIT_RUN(what_is_sealed_live_arrives);
	UNIT_RUN(what_is_sealed_live_arrives_without_threads);
	UNIT_RUN(what_is_sealed_live_arrives_with_the_standard_sizes);
	UNIT_RUN(what_is_altered_on_the_bus_is_found);
	UNIT_RUN(no_two_live_copies_use_a_nonce_twice);
	UNIT_RUN(memory_of_the_caller_is_not_taken_for_memory_that_nobody_changes);
	UNIT_RUN(live_copies_of_many_threads_take_turns);
	return unit_done();
}
