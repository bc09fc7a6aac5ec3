/* SPDX-License-Identifier: Apache-2.0
 *
 * The measure of memory: known answers of another implementation, and one measure however it is
 * computed.
 */

#include "crypto/crypto.h"
#include "unit.h"
#include "vectors.h"

enum { MIB = 1 << 20, PAGE = SGPU_MEASURE_PAGE };

/* Bytes 0 to 250 again and again. */
static uint8_t *message(size_t size)
{
	uint8_t *bytes = malloc(size + 1);

	for (size_t i = 0; bytes && i < size; i++) {
		bytes[i] = (uint8_t)(i % 251);
	}
	return bytes;
}

static bool is(const uint8_t digest[SGPU_KT128_SIZE], const char *hex)
{
	size_t size;
	uint8_t *expected = vectors_hex(hex, &size);
	bool same = size == SGPU_KT128_SIZE && memcmp(digest, expected, size) == 0;

	free(expected);
	return same;
}

/* Computed with PyCryptodome, by the program in sgpu-quote(5). */
UNIT_TEST(known_answers)
{
	static const struct {
		size_t size;
		const char *measure;
	} vectors[] = {
		{ 0, "19af206eada3e08ec95eb72f00be6f0e7d34d3603c0c5fa891efb8442ffa4708" },
		{ 1, "4bd4c0c418f7033f3dd9e09b2c6cc0353c0197eca708e6f4ff351e86335e37e6" },
		{ 8191, "989ab73f2f5c8ad0f1731e7dbd425c90ad1588f2d8113e608880ee84a37a0dba" },
		{ 8192, "a2cb1d4bfc2ce63edb7fc8d5a9e174ccf413a5d2fced50e5d2a59e47c6a83f37" },
		{ 8193, "bc54e7e866c8c79c97ef68cd13969d1e6f6f793086b9182c3ac004f465582a9b" },
		{ PAGE - 1, "9e0a90ebc606a2d15a807a4b0716b7c426f9f51132b5c717df47fa1c51336397" },
		{ PAGE, "25d1dca97e9be3191c7673cced2d8ed6e597f2cccf776045ef93fc49193e4575" },
		{ PAGE + 1, "b24bb75034a919b4e5fec17b9863c4c49d1bcc8d32d7def04eaa10be3361d212" },
		{ 5 * MIB + 12345,
		  "8dacc710a3eb98a895776a681f05095e5a1af5b825753f8546f08fc43c3becc6" },
	};
	uint8_t *data = message(6 * MIB), digest[SGPU_KT128_SIZE], key[SGPU_KEY_SIZE];

	REQUIRE(data);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(vectors); i++) {
		sgpu_measure_pages(data, vectors[i].size, NULL, digest);
		CHECK(is(digest, vectors[i].measure));
	}
	for (size_t i = 0; i < sizeof(key); i++) {
		key[i] = (uint8_t)i;
	}
	sgpu_measure_pages(data, 4 * MIB + 9, key, digest);
	CHECK(is(digest, "ba3909590feef436354d8d3b91a0badc13e4e3ad1049cacdb3c851f413fcc365"));
	free(data);
}

/* As sgpu-quote(5) defines it. */
static void by_definition(const uint8_t *data, size_t size, uint8_t digest[SGPU_KT128_SIZE])
{
	const size_t pages = (size + PAGE - 1) / PAGE;
	uint8_t *list = malloc(pages * SGPU_KT128_SIZE + 1);

	REQUIRE(list);
	for (size_t i = 0; i < pages; i++) {
		sgpu_kt128(data + i * PAGE, i + 1 < pages ? PAGE : size - i * PAGE,
			   SGPU_MEASURE_CUSTOM, strlen(SGPU_MEASURE_CUSTOM),
			   list + i * SGPU_KT128_SIZE, SGPU_KT128_SIZE);
	}
	sgpu_kt128(list, pages * SGPU_KT128_SIZE, SGPU_MEASURE_CUSTOM, strlen(SGPU_MEASURE_CUSTOM),
		   digest, SGPU_KT128_SIZE);
	free(list);
}

UNIT_TEST(workers_give_the_same_measure)
{
	/* A few pages, of which the leaves are shared; more, which are; more than the list takes at
	 * once. */
	static const size_t sizes[] = {
		0, 5, PAGE, 3 * PAGE + 1, 70 * PAGE - 1, 300 * (size_t)PAGE + 8193
	};
	const size_t most = getenv("SGPU_TEST_SMALL") ? 5 * PAGE : SIZE_MAX;
	uint8_t one[SGPU_KT128_SIZE], several[SGPU_KT128_SIZE];
	struct sgpu_pool *pool;

	REQUIRE(sgpu_pool_create(3, &pool, NULL) == SGPU_OK);
	sgpu_pool_enter(pool);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes) && sizes[i] < most; i++) {
		uint8_t *data = message(sizes[i]);
		REQUIRE(data);
		sgpu_measure_pages(data, sizes[i], NULL, one);
		CHECK(sgpu_measure_pages_shared(pool, data, sizes[i], NULL, several, NULL) ==
		      SGPU_OK);
		CHECK(memcmp(one, several, sizeof(one)) == 0);
		by_definition(data, sizes[i], several);
		CHECK(memcmp(one, several, sizeof(one)) == 0);
		free(data);
	}
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
}

UNIT_TEST(a_cancelled_pool_measures_nothing)
{
	const size_t size = 80 * (size_t)PAGE;
	uint8_t *data = calloc(1, size), digest[SGPU_KT128_SIZE];
	struct sgpu_error error = { 0 };
	struct sgpu_pool *pool;

	REQUIRE(data && sgpu_pool_create(2, &pool, NULL) == SGPU_OK);
	sgpu_pool_enter(pool);
	sgpu_pool_cancel(pool, true);
	CHECK(sgpu_measure_pages_shared(pool, data, size, NULL, digest, &error) == SGPU_ECANCELED &&
	      error.text[0]);
	CHECK(sgpu_measure_pages_shared(pool, data, 4 * PAGE, NULL, digest, &error) ==
	      SGPU_ECANCELED);
	sgpu_pool_leave(pool);
	sgpu_pool_free(&pool);
	free(data);
}

int main(void)
{
	UNIT_RUN(known_answers);
	UNIT_RUN(workers_give_the_same_measure);
	UNIT_RUN(a_cancelled_pool_measures_nothing);
	return unit_done();
}
