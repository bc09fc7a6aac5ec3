/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for tests that draw what they do.
 */
#ifndef WORLD_RANDOM_H
#define WORLD_RANDOM_H

#include <stdint.h>

/* xoshiro256**: the sequences of a seed are the same on every machine. */
struct world_random {
	uint64_t s[4];
};

static inline uint64_t world_next(struct world_random *random)
{
	uint64_t *s = random->s, x = s[1] * 5, result = ((x << 7) | (x >> 57)) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = (s[3] << 45) | (s[3] >> 19);
	return result;
}

static inline void world_seed(struct world_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		seed += 0x9e3779b97f4a7c15u;
		random->s[i] = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
		random->s[i] ^= random->s[i] >> 27;
	}
}

static inline uint32_t world_below(struct world_random *random, uint32_t bound)
{
	return (uint32_t)((world_next(random) >> 32) * bound >> 32);
}

#endif
