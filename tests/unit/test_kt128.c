/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve: the test vectors of RFC 9861 for KT128, and one digest however it is computed.
 */
#include "crypto/crypto.h"
#include "crypto/keccak_round.h"
#include "crypto/kt128.h"
#include "unit.h"
#include "vectors.h"

/* The RFC's messages: bytes 0 to 250 again and again, or bytes that are all ones. */
static uint8_t *message(bool ones, size_t size)
{
	uint8_t *bytes = malloc(size + 1);
	size_t i;

	for (i = 0; bytes && i < size; i++) {
		bytes[i] = ones ? 0xff : (uint8_t)(i % 251);
	}
	return bytes;
}

/* What the vectors give are the last bytes of a digest of `size` bytes. */
static const struct {
	bool ones;
	size_t message, custom, size;
	const char *end;
} vectors[] = {
	{ false, 0, 0, 32, "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5" },
	{ false, 0, 0, 64,
	  "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5"
	  "4269c056b8c82e48276038b6d292966cc07a3d4645272e31ff38508139eb0a71" },
	{ false, 0, 0, 10032, "e8dc563642f7228c84684c898405d3a834799158c079b12880277a1d28e2ff6d" },
	{ false, 1, 0, 32, "2bda92450e8b147f8a7cb629e784a058efca7cf7d8218e02d345dfaa65244a1f" },
	{ false, 17, 0, 32, "6bf75fa2239198db4772e36478f8e19b0f371205f6a9a93a273f51df37122888" },
	{ false, 289, 0, 32, "0c315ebcdedbf61426de7dcf8fb725d1e74675d7f5327a5067f367b108ecb67c" },
	{ false, 4913, 0, 32, "cb552e2ec77d9910701d578b457ddf772c12e322e4ee7fe417f92c758f0d59d0" },
	{ false, 83521, 0, 32, "8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe" },
	{ false, 1419857, 0, 32,
	  "844d610933b1b9963cbdeb5ae3b6b05cc7cbd67ceedf883eb678a0a8e0371682" },
	{ false, 24137569, 0, 32,
	  "3c390782a8a4e89fa6367f72feaaf13255c8d95878481d3cd8ce85f58e880af8" },
	{ false, 0, 1, 32, "fab658db63e94a246188bf7af69a133045f46ee984c56e3c3328caaf1aa1a583" },
	{ true, 1, 41, 32, "d848c5068ced736f4462159b9867fd4c20b808acc3d5bc48e0b06ba0a3762ec4" },
	{ true, 3, 1681, 32, "c389e5009ae57120854c2e8c64670ac01358cf4c1baf89447a724234dc7ced74" },
	{ true, 7, 68921, 32, "75d2f86a2e644566726b4fbcfc5657b9dbcf070c7b0dca06450ab291d7443bcf" },
	{ false, 8191, 0, 32, "1b577636f723643e990cc7d6a659837436fd6a103626600eb8301cd1dbe553d6" },
	{ false, 8192, 0, 32, "48f256f6772f9edfb6a8b661ec92dc93b95ebd05a08a17b39ae3490870c926c3" },
	{ false, 8192, 8189, 32,
	  "3ed12f70fb05ddb58689510ab3e4d23c6c6033849aa01e1d8c220a297fedcd0b" },
	{ false, 8192, 8190, 32,
	  "6a7c1b6a5cd0d8c9ca943a4a216cc64604559a2ea45f78570a15253d67ba00ae" },
};

UNIT_TEST(rfc_9861_vectors)
{
	size_t i, end_size;

	for (i = 0; i < SGPU_ARRAY_LENGTH(vectors); i++) {
		uint8_t *data = message(vectors[i].ones, vectors[i].message),
			*custom = message(false, vectors[i].custom);
		uint8_t *end = vectors_hex(vectors[i].end, &end_size),
			*digest = malloc(vectors[i].size);
		REQUIRE(data && custom && digest);
		sgpu_kt128(data, vectors[i].message, custom, vectors[i].custom, digest,
			   vectors[i].size);
		CHECK(memcmp(digest + vectors[i].size - end_size, end, end_size) == 0);
		free(data);
		free(custom);
		free(end);
		free(digest);
	}
}

/* Sizes around everything that has an edge: a block, a chunk, as many leaves as are hashed at once.
 */
static const size_t sizes[] = {
	0,
	1,
	7,
	8,
	167,
	168,
	169,
	8189,
	8190,
	8191,
	8192,
	8193,
	16383,
	16384,
	16385,
	5 * 8192,
	9 * 8192 - 1,
	9 * 8192,
	65535,
	65536,
	65537,
	17 * 8192 + 5,
	66 * 8192 + 8191,
	(1 << 20) - 1,
	1 << 20,
	(1 << 20) + 1,
	(5 << 20) - 3,
	(33 << 20) + 8191, /* more than the workers compute at once */
};

UNIT_TEST(pieces_of_any_size_give_the_same_digest)
{
	static const char custom[] = "in pieces";
	uint8_t whole[32], pieces[32];
	size_t i, at, now, step;

	for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		uint8_t *data = message(false, sizes[i]);
		struct sgpu_kt128 state = { 0 };

		REQUIRE(data);
		step = 1;
		for (at = 0; at < sizes[i]; at += now) {
			now = step < sizes[i] - at ? step : sizes[i] - at;
			sgpu_kt128_update(&state, data + at, now);
			step = step > 60000 ? 1 + at % 977 : 3 * step + 7;
		}
		sgpu_kt128_finish(&state, custom, sizeof(custom), pieces, sizeof(pieces));
		sgpu_kt128(data, sizes[i], custom, sizeof(custom), whole, sizeof(whole));
		CHECK(memcmp(whole, pieces, sizeof(whole)) == 0);
		free(data);
	}
}

UNIT_TEST(workers_give_the_same_digest)
{
	struct sgpu_pool *pool;
	uint8_t one[40], several[40];
	size_t i;

	REQUIRE(sgpu_pool_create(3, &pool, NULL) == SGPU_OK);
	for (i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		uint8_t *data = message(false, sizes[i]);
		REQUIRE(data);
		sgpu_kt128(data, sizes[i], NULL, 0, one, sizeof(one));
		sgpu_pool_enter(pool);
		CHECK(sgpu_kt128_shared(pool, data, sizes[i], NULL, 0, several, sizeof(several),
					NULL) == SGPU_OK);
		sgpu_pool_leave(pool);
		CHECK(memcmp(one, several, sizeof(one)) == 0);
		free(data);
	}
	sgpu_pool_free(&pool);
}

UNIT_TEST(a_pool_that_was_cancelled_gives_no_digest)
{
	struct sgpu_pool *pool;
	struct sgpu_error error;
	uint8_t digest[32], *data = message(false, 4 << 20);

	REQUIRE(data && sgpu_pool_create(2, &pool, NULL) == SGPU_OK);
	sgpu_pool_enter(pool);
	sgpu_pool_cancel(pool, true);
	CHECK(sgpu_kt128_shared(pool, data, 4 << 20, NULL, 0, digest, sizeof(digest), &error) ==
	      SGPU_ECANCELED);
	CHECK(strstr(error.text, "cancelled"));
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	free(data);
}

UNIT_TEST(every_permutation_of_this_cpu_is_the_same)
{
#ifdef SGPU_KECCAK_X86
	uint64_t plain[SGPU_KECCAK_LANES], planes[SGPU_KECCAK_LANES];
	uint8_t *data = message(false, 50 * SGPU_TURBOSHAKE_RATE + 1);
	size_t blocks, i;

	if (!SGPU_KECCAK_HAS_AVX512) {
		free(data);
		SKIP("needs a CPU with AVX-512");
	}
	for (blocks = 0; blocks < 50; blocks++) {
		for (i = 0; i < SGPU_KECCAK_LANES; i++) {
			plain[i] = planes[i] = (i + blocks) * 0x9e3779b97f4a7c15;
		}
		sgpu_keccak_blocks_plain(plain, data + 1, blocks);
		sgpu_keccak_blocks_planes(planes, data + 1, blocks);
		CHECK(memcmp(plain, planes, sizeof(plain)) == 0);
	}
	free(data);
#else
	SKIP("this build has one permutation");
#endif
}

UNIT_TEST(lengths_are_encoded_as_the_rfc_has_it)
{
	uint8_t out[SGPU_KT128_LENGTH_MAX];

	CHECK(sgpu_kt128_length(0, out) == 1 && out[0] == 0);
	CHECK(sgpu_kt128_length(12, out) == 2 && out[0] == 12 && out[1] == 1);
	CHECK(sgpu_kt128_length(65538, out) == 4 && memcmp(out, "\1\0\2\3", 4) == 0);
	CHECK(sgpu_kt128_length(UINT64_MAX, out) == 9 && out[0] == 0xff && out[8] == 8);
}

int main(void)
{
	UNIT_RUN(rfc_9861_vectors);
	UNIT_RUN(pieces_of_any_size_give_the_same_digest);
	UNIT_RUN(workers_give_the_same_digest);
	UNIT_RUN(a_pool_that_was_cancelled_gives_no_digest);
	UNIT_RUN(every_permutation_of_this_cpu_is_the_same);
	UNIT_RUN(lengths_are_encoded_as_the_rfc_has_it);
	return unit_done();
}
