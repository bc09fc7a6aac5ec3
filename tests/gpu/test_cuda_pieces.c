/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that are loaded together, and pieces of work that one kernel opens or seals: the bytes that
 * the host gives, a verdict for each piece, and nothing left of a piece that does not verify.
 */
#include <stdint.h>

#include "crypto/crypto.h"
#include "cuda_harness.h"
#include "work_calls.h"

static void free_keys(struct sgpu_device_key **list, int number)
{
	for (int i = 0; i < number; i++) {
		sgpu_device_key_free(&list[i]);
	}
}

enum { C = SGPU_CHUNK, KEYS_MAX = 300, PIECES = 45, ROOM = SGPU_REACHED_MAX + 64 };

static const uint64_t sizes[] = { 0, 1, C, 12 * C - 192, 100, 2047, 2 * C + 1 };
static bool small; /* under a checker: little of everything */
static struct sgpu_sealed_keys material[KEYS_MAX];
static struct sgpu_device_key *keys[KEYS_MAX];
static uint8_t data[ROOM], expected[ROOM], got[ROOM];

static bool load(int count)
{
	for (int i = 0; i < count; i++) {
		if (sgpu_random(material[i].key, SGPU_KEY_SIZE, NULL) != SGPU_OK ||
		    sgpu_random(material[i].base_nonce, SGPU_NONCE_SIZE, NULL) != SGPU_OK) {
			return false;
		}
	}
	return sgpu_device_keys_load(stream, material, count, keys, NULL) == SGPU_OK;
}

static uint64_t seal(int key, uint64_t first, uint64_t size)
{
	struct sgpu_aead *aead = NULL;

	CHECK(sgpu_aead_create(NULL, material[key].key, &aead, NULL) == SGPU_OK);
	CHECK(sgpu_seal_chunks(aead, &material[key], first, true, data, size, expected) == SGPU_OK);
	sgpu_aead_free(&aead);
	return sgpu_run_sealed_size(size, true);
}

static bool fetch(sgpu_devptr from, uint64_t size)
{
	return sgpu_copy_out(stream, got, from, size, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK;
}

static bool put(sgpu_devptr to, const void *bytes, uint64_t size)
{
	return sgpu_copy_in(stream, to, bytes, size, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK;
}

/* ---- keys ---- */
enum { SIZE = 100, SEALED = SIZE + SGPU_TAG_SIZE };

/* Seals with each key by one call, and opens what came of it by another, but for some of it, of
 * which a bit is changed. */
static void use_each(int count, sgpu_devptr plain, sgpu_devptr memory)
{
	static struct sgpu_task tasks[2][KEYS_MAX];
	static struct sgpu_work work[2][KEYS_MAX];
	const uint8_t changed = 0xff;

	memset(tasks, 0, sizeof(tasks));
	for (int i = 0; i < count; i++) {
		const sgpu_devptr at = memory + (uint64_t)i * 2 * SEALED;

		work[0][i] = (struct sgpu_work){ .kind = SGPU_WORK_SEAL,
						 .in = plain,
						 .out = at,
						 .size = SIZE,
						 .key = keys[i],
						 .last = true,
						 .task = &tasks[0][i] };
		work[1][i] = (struct sgpu_work){ .kind = SGPU_WORK_OPEN,
						 .in = at,
						 .out = at + SEALED,
						 .size = SEALED,
						 .key = keys[i],
						 .last = true,
						 .task = &tasks[1][i] };
	}
	REQUIRE(sgpu_enqueue(stream, work[0], count) == SGPU_OK);
	for (int i = 0; i < count; i++) {
		CHECK(fetch(work[0][i].out, SEALED) && tasks[0][i].code == SGPU_OK);
		CHECK(seal(i, 0, SIZE) == SEALED && memcmp(got, expected, SEALED) == 0);
		CHECK(i % 7 != 3 || got[i % SEALED] == changed ||
		      put(work[0][i].out + (uint64_t)(i % SEALED), &changed, 1));
	}
	REQUIRE(sgpu_enqueue(stream, work[1], count) == SGPU_OK);
	for (int i = 0; i < count; i++) {
		CHECK(fetch(work[1][i].out - SEALED, 2 * SEALED));
		CHECK(seal(i, 0, SIZE) == SEALED);
		if (memcmp(got, expected, SEALED) == 0) {
			CHECK(tasks[1][i].code == SGPU_OK && !memcmp(got + SEALED, data, SIZE));
		} else {
			CHECK(i % 7 == 3 && tasks[1][i].code == SGPU_EAUTH &&
			      tasks[1][i].bad_chunk == 0 && all_are(got + SEALED, SIZE, 0));
		}
	}
}

UNIT_TEST(keys_that_are_loaded_together_are_each_their_own)
{
	static const int counts[] = { 1, 2, 31, 32, 33, 256, 257, 300 };
	sgpu_devptr plain = 0, memory = 0;

	REQUIRE(begin());
	REQUIRE(sgpu_device_alloc(device, SIZE, &plain, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, KEYS_MAX * 2 * SEALED, &memory, NULL) == SGPU_OK);
	CHECK(put(plain, data, SIZE));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(counts); i += small ? 4 : 1) {
		const int count = counts[i];

		REQUIRE(load(count));
		use_each(count, plain, memory);
		/* Some alone, the others at once. */
		for (int k = 0; k < count; k += 3) {
			sgpu_device_key_free(&keys[k]);
		}
		free_keys(keys, count);
	}
	sgpu_device_free(device, &plain, SIZE);
	sgpu_device_free(device, &memory, KEYS_MAX * 2 * SEALED);
	finish();
}

UNIT_TEST(keys_are_used_on_other_streams_before_they_are_set_up)
{
	struct sgpu_stream *loader = NULL, *user = stream;
	sgpu_devptr plain = 0, memory = 0;

	REQUIRE(begin() && sgpu_stream_create(device, &loader, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, SIZE, &plain, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, KEYS_MAX * 2 * SEALED, &memory, NULL) == SGPU_OK);
	CHECK(put(plain, data, SIZE));
	for (int i = 0; i < (small ? 2 : 50); i++) {
		user = stream;
		stream = loader;
		REQUIRE(load(40));
		stream = user;
		use_each(40, plain, memory);
		free_keys(keys, 40);
		REQUIRE(load(3)); /* never used */
		free_keys(keys, 3);
	}
	sgpu_device_free(device, &plain, SIZE);
	sgpu_device_free(device, &memory, KEYS_MAX * 2 * SEALED);
	sgpu_stream_free(&loader);
	finish();
}

/* ---- pieces ---- */
enum state { RIGHT, CHANGED, CUT, STATES };

struct piece {
	uint64_t size;
	enum state state;
	sgpu_devptr in, out;
	uint8_t *host; /* or NULL */
	struct sgpu_task task;
};

/* Pieces of all sizes, in device memory and in the host's, at all alignments. */
static void make_piece(int i, int round, sgpu_devptr memory, uint8_t *pinned, struct piece *piece,
		       struct sgpu_work *work)
{
	const uint64_t total = seal(i % 4, (uint64_t)i, sizes[(i + round) % 7]);
	const enum state state = (enum state)(round == 0 ? RIGHT : (i * 5 + round) % 4 % STATES);
	const uint64_t skew = (uint64_t)(i * 3 % 16);

	*piece = (struct piece){ .size = sizes[(i + round) % 7],
				 .state = state,
				 .in = memory + 2 * (uint64_t)i * ROOM,
				 .out = memory + (2 * (uint64_t)i + 1) * ROOM + skew,
				 .host = i % 3 == 0 ? pinned + (uint64_t)i * ROOM + skew / 2
						    : NULL };
	expected[total - 1] ^= state == CHANGED;
	memset(got, 0xee, ROOM - 16);
	CHECK(put(piece->out, got, ROOM - 16));
	CHECK(put(piece->in, expected, total));
	if (piece->host) {
		memcpy(piece->host, expected, total);
	}
	*work = (struct sgpu_work){ .kind = piece->host ? SGPU_WORK_OPEN_FROM : SGPU_WORK_OPEN,
				    .in = piece->host ? 0 : piece->in,
				    .from = piece->host,
				    .out = piece->out,
				    .size = total - (state == CUT),
				    .key = keys[i % 4],
				    .first = (uint64_t)i,
				    .last = true,
				    .task = &piece->task };
}

static void check_piece(int i, const struct piece *piece)
{
	CHECK(fetch(piece->out, piece->size + 16));
	CHECK(all_are(got + piece->size, 16, 0xee));
	if (piece->state == RIGHT) {
		CHECK(piece->task.code == SGPU_OK && memcmp(got, data, piece->size) == 0);
	} else {
		CHECK(piece->task.code == SGPU_EAUTH);
		CHECK(piece->task.bad_chunk == (uint64_t)i + piece->size / C);
		CHECK(all_are(got, piece->size - (piece->state == CUT && piece->size % C > 0), 0));
	}
}

UNIT_TEST(good_and_bad_pieces_of_one_kernel_have_each_their_verdict)
{
	static struct piece pieces[PIECES];
	struct sgpu_work work[PIECES];
	const int count = small ? 8 : PIECES;
	sgpu_devptr memory = 0;
	void *pinned = NULL;

	REQUIRE(begin() && load(4));
	REQUIRE(sgpu_device_alloc(device, 2 * PIECES * (uint64_t)ROOM, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_host_alloc(device, PIECES * (uint64_t)ROOM, &pinned, NULL) == SGPU_OK);
	for (int round = 0; round < (small ? 2 : 8); round++) {
		for (int i = 0; i < count; i++) {
			make_piece(i, round, memory, pinned, &pieces[i], &work[i]);
		}
		CHECK(sgpu_enqueue(stream, work, count) == SGPU_OK);
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		for (int i = 0; i < count; i++) {
			check_piece(i, &pieces[i]);
		}
	}
	free_keys(keys, 4);
	sgpu_device_free(device, &memory, 2 * PIECES * (uint64_t)ROOM);
	sgpu_host_free(device, &pinned, PIECES * (uint64_t)ROOM);
	finish();
}

UNIT_TEST(pieces_of_one_kernel_seal_to_the_host_what_the_host_seals)
{
	struct sgpu_task tasks[PIECES] = { { 0 } };
	struct sgpu_work work[PIECES];
	const int count = small ? 8 : PIECES;
	sgpu_devptr memory = 0;
	void *pinned = NULL;

	REQUIRE(begin() && load(4));
	REQUIRE(sgpu_device_alloc(device, ROOM, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_host_alloc(device, PIECES * (uint64_t)ROOM, &pinned, NULL) == SGPU_OK);
	memset(pinned, 0xee, PIECES * (uint64_t)ROOM);
	CHECK(put(memory, data, ROOM));
	for (int i = 0; i < count; i++) {
		work[i] = (struct sgpu_work){ .kind = SGPU_WORK_SEAL_TO,
					      .in = memory,
					      .to = (uint8_t *)pinned + (uint64_t)i * ROOM + i % 16,
					      .size = sizes[i % 7],
					      .key = keys[i % 4],
					      .first = (uint64_t)i << 31,
					      .last = true,
					      .task = &tasks[i] };
	}
	CHECK(sgpu_enqueue(stream, work, count) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (int i = 0; i < count; i++) {
		const uint64_t total = seal(i % 4, (uint64_t)i << 31, sizes[i % 7]);

		CHECK(tasks[i].code == SGPU_OK && memcmp(work[i].to, expected, total) == 0);
		CHECK(all_are((uint8_t *)work[i].to + total, 16, 0xee));
	}
	free_keys(keys, 4);
	sgpu_device_free(device, &memory, ROOM);
	sgpu_host_free(device, &pinned, PIECES * (uint64_t)ROOM);
	finish();
}

int main(void)
{
	CUDA_OR_SKIP();
	small = getenv("SGPU_TEST_SMALL") != NULL;
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)(i * 7 + i / 251);
	}
	UNIT_RUN(keys_that_are_loaded_together_are_each_their_own);
	UNIT_RUN(keys_are_used_on_other_streams_before_they_are_set_up);
	UNIT_RUN(good_and_bad_pieces_of_one_kernel_have_each_their_verdict);
	UNIT_RUN(pieces_of_one_kernel_seal_to_the_host_what_the_host_seals);
	return unit_done();
}
