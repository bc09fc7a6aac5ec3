/* SPDX-License-Identifier: Apache-2.0
 *
 * How keys come to a GPU: the device's X25519, its entropy and the health tests of that, what a
 * recorder of the bus finds, and what becomes of launches that never reach the device.
 */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <crypto/internal.h>
#include <device/cuda/kernels.h>

#include "crypto/entropy.h"
#include "device/device.h"
#include "bus_recorder.h"
#include "cuda_harness.h"
#include "entropy_count.h"

enum { C = SGPU_CHUNK, SIZE = 3 * C + 777, SEALED = SIZE + 4 * SGPU_TAG_SIZE, VECTORS = 1000 };

static bool small; /* under a checker: little of everything */
static char *ptx;  /* tests/gpu/agree_module.cu, or NULL */
static size_t ptx_size;
static uint8_t plain[SIZE], sealed[SEALED], got[SEALED];
static struct sgpu_sealed_keys keys;
static const uint8_t base[32] = { 9 }; /* of X25519 */

/* ---- the module ---- */
static bool compile(void)
{
	char command[1024];
	const char *nvcc = getenv("NVCC");
	FILE *file;

	snprintf(command, sizeof(command),
		 "'%s' -ptx -arch=compute_80 -std=c++17 -Iinclude -Ilib -o - "
		 "tests/gpu/agree_module.cu",
		 nvcc && *nvcc ? nvcc : "nvcc");
	file = popen(command, "r");
	ptx = calloc(1, 1 << 20);
	if (!file || !ptx) {
		return false;
	}
	ptx_size = fread(ptx, 1, (1 << 20) - 1, file);
	return pclose(file) == 0 && ptx_size > 0;
}

static struct sgpu_device_module *module;

static bool begin_module(void)
{
	struct sgpu_error error = { 0 };

	if (!begin()) {
		return false;
	}
	if (sgpu_device_module_load(device, ptx, ptx_size + 1, &module, &error) == SGPU_OK) {
		return true;
	}
	printf("# %s\n", error.text);
	finish();
	return false;
}

static void finish_module(void)
{
	sgpu_device_module_free(&module);
	finish();
}

static bool launch(const char *function, unsigned blocks, unsigned threads, void *const *args,
		   const size_t *sizes, int count)
{
	const struct sgpu_module_shape shape = { .grid = { blocks, 1, 1 },
						 .block = { threads, 1, 1 } };
	struct sgpu_task task = { 0 };
	bool done = sgpu_device_module_launch_on(stream, module, function, &shape, args, sizes,
						 count, NULL, &task) == SGPU_OK &&
		    sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK;

	if (!done) {
		printf("# %s: %s\n", function, task.error.text);
	}
	return done;
}

static uint32_t vectors(void)
{
	return small ? 40 : VECTORS;
}

/* results = scalars * points on the device, vectors() of each. */
static bool multiply(const uint8_t *scalars, const uint8_t *points, uint8_t *results,
		     uint32_t *sound)
{
	const uint64_t bytes = (uint64_t)vectors() * 32;
	sgpu_devptr memory = 0, in, out, flags;
	uint32_t count = vectors();
	void *args[] = { &memory, &in, &out, &flags, &count };
	const size_t sizes[] = { 8, 8, 8, 8, 4 };
	bool done = sgpu_device_alloc(device, 4 * bytes, &memory, NULL) == SGPU_OK;

	in = memory + bytes;
	out = in + bytes;
	flags = out + bytes;
	done = done && sgpu_copy_in(stream, memory, scalars, bytes, NULL) == SGPU_OK &&
	       sgpu_copy_in(stream, in, points, bytes, NULL) == SGPU_OK &&
	       launch("x25519_many", (count + 31) / 32, 32, args, sizes, 5) &&
	       sgpu_copy_out(stream, results, out, bytes, NULL) == SGPU_OK &&
	       sgpu_copy_out(stream, sound, flags, count * 4, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK;
	sgpu_device_free(device, &memory, 4 * bytes);
	return done;
}

static void from_hex(const char *hex, uint8_t *out)
{
	for (int i = 0; i < 32; i++) {
		unsigned byte = 0;

		CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
		out[i] = (uint8_t)byte;
	}
}

UNIT_TEST(the_devices_x25519_is_that_of_rfc_7748_and_libcrypto)
{
	static uint8_t scalars[VECTORS * 32], points[VECTORS * 32], results[VECTORS * 32];
	static uint32_t sound[VECTORS];
	uint8_t expected[32], other[32];

	if (!ptx) {
		SKIP("the module does not compile here: no nvcc, or not in the checkout");
	}
	REQUIRE(begin_module());
	CHECK(sgpu_random(scalars, sizeof(scalars), NULL) == 0);
	for (int i = 0; i < VECTORS; i++) {
		CHECK(sgpu_raw_generate("X25519", other, points + 32 * i, NULL) == 0);
	}
	from_hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4", scalars);
	from_hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c", points);
	from_hex("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d", scalars + 32);
	from_hex("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493", points + 32);
	memset(points + 64, 0, 32);    /* of low order */
	memset(points + 96, 0xff, 32); /* 18, not reduced */
	CHECK(multiply(scalars, points, results, sound));
	from_hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552", expected);
	CHECK(memcmp(results, expected, 32) == 0 && sound[0] == 1);
	from_hex("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957", expected);
	CHECK(memcmp(results + 32, expected, 32) == 0 && sound[1] == 1);
	CHECK(all_are(results + 64, 32, 0) && sound[2] == 0);
	for (uint32_t i = 3; i < vectors(); i++) {
		CHECK(sgpu_x25519(scalars + 32 * i, NULL, points + 32 * i, expected, NULL) == 0);
		CHECK(memcmp(results + 32 * i, expected, 32) == 0 && sound[i] == 1);
	}
	finish_module();
}

/* ---- entropy ---- */
static struct {
	sgpu_devptr memory, record, counts, key;
	unsigned sources;
} ground;

static uint64_t ground_size(void)
{
	return (uint64_t)ground.sources *
		       (32 + SGPU_CUDA_SAMPLES + 2 * sizeof(struct sgpu_entropy_counts)) +
	       65536;
}

static bool take_ground(void)
{
	struct sgpu_device_info info;
	uint64_t of_room;

	if (sgpu_device_get_info(device, &info, NULL) != SGPU_OK) {
		return false;
	}
	ground.sources = info.compute_units;
	of_room = 8192 + (uint64_t)ground.sources * (32 + sizeof(struct sgpu_entropy_counts));
	if (sgpu_device_alloc(device, ground_size(), &ground.memory, NULL) != SGPU_OK) {
		return false;
	}
	ground.record = ground.memory + (of_room + 255) / 256 * 256;
	ground.counts = ground.record + (uint64_t)ground.sources * SGPU_CUDA_SAMPLES;
	ground.key = ground.memory + ground_size() - 256;
	return true;
}

static bool gather(bool record)
{
	sgpu_devptr to = record ? ground.record : 0;
	void *args[] = { &ground.memory, &ground.sources, &to, &ground.counts };
	const size_t sizes[] = { 8, 4, 8, 8 };

	return launch("gather_shown", ground.sources, 128, args, sizes, 4);
}

UNIT_TEST(the_devices_health_tests_count_what_the_specification_counts)
{
	struct sgpu_entropy_counts *counts, expected;
	struct sgpu_entropy_verdict verdict;
	struct sgpu_error error = { 0 };
	double least = 8, most = 0, sum = 0, bits;
	uint8_t *samples;

	if (!ptx) {
		SKIP("the module does not compile here: no nvcc, or not in the checkout");
	}
	REQUIRE(begin_module() && take_ground() && gather(true));
	samples = malloc((size_t)ground.sources * SGPU_CUDA_SAMPLES);
	counts = calloc(ground.sources, sizeof(*counts));
	REQUIRE(samples && counts);
	CHECK(sgpu_copy_out(stream, samples, ground.record,
			    (uint64_t)ground.sources * SGPU_CUDA_SAMPLES, NULL) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, counts, ground.counts, ground.sources * sizeof(*counts),
			    NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	for (unsigned i = 0; i < ground.sources; i++) {
		entropy_count(samples + (size_t)i * SGPU_CUDA_SAMPLES, SGPU_CUDA_SAMPLES,
			      &expected);
		CHECK(memcmp(&expected, &counts[i], sizeof(expected)) == 0);
		bits = sgpu_entropy_estimate(&expected);
		least = bits < least ? bits : least;
		most = bits > most ? bits : most;
		sum += bits;
		for (unsigned k = 0; k < i; k++) {
			CHECK(memcmp(samples + (size_t)i * SGPU_CUDA_SAMPLES,
				     samples + (size_t)k * SGPU_CUDA_SAMPLES,
				     SGPU_CUDA_SAMPLES) != 0);
		}
	}
	CHECK(sgpu_entropy_judge(counts, ground.sources, 0.5, 2, 1024, &verdict, &error) ==
	      SGPU_OK);
	printf("# %u sources, %u sound; bits a sample %.2f to %.2f, mean %.2f %s\n", ground.sources,
	       verdict.sound, least, most, sum / ground.sources, error.text);
	printf("# first source:");
	for (int i = 0; i < 48; i++) {
		printf(" %u", samples[i]);
	}
	printf("\n");
	free(samples);
	free(counts);
	sgpu_device_free(device, &ground.memory, ground_size());
	finish_module();
}

static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, 32);
}

UNIT_TEST(a_thousand_agreements_make_a_thousand_keys)
{
	static uint8_t made[1000][32];
	void *args[] = { &ground.memory, &ground.sources, &ground.key };
	const size_t sizes[] = { 8, 4, 8 };
	int count = small ? 3 : 1000;

	if (!ptx) {
		SKIP("the module does not compile here: no nvcc, or not in the checkout");
	}
	REQUIRE(begin_module() && take_ground());
	for (int i = 0; i < count; i++) {
		REQUIRE(gather(false) && launch("make_shown", 1, 32, args, sizes, 3));
		REQUIRE(sgpu_copy_out(stream, made[i], ground.key, 32, NULL) == SGPU_OK);
		REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	}
	qsort(made, (size_t)count, 32, compare_keys);
	for (int i = 1; i < count; i++) {
		CHECK(memcmp(made[i - 1], made[i], 32) != 0);
	}
	sgpu_device_free(device, &ground.memory, ground_size());
	finish_module();
}

/* ---- the agreement ---- */
static bool open_device(void)
{
	struct sgpu_error error = { 0 };

	if (sgpu_device_open("cuda", NULL, &device, &error) == SGPU_OK &&
	    sgpu_stream_create(device, &stream, &error) == SGPU_OK) {
		return true;
	}
	printf("# %s\n", error.text);
	return false;
}

static bool encrypts_bus(void)
{
	struct sgpu_device_info info;

	return sgpu_device_get_info(device, &info, NULL) == SGPU_OK &&
	       strcmp(info.confidential, "on") == 0;
}

UNIT_TEST(each_opening_agrees_on_a_key_of_its_own)
{
	struct sgpu_device_agreement first, again;
	struct sgpu_error error = { 0 };
	uint8_t before[32] = { 0 };
	uint64_t begin_ns;

	for (int i = 0; i < (small ? 2 : 5); i++) {
		REQUIRE(open_device());
		begin_ns = sgpu_now_ns();
		CHECK(sgpu_device_agree(device, &first, &error) == SGPU_OK);
		printf("# %.2f ms: %s%s\n", (double)(sgpu_now_ns() - begin_ns) / 1e6, first.text,
		       error.text);
		CHECK(first.agreed && strstr(first.text, "health tests passed"));
		CHECK(memcmp(first.public_key, before, 32) != 0);
		memcpy(before, first.public_key, 32);
		CHECK(sgpu_device_agree(device, &again, NULL) == SGPU_OK);
		CHECK(memcmp(&first, &again, sizeof(first)) == 0);
		finish();
	}
}

/* ---- the recorder ---- */
#define NO_CHECKER()                                                                           \
	do {                                                                                   \
		if (small) {                                                                   \
			SKIP("a checker puts itself between the program and the driver, too"); \
		}                                                                              \
	} while (0)

static void make_segment(void)
{
	struct sgpu_aead *aead = NULL;

	memset(&keys, 0, sizeof(keys));
	CHECK(sgpu_random(keys.key, sizeof(keys.key), NULL) == 0);
	CHECK(sgpu_random(keys.base_nonce, sizeof(keys.base_nonce), NULL) == 0);
	CHECK(sgpu_random(plain, sizeof(plain), NULL) == 0);
	CHECK(sgpu_aead_create(NULL, keys.key, &aead, NULL) == SGPU_OK);
	CHECK(sgpu_seal_chunks(aead, &keys, 0, true, plain, SIZE, sealed) == SGPU_OK);
	sgpu_aead_free(&aead);
}

static struct sgpu_task opened, resealed;
static sgpu_devptr in, out;

/* Opens the segment on the device and seals what came of it; the result is in `got`. */
static bool round_trip(struct sgpu_device_key *key)
{
	memset(&opened, 0, sizeof(opened));
	memset(&resealed, 0, sizeof(resealed));
	return sgpu_copy_in(stream, in, sealed, SEALED, NULL) == SGPU_OK &&
	       sgpu_device_open_chunks(stream, key, 0, true, in, SEALED, out, &opened) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK &&
	       sgpu_device_clear(stream, in, SEALED, NULL) == SGPU_OK &&
	       sgpu_device_seal_chunks(stream, key, 0, true, out, SIZE, in, &resealed) == SGPU_OK &&
	       sgpu_copy_out(stream, got, in, SEALED, NULL) == SGPU_OK &&
	       sgpu_stream_sync(stream, NULL) == SGPU_OK;
}

static bool take_memory(void)
{
	return sgpu_device_alloc(device, SEALED, &in, NULL) == SGPU_OK &&
	       sgpu_device_alloc(device, SIZE, &out, NULL) == SGPU_OK;
}

static void give_memory(void)
{
	sgpu_device_free(device, &in, SEALED);
	sgpu_device_free(device, &out, SIZE);
}

/* Whether any 32 bytes of the record, from a word on, are the private key to this public key. */
static bool saw_private_key_of(const uint8_t public_key[32])
{
	static const uint8_t zeros[8];
	uint8_t its[32];
	uint64_t tried = 0;

	for (size_t i = 0; i + 32 <= bus.size; i += 4) {
		if (memcmp(bus.data + i, zeros, 8) == 0 ||
		    memcmp(bus.data + i + 24, zeros, 8) == 0) {
			continue;
		}
		tried++;
		if (sgpu_x25519(bus.data + i, NULL, base, its, NULL) == 0 &&
		    memcmp(its, public_key, 32) == 0) {
			return true;
		}
	}
	printf("# %llu places tried for the device's private key\n", (unsigned long long)tried);
	return false;
}

/* The search for a private key finds one that is there. */
static void check_search(void)
{
	uint8_t private_key[32], public_key[32];

	CHECK(sgpu_raw_generate("X25519", private_key, public_key, NULL) == 0);
	CHECK(bus.size > 200);
	memcpy(bus.data + 104, private_key, 32);
	CHECK(saw_private_key_of(public_key));
	memset(bus.data + 104, 0, 32);
}

UNIT_TEST(a_recorder_of_the_bus_finds_no_key_and_no_plaintext)
{
	struct sgpu_device_agreement agreement;
	struct sgpu_device_key *key = NULL;
	uint8_t derived[sizeof(bus.derived)], shared[32], host_public[32];

	NO_CHECKER();
	make_segment();
	REQUIRE(open_device());
	if (encrypts_bus()) {
		finish();
		SKIP("the GPU is in confidential computing mode");
	}
	bus_begin();
	CHECK(sgpu_device_agree(device, &agreement, NULL) == SGPU_OK && agreement.agreed);
	bus_end();
	CHECK(bus.hashes >= 2 * 3); /* HKDF extracts with one MAC, and expands with two */
	memcpy(derived, bus.derived, sizeof(derived));
	memcpy(shared, bus.shared, sizeof(shared)); /* before X25519 is used here */
	printf("# agreement: %u launches, %u with their parameters, %zu bytes\n", bus.launches,
	       bus.sized, bus.size);
	CHECK(bus.launches >= 6 && bus.sized == bus.launches);
	/* What has to cross is seen, in parameters and in pinned memory; so the record is one. */
	CHECK(sgpu_x25519(bus.private_key, NULL, base, host_public, NULL) == 0);
	CHECK(bus_saw(host_public, 32, 32));
	CHECK(bus_saw(agreement.public_key, 32, 32));
	CHECK(bus_saw(derived + 32, 32, 32)); /* the proof: so what stands before it is */
	CHECK(!bus_saw(derived, 32, 8));      /* the session key */
	CHECK(!all_are(shared, 32, 0) && !bus_saw(shared, 32, 8));
	CHECK(!bus_saw(bus.private_key, 32, 8));
	CHECK(!saw_private_key_of(agreement.public_key));
	check_search();
	bus_begin();
	REQUIRE(take_memory());
	CHECK(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	CHECK(round_trip(key) && opened.code == SGPU_OK && resealed.code == SGPU_OK);
	CHECK(memcmp(got, sealed, SEALED) == 0);
	sgpu_device_key_free(&key);
	give_memory();
	bus_end();
	printf("# segment: %u launches, %u with their parameters, %zu bytes\n", bus.launches,
	       bus.sized, bus.size);
	CHECK(bus.launches >= 3 && bus.sized == bus.launches);
	CHECK(bus_saw(sealed, 64, 64) && bus_saw(sealed + SEALED - 64, 64, 64));
	CHECK(!bus_saw(keys.key, 32, 8));
	CHECK(!bus_saw(keys.base_nonce, 12, 8));
	CHECK(!bus_saw(derived, 32, 8));
	for (int at = 0; at + 16 <= SIZE; at += 509) {
		CHECK(!bus_saw(plain + at, 16, 8));
	}
	finish();
}

UNIT_TEST(a_key_that_was_changed_on_its_way_opens_and_seals_nothing)
{
	struct sgpu_device_agreement agreement;
	struct sgpu_device_key *key = NULL;

	NO_CHECKER();
	make_segment();
	REQUIRE(open_device());
	if (encrypts_bus()) {
		finish();
		SKIP("the GPU is in confidential computing mode");
	}
	REQUIRE(take_memory());
	CHECK(sgpu_device_agree(device, &agreement, NULL) == SGPU_OK);
	bus_begin();
	bus.change = sizeof(struct sgpu_cuda_message);
	bus.change_at = offsetof(struct sgpu_cuda_message, keys[0].words) + 5;
	CHECK(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	CHECK(bus.change == 0);
	CHECK(round_trip(key));
	bus_end();
	CHECK(opened.code == SGPU_EAUTH && strstr(opened.error.text, "the key"));
	CHECK(resealed.code == SGPU_EAUTH && all_are(got, SEALED, 0));
	sgpu_device_key_free(&key);
	/* The next one is fine, in the same place. */
	CHECK(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	CHECK(round_trip(key) && opened.code == SGPU_OK && memcmp(got, sealed, SEALED) == 0);
	sgpu_device_key_free(&key);
	give_memory();
	finish();
}

/* As parameters of the kernel, and as a copy before it. */
UNIT_TEST(of_keys_that_come_together_only_one_that_was_changed_fails)
{
	static const struct {
		int count, changed;
		size_t size, at;
	} cases[] = {
		{ 5, 2, sizeof(struct sgpu_cuda_message),
		  offsetof(struct sgpu_cuda_message, keys[2].tag) },
		{ 40, 27, sizeof(struct sgpu_cuda_message),
		  offsetof(struct sgpu_cuda_message, keys[27].words) + 43 },
	};
	struct sgpu_device_agreement agreement;
	struct sgpu_device_key *list[40];
	struct sgpu_sealed_keys same[40];

	NO_CHECKER();
	make_segment();
	REQUIRE(open_device());
	if (encrypts_bus()) {
		finish();
		SKIP("the GPU is in confidential computing mode");
	}
	REQUIRE(take_memory());
	CHECK(sgpu_device_agree(device, &agreement, NULL) == SGPU_OK);
	for (int i = 0; i < 40; i++) {
		same[i] = keys;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(cases); i++) {
		bus_begin();
		bus.change = cases[i].size;
		bus.change_at = cases[i].at;
		CHECK(sgpu_device_keys_load(stream, same, cases[i].count, list, NULL) == SGPU_OK);
		CHECK(bus.change == 0 && bus.launches == (cases[i].count > SGPU_CUDA_KEYS ? 2 : 1));
		bus_end();
		for (int k = 0; k < cases[i].count; k++) {
			const bool changed = k == cases[i].changed;

			CHECK(round_trip(list[k]));
			CHECK(opened.code == (changed ? SGPU_EAUTH : SGPU_OK));
			CHECK(resealed.code == opened.code);
			CHECK(changed ? all_are(got, SEALED, 0) : !memcmp(got, sealed, SEALED));
		}
		for (int k = 0; k < cases[i].count; k++) {
			sgpu_device_key_free(&list[k]);
		}
	}
	give_memory();
	finish();
}

UNIT_TEST(a_launch_that_is_withheld_has_verified_nothing)
{
	struct sgpu_device_key *key = NULL;
	struct sgpu_task task = { 0 };

	NO_CHECKER();
	make_segment();
	REQUIRE(open_device() && take_memory());
	CHECK(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	/* Plaintext of somebody's choice lies where the output is to be. */
	memset(got, 0x77, SIZE);
	CHECK(sgpu_copy_in(stream, out, got, SIZE, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(sgpu_copy_in(stream, in, sealed, SEALED, NULL) == SGPU_OK);
	bus_begin();
	bus.withhold = 1;
	CHECK(sgpu_device_open_chunks(stream, key, 0, true, in, SEALED, out, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(bus.withhold == 0);
	CHECK(task.code == SGPU_EDEVICE && strstr(task.error.text, "0 chunks of 4"));
	CHECK(sgpu_copy_out(stream, got, out, SIZE, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(all_are(got, SIZE, 0));
	bus.withhold = 1;
	memset(&task, 0, sizeof(task));
	CHECK(sgpu_device_seal_chunks(stream, key, 0, true, out, SIZE, in, &task) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(task.code == SGPU_EDEVICE && strstr(task.error.text, "sealed 0 chunks"));
	bus_end();
	CHECK(round_trip(key) && opened.code == SGPU_OK && memcmp(got, sealed, SEALED) == 0);
	sgpu_device_key_free(&key);
	/* A key whose kernel never ran. */
	bus_begin();
	bus.withhold = 1;
	CHECK(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	CHECK(round_trip(key) && opened.code == SGPU_EAUTH && resealed.code == SGPU_EAUTH);
	bus_end();
	sgpu_device_key_free(&key);
	give_memory();
	finish();
}

/* The last: it ends CUDA for the process. */
UNIT_TEST(a_device_that_fails_the_known_answer_is_of_no_use)
{
	struct sgpu_device_key *key = NULL;
	struct sgpu_error error = { 0 };
	uint8_t byte = 0;
	sgpu_devptr memory = 0;

	NO_CHECKER();
	make_segment();
	REQUIRE(open_device());
	REQUIRE(sgpu_device_alloc(device, 4096, &memory, NULL) == SGPU_OK);
	bus_begin();
	bus.withhold = 1;
	bus.after = 5; /* the agreement, and the test's key */
	CHECK(sgpu_device_key_load(stream, &keys, &key, &error) == SGPU_EDEVICE && !key);
	bus_end();
	printf("# %s\n", error.text);
	CHECK(strstr(error.text, "known answer"));
	CHECK(sgpu_device_key_load(stream, &keys, &key, &error) == SGPU_EDEVICE && !key);
	CHECK(sgpu_copy_in(stream, memory, &byte, 1, NULL) == SGPU_EDEVICE);
	finish();
}

int main(void)
{
	CUDA_OR_SKIP();
	small = getenv("SGPU_TEST_SMALL") != NULL;
	if (!compile()) {
		free(ptx);
		ptx = NULL;
	}
	UNIT_RUN(the_devices_x25519_is_that_of_rfc_7748_and_libcrypto);
	UNIT_RUN(the_devices_health_tests_count_what_the_specification_counts);
	UNIT_RUN(a_thousand_agreements_make_a_thousand_keys);
	UNIT_RUN(each_opening_agrees_on_a_key_of_its_own);
	UNIT_RUN(a_recorder_of_the_bus_finds_no_key_and_no_plaintext);
	UNIT_RUN(a_key_that_was_changed_on_its_way_opens_and_seals_nothing);
	UNIT_RUN(of_keys_that_come_together_only_one_that_was_changed_fails);
	UNIT_RUN(a_launch_that_is_withheld_has_verified_nothing);
	UNIT_RUN(a_device_that_fails_the_known_answer_is_of_no_use);
	free(ptx);
	free(bus.data);
	return unit_done();
}
