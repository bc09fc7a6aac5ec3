/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM on the GPU: the bytes that the host gives, for every size, offset and alignment;
 * every tag is looked at; published vectors.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "crypto/crypto.h"
#include "device/device.h"
#include "unit.h"
#include "vectors.h"
#include "work_calls.h"

enum { C = SGPU_CHUNK, MARGIN = 64 };

static struct sgpu_device *device;
static struct sgpu_stream *stream;
static bool small;    /* under a checker: little of everything */
static uint64_t room; /* plaintext bytes that the buffers have room for */
static sgpu_devptr plain, sealed;
static uint8_t *data, *expected, *got;
static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t sealed_bytes(uint64_t size, bool last)
{
	return size + (size / C + last) * SGPU_TAG_SIZE;
}

static void random_keys(struct sgpu_sealed_keys *keys)
{
	memset(keys, 0, sizeof(*keys));
	for (int i = 0; i < SGPU_KEY_SIZE; i++) {
		keys->key[i] = (uint8_t)next_random();
	}
	for (int i = 0; i < SGPU_NONCE_SIZE; i++) {
		keys->base_nonce[i] = (uint8_t)next_random();
	}
}

static bool host_seal(const struct sgpu_sealed_keys *keys, uint64_t first, bool last, uint64_t size)
{
	struct sgpu_aead *aead = NULL;
	bool done = sgpu_aead_create(NULL, keys->key, &aead, NULL) == SGPU_OK &&
		    sgpu_seal_chunks(aead, keys, first, last, data, size, expected) == SGPU_OK;

	sgpu_aead_free(&aead);
	return done;
}

/* Copies out what is at `from` with a margin, and looks whether it is `bytes` and the margin
 * untouched. */
static bool holds(sgpu_devptr from, const uint8_t *bytes, uint64_t size)
{
	bool same = sgpu_copy_out(stream, got, from, size + MARGIN, NULL) == SGPU_OK &&
		    sgpu_stream_sync(stream, NULL) == SGPU_OK &&
		    (size == 0 || memcmp(got, bytes, size) == 0);

	for (int i = 0; i < MARGIN; i++) {
		same = same && got[size + i] == 0xee;
	}
	return same;
}

static bool poison(sgpu_devptr at, uint64_t size)
{
	memset(got, 0xee, size);
	return sgpu_copy_in(stream, at, got, size, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK;
}

/* Seals on the device and compares, opens that and compares. */
static bool agree(uint64_t first, bool last, uint64_t size, unsigned in_skew, unsigned out_skew)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key = NULL;
	struct sgpu_task seal = { 0 }, open = { 0 };
	uint64_t total = sealed_bytes(size, last);
	bool good;

	random_keys(&keys);
	good = host_seal(&keys, first, last, size) && poison(sealed, total + out_skew + MARGIN) &&
	       sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK &&
	       sgpu_copy_in(stream, plain + in_skew, data, size, NULL) == SGPU_OK &&
	       sgpu_device_seal_chunks(stream, key, first, last, plain + in_skew, size,
				       sealed + out_skew, &seal) == SGPU_OK &&
	       holds(sealed + out_skew, expected, total) && seal.code == SGPU_OK;
	good = good && poison(plain, size + in_skew + MARGIN) &&
	       sgpu_device_open_chunks(stream, key, first, last, sealed + out_skew, total,
				       plain + in_skew, &open) == SGPU_OK &&
	       holds(plain + in_skew, data, size) && open.code == SGPU_OK;
	if (!good) {
		printf("# size %llu first %llu last %d skew %u %u: codes %d %d\n",
		       (unsigned long long)size, (unsigned long long)first, last, in_skew, out_skew,
		       seal.code, open.code);
	}
	sgpu_device_key_free(&key);
	return good;
}

UNIT_TEST(sizes_around_blocks_rows_and_chunks_agree_with_the_host)
{
	static const uint64_t sizes[] = { 0,	  1,
					  15,	  16,
					  17,	  31,
					  32,	  496,
					  511,	  512,
					  513,	  1024,
					  8191,	  16368,
					  16369,  16383,
					  16384,  16385,
					  32768,  5 * C + 777,
					  16 * C, 31 * C + 16383,
					  33 * C, 64 * C + 5 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i += small ? 9 : 1) {
		CHECK(agree(0, true, sizes[i], 0, 0));
		CHECK(agree(0, true, sizes[i], 8, 0));
		CHECK(agree(1, true, sizes[i], 3, 13));
	}
	for (uint64_t chunks = 1; chunks < (small ? 4 : 40); chunks += 3) {
		CHECK(agree(chunks << 33 | 7, false, chunks * C, 0, 0));
	}
}

UNIT_TEST(random_sizes_offsets_and_alignments_agree_with_the_host)
{
	for (int i = 1; i < (small ? 4 : 150); i++) {
		uint64_t r = next_random(), size = r % (i % 10 ? 40 * C : room - MARGIN - 16);
		bool last = r >> 62 & 1;

		size = last ? size : size / C * C;
		CHECK(agree(next_random() >> (r >> 50 & 31), last, size, r >> 40 & 15,
			    r >> 44 & 15));
	}
}

/* Enough for one chunk a warp on every multiprocessor, and some more, split. */
UNIT_TEST(a_run_larger_than_the_device_agrees_with_the_host)
{
	if (small) {
		SKIP("too slow for a checker");
	}
	CHECK(agree(0, true, room - MARGIN - 16, 0, 0));
	CHECK(agree(0, true, room / C / 2 * C + 4095, 0, 0));
}

static void change_anywhere(uint64_t chunks)
{
	const uint64_t size = chunks * C + 1000, total = sealed_bytes(size, true);
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key = NULL;

	random_keys(&keys);
	REQUIRE(host_seal(&keys, 5, true, size));
	REQUIRE(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	for (uint64_t i = 0; i < 200; i += small ? 67 : 1) {
		uint64_t at = i <= chunks ? i * SGPU_SEALED_CHUNK + (i < chunks ? C : 1000) + i % 16
					  : next_random() % total;
		uint8_t was = expected[at];
		struct sgpu_task task = { 0 };

		expected[at] ^= (uint8_t)(1u << i % 8);
		REQUIRE(poison(plain, size));
		REQUIRE(sgpu_copy_in(stream, sealed, expected, total, NULL) == SGPU_OK);
		REQUIRE(sgpu_device_open_chunks(stream, key, 5, true, sealed, total, plain,
						&task) == SGPU_OK);
		REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		CHECK(task.code == SGPU_EAUTH && task.bad_chunk == 5 + at / SGPU_SEALED_CHUNK);
		expected[at] = was;
		if (i % 20 == 0) {
			memset(got, 0xee, size);
			REQUIRE(sgpu_copy_out(stream, got, plain, size, NULL) == SGPU_OK);
			REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
			CHECK(got[0] == 0 && memcmp(got, got + 1, size - 1) == 0);
		}
	}
	sgpu_device_key_free(&key);
}

UNIT_TEST(a_change_anywhere_names_its_chunk_and_leaves_nothing)
{
	change_anywhere(37);
	change_anywhere(9); /* few enough to be spread over multiprocessors */
}

/* ---- short runs in the host's memory ---- */
static bool agree_in_place(uint8_t *host, uint64_t first, bool last, uint64_t size, unsigned skew)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key = NULL;
	struct sgpu_task seal = { 0 }, open = { 0 };
	const uint64_t total = sealed_bytes(size, last);
	bool good;

	random_keys(&keys);
	memset(host, 0xee, total + skew + MARGIN);
	good = host_seal(&keys, first, last, size) &&
	       sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK &&
	       sgpu_device_reaches(device, host + skew, total, true) &&
	       sgpu_copy_in(stream, plain, data, size, NULL) == SGPU_OK &&
	       seal_to(stream, key, first, last, plain, size, host + skew, &seal) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK && seal.code == SGPU_OK &&
	       memcmp(host + skew, expected, total) == 0;
	for (unsigned i = 0; i < MARGIN; i++) {
		good = good && host[skew + total + i] == 0xee && (i >= skew || host[i] == 0xee);
	}
	good = good && poison(plain, size + MARGIN) &&
	       open_from(stream, key, first, last, host + skew, total, plain, &open) == SGPU_OK &&
	       holds(plain, data, size) && open.code == SGPU_OK;
	if (good && size > 0) {
		host[skew + next_random() % total] ^= 0x10;
		good = poison(plain, size) &&
		       open_from(stream, key, first, last, host + skew, total, plain, &open) ==
			       SGPU_OK &&
		       sgpu_stream_sync(stream, NULL) == SGPU_OK && open.code == SGPU_EAUTH &&
		       sgpu_copy_out(stream, got, plain, size, NULL) == SGPU_OK &&
		       sgpu_stream_sync(stream, NULL) == SGPU_OK && got[0] == 0 &&
		       memcmp(got, got + 1, size - 1) == 0;
	}
	if (!good) {
		printf("# in place: size %llu last %d skew %u: codes %d %d\n",
		       (unsigned long long)size, last, skew, seal.code, open.code);
	}
	sgpu_device_key_free(&key);
	return good;
}

enum { HOST_BYTES = SGPU_REACHED_MAX + 8192 };

UNIT_TEST(short_runs_in_pinned_and_in_registered_memory_agree_with_the_host)
{
	static const uint64_t sizes[] = { 1,	 15,	16,    17,	  2047,		2048, 2049,
					  16383, 16384, 16385, 3 * C + 5, 11 * C + 100, 0 };
	const unsigned skews[] = { 0, 8, 5 };
	void *memory[2] = { NULL, aligned_alloc(4096, (HOST_BYTES + 4095) / 4096 * 4096) };

	REQUIRE(memory[1] && sgpu_host_alloc(device, HOST_BYTES, &memory[0], NULL) == SGPU_OK);
	CHECK(!sgpu_device_reaches(device, memory[1], 16, false));
	CHECK(!sgpu_device_reaches(device, data, 16, false));
	REQUIRE(sgpu_host_register(device, memory[1], (HOST_BYTES + 4095) / 4096 * 4096, NULL) ==
		SGPU_OK);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i += small ? 5 : 1) {
		for (int k = 0; k < 6; k++) {
			CHECK(agree_in_place(memory[k % 2], 0, true, sizes[i], skews[k / 2]));
			CHECK(sizes[i] % C != 0 || sizes[i] == 0 ||
			      agree_in_place(memory[k % 2], 77, false, sizes[i], skews[k / 2]));
		}
	}
	CHECK(!sgpu_device_reaches(device, memory[0], SGPU_REACHED_MAX + 1, false));
	CHECK(!sgpu_device_reaches(device, (uint8_t *)memory[1] - 16, 32, false));
	CHECK(!sgpu_device_reaches(
		device, (uint8_t *)memory[1] + (HOST_BYTES + 4095) / 4096 * 4096 - 16, 32, false));
	sgpu_host_unregister(device, memory[1]);
	CHECK(!sgpu_device_reaches(device, memory[1], 16, false));
	sgpu_host_free(device, &memory[0], HOST_BYTES);
	free(memory[1]);
}

struct changer {
	volatile uint8_t *at;
	atomic_bool over;
};

static void *change_on(void *argument)
{
	struct changer *c = argument;

	while (!atomic_load(&c->over)) {
		*c->at ^= 1;
	}
	return NULL;
}

/* However it falls out, what is opened is what verified. */
UNIT_TEST(what_changes_while_it_is_opened_opens_right_or_not_at_all)
{
	enum { SIZE = 2 * C + 77 };
	const uint64_t total = sealed_bytes(SIZE, true);
	struct sgpu_sealed_keys keys;
	struct sgpu_device_key *key = NULL;
	struct changer changer = { .over = false };
	pthread_t thread;
	void *host = NULL;
	int right = 0, refused = 0;

	random_keys(&keys);
	REQUIRE(host_seal(&keys, 0, true, SIZE));
	REQUIRE(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	REQUIRE(sgpu_host_alloc(device, total, &host, NULL) == SGPU_OK);
	memcpy(host, expected, total);
	changer.at = (volatile uint8_t *)host + C / 2;
	REQUIRE(pthread_create(&thread, NULL, change_on, &changer) == 0);
	for (int i = 0; i < (small ? 20 : 2000); i++) {
		struct sgpu_task task = { 0 };

		REQUIRE(open_from(stream, key, 0, true, host, total, plain, &task) == SGPU_OK);
		REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		REQUIRE(task.code == SGPU_OK || task.code == SGPU_EAUTH);
		REQUIRE(sgpu_copy_out(stream, got, plain, SIZE, NULL) == SGPU_OK &&
			sgpu_stream_sync(stream, NULL) == SGPU_OK);
		if (task.code == SGPU_OK) {
			CHECK(memcmp(got, data, SIZE) == 0);
			right++;
		} else {
			CHECK(got[0] == 0 && memcmp(got, got + 1, SIZE - 1) == 0);
			refused++;
		}
	}
	atomic_store(&changer.over, true);
	pthread_join(thread, NULL);
	printf("# %d were right, %d refused\n", right, refused);
	sgpu_host_free(device, &host, total);
	sgpu_device_key_free(&key);
}

UNIT_TEST(many_keys_at_once_do_not_meet)
{
	enum { KEYS = 24, SIZE = 3 * C + 11 };
	struct sgpu_stream *streams[4] = { NULL };
	struct sgpu_device_key *key[KEYS] = { NULL };
	struct sgpu_sealed_keys keys[KEYS];
	uint64_t step = 5 * C;
	int count;

	for (int i = 0; i < 4; i++) {
		REQUIRE(sgpu_stream_create(device, &streams[i], NULL) == SGPU_OK);
	}
	REQUIRE(room >= KEYS * step);
	count = small ? 8 : KEYS;
	REQUIRE(sgpu_copy_in(stream, plain, data, SIZE, NULL) == SGPU_OK &&
		sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (int i = 0; i < count; i++) {
		random_keys(&keys[i]);
		REQUIRE(sgpu_device_key_load(streams[i % 4], &keys[i], &key[i], NULL) == SGPU_OK);
		REQUIRE(sgpu_device_seal_chunks(streams[(i + 1) % 4], key[i], 0, true, plain, SIZE,
						sealed + i * step, NULL) == SGPU_OK);
	}
	for (int i = 0; i < 4; i++) {
		CHECK(sgpu_stream_sync(streams[i], NULL) == SGPU_OK);
	}
	for (int i = 0; i < count; i++) {
		uint64_t total = sealed_bytes(SIZE, true);

		REQUIRE(host_seal(&keys[i], 0, true, SIZE));
		REQUIRE(sgpu_copy_out(stream, got, sealed + i * step, total, NULL) == SGPU_OK);
		REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
		CHECK(memcmp(got, expected, total) == 0);
		sgpu_device_key_free(&key[i]);
	}
	for (int i = 0; i < 4; i++) {
		sgpu_stream_free(&streams[i]);
	}
}

/* One vector as the last chunk of a sealed segment; the vectors' own ciphertext is what is opened.
 */
static void check_vector(const json_t *test)
{
	size_t key_size, iv_size, msg_size, ct_size, tag_size;
	uint8_t *key = vectors_member(test, "key", &key_size),
		*iv = vectors_member(test, "iv", &iv_size);
	uint8_t *msg = vectors_member(test, "msg", &msg_size),
		*ct = vectors_member(test, "ct", &ct_size);
	uint8_t *tag = vectors_member(test, "tag", &tag_size);
	struct sgpu_sealed_keys keys = { .header = { 0 } };
	struct sgpu_device_key *loaded = NULL;
	struct sgpu_task task = { 0 };
	bool valid = vectors_is(test, "result", "valid");

	memcpy(keys.key, key, SGPU_KEY_SIZE);
	memcpy(keys.base_nonce, iv, SGPU_NONCE_SIZE);
	memcpy(expected, ct, ct_size);
	memcpy(expected + ct_size, tag, tag_size);
	REQUIRE(sgpu_device_key_load(stream, &keys, &loaded, NULL) == SGPU_OK);
	REQUIRE(poison(plain, ct_size + MARGIN));
	REQUIRE(sgpu_copy_in(stream, sealed, expected, ct_size + tag_size, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_open_chunks(stream, loaded, 0, true, sealed, ct_size + tag_size, plain,
					&task) == SGPU_OK);
	REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(task.code == (valid ? SGPU_OK : SGPU_EAUTH));
	CHECK(!valid || holds(plain, msg, msg_size));
	sgpu_device_key_free(&loaded);
	free(key);
	free(iv);
	free(msg);
	free(ct);
	free(tag);
}

UNIT_TEST(published_vectors_open_and_are_refused)
{
	char path[512];
	json_t *file, *group, *test;
	size_t i, k;
	int seen = 0;

	if (!vectors_path("wycheproof_aes_gcm_test.json", path, sizeof(path))) {
		SKIP("no folder with published vectors in SGPU_VECTORS");
	}
	file = json_load_file(path, 0, NULL);
	REQUIRE(file);
	json_array_foreach (json_object_get(file, "testGroups"), i, group) {
		if (json_integer_value(json_object_get(group, "keySize")) != 256 ||
		    json_integer_value(json_object_get(group, "ivSize")) != 96 ||
		    json_integer_value(json_object_get(group, "tagSize")) != 128) {
			continue;
		}
		json_array_foreach (json_object_get(group, "tests"), k, test) {
			if (json_string_length(json_object_get(test, "aad")) == 0 &&
			    (!small || k % 10 == 0)) {
				check_vector(test);
				seen++;
			}
		}
	}
	printf("# %d vectors\n", seen);
	CHECK(seen > (small ? 1 : 20));
	json_decref(file);
}

int main(void)
{
	struct sgpu_error error = { 0 };
	int code;

	small = getenv("SGPU_TEST_SMALL") != NULL;
	code = sgpu_device_open("cuda", NULL, &device, &error);
	if (code == SGPU_EUNAVAILABLE) {
		printf("1..0 # SKIP %s\n", error.text);
		return 0;
	}
	room = small ? (uint64_t)160 * C : (uint64_t)132 * 32 * C + 20 * C + 333;
	data = malloc(room);
	expected = malloc(room + room / 1000 + 4096);
	got = malloc(room + room / 1000 + 4096);
	if (code != SGPU_OK || !data || !expected || !got ||
	    sgpu_stream_create(device, &stream, NULL) != SGPU_OK ||
	    sgpu_device_alloc(device, room + 4096, &plain, NULL) != SGPU_OK ||
	    sgpu_device_alloc(device, room + room / 1000 + 4096, &sealed, NULL) != SGPU_OK) {
		printf("Bail out! cannot set up the device: %s\n", error.text);
		return 1;
	}
	for (uint64_t i = 0; i < room; i++) {
		data[i] = (uint8_t)(next_random() >> 24);
	}
	UNIT_RUN(sizes_around_blocks_rows_and_chunks_agree_with_the_host);
	UNIT_RUN(random_sizes_offsets_and_alignments_agree_with_the_host);
	UNIT_RUN(a_run_larger_than_the_device_agrees_with_the_host);
	UNIT_RUN(a_change_anywhere_names_its_chunk_and_leaves_nothing);
	UNIT_RUN(short_runs_in_pinned_and_in_registered_memory_agree_with_the_host);
	UNIT_RUN(what_changes_while_it_is_opened_opens_right_or_not_at_all);
	UNIT_RUN(many_keys_at_once_do_not_meet);
	UNIT_RUN(published_vectors_open_and_are_refused);
	sgpu_device_free(device, &plain, room + 4096);
	sgpu_device_free(device, &sealed, room + room / 1000 + 4096);
	sgpu_stream_free(&stream);
	sgpu_device_close(&device);
	free(data);
	free(expected);
	free(got);
	return unit_done();
}
