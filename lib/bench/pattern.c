/* SPDX-License-Identifier: Apache-2.0
 *
 * The pattern that memory is filled with: every word differs from its neighbours and from those of
 * another seed, so that a copy from or to a wrong address is noticed.
 */
#include <inttypes.h>
#include <string.h>

#include <bench/bench.h>

enum { WORD = sizeof(uint64_t), BLOCK = 512 };

/* SplitMix64's finaliser without its first step: cheap, and a bijection. */
static inline uint64_t word_at(uint64_t index, uint64_t seed)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;

	z ^= z >> 29;
	z *= 0xbf58476d1ce4e5b9u;
	return z ^ (z >> 32);
}

/* Fills, or checks: returns the offset of the first byte that differs, or `size`. */
static uint64_t go_through(uint8_t *memory, uint64_t size, uint64_t seed, bool fills)
{
	uint64_t block[BLOCK];

	for (uint64_t done = 0; done < size; done += sizeof(block)) {
		const uint64_t n = size - done < sizeof(block) ? size - done : sizeof(block);

		for (uint64_t i = 0; i < BLOCK; i++) {
			block[i] = word_at(done / WORD + i, seed);
		}
		if (fills) {
			memcpy(memory + done, block, n);
		} else if (memcmp(memory + done, block, n) != 0) {
			while (memory[done] == ((const uint8_t *)block)[done % sizeof(block)]) {
				done++;
			}
			return done;
		}
	}
	return size;
}

void sgpu_bench_fill(void *memory, uint64_t size, uint64_t seed)
{
	(void)go_through(memory, size, seed, true);
}

int sgpu_bench_check(const void *memory, uint64_t size, uint64_t seed, struct sgpu_error *error)
{
	const uint64_t at = go_through((uint8_t *)memory, size, seed, false);

	return at == size ? SGPU_OK
			  : sgpu_fail(error, SGPU_EDIFFERS,
				      "byte %" PRIu64 " of %" PRIu64 " did not arrive", at, size);
}
