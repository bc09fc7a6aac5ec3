/* SPDX-License-Identifier: Apache-2.0
 *
 * The pattern that memory is filled with: every word differs from its neighbours and from those of another seed, so
 * that a copy from or to a wrong place is seen.
 */
#include <string.h>

#include <sgpu/bench.h>

enum { WORD = sizeof(uint64_t), BLOCK = 512 };

/* The finaliser of SplitMix64 without its first step: cheap, and a bijection. */
static inline uint64_t word_at(uint64_t index, uint64_t seed)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;

	z ^= z >> 29;
	z *= 0xbf58476d1ce4e5b9u;
	return z ^ (z >> 32);
}

static void fill_words(uint64_t *words, uint64_t first, int count, uint64_t seed)
{
	for (int i = 0; i < count; i++) {
		words[i] = word_at(first + (uint64_t)i, seed);
	}
}

void sgpu_bench_fill(void *memory, uint64_t size, uint64_t seed)
{
	uint64_t block[BLOCK];
	uint8_t *at = memory;

	for (uint64_t done = 0; done < size; done += sizeof(block)) {
		uint64_t n = size - done < sizeof(block) ? size - done : sizeof(block);

		fill_words(block, done / WORD, BLOCK, seed);
		memcpy(at + done, block, n);
	}
}

static uint64_t first_difference(const uint8_t *a, const uint8_t *b, uint64_t size)
{
	uint64_t i = 0;

	while (i < size && a[i] == b[i]) {
		i++;
	}
	return i;
}

uint64_t sgpu_bench_check(const void *memory, uint64_t size, uint64_t seed)
{
	uint64_t block[BLOCK];
	const uint8_t *at = memory;

	for (uint64_t done = 0; done < size; done += sizeof(block)) {
		uint64_t n = size - done < sizeof(block) ? size - done : sizeof(block);

		fill_words(block, done / WORD, BLOCK, seed);
		if (memcmp(at + done, block, n) != 0) {
			return done + first_difference(at + done, (const uint8_t *)block, n);
		}
	}
	return size;
}
