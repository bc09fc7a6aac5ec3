/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104) by one thread. All their data is in the caller's struct,
 * so that the caller can wipe it.
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_SHA256_CUH
#define SGPU_DEVICE_CUDA_KERNELS_SHA256_CUH

#include <stdint.h>

#include <device/cuda/kernels/portable.cuh>

SGPU_DEVICE_TABLE uint32_t sgpu_sha_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

struct sgpu_sha {
	uint32_t state[8];
	uint32_t words[16]; /* the block, then the schedule's last sixteen words */
	uint32_t size;	    /* bytes so far */
};

struct sgpu_hmac {
	struct sgpu_sha sha;
	uint8_t key[64]; /* padded with zeros */
	uint8_t inner[32];
};

#define SGPU_SHA_TURN(x, n) ((x) >> (n) | (x) << (32 - (n)))

SGPU_ON_DEVICE_CALLED void sgpu_sha_block(struct sgpu_sha *s)
{
	uint32_t a = s->state[0], b = s->state[1], c = s->state[2], d = s->state[3];
	uint32_t e = s->state[4], f = s->state[5], g = s->state[6], h = s->state[7];

	SGPU_ROLL
	for (int i = 0; i < 64; i++) {
		uint32_t word = s->words[i % 16], t;

		if (i >= 16) {
			uint32_t near = s->words[(i + 1) % 16], far = s->words[(i + 14) % 16];

			word += (SGPU_SHA_TURN(near, 7) ^ SGPU_SHA_TURN(near, 18) ^ near >> 3) +
				s->words[(i + 9) % 16] +
				(SGPU_SHA_TURN(far, 17) ^ SGPU_SHA_TURN(far, 19) ^ far >> 10);
			s->words[i % 16] = word;
		}
		t = h + (SGPU_SHA_TURN(e, 6) ^ SGPU_SHA_TURN(e, 11) ^ SGPU_SHA_TURN(e, 25)) +
		    ((e & f) ^ (~e & g)) + sgpu_sha_constants[i] + word;
		h = g;
		g = f;
		f = e;
		e = d + t;
		t += (SGPU_SHA_TURN(a, 2) ^ SGPU_SHA_TURN(a, 13) ^ SGPU_SHA_TURN(a, 22)) +
		     ((a & b) ^ (a & c) ^ (b & c));
		d = c;
		c = b;
		b = a;
		a = t;
	}
	s->state[0] += a;
	s->state[1] += b;
	s->state[2] += c;
	s->state[3] += d;
	s->state[4] += e;
	s->state[5] += f;
	s->state[6] += g;
	s->state[7] += h;
}

SGPU_ON_DEVICE void sgpu_sha_begin(struct sgpu_sha *s)
{
	s->state[0] = 0x6a09e667;
	s->state[1] = 0xbb67ae85;
	s->state[2] = 0x3c6ef372;
	s->state[3] = 0xa54ff53a;
	s->state[4] = 0x510e527f;
	s->state[5] = 0x9b05688c;
	s->state[6] = 0x1f83d9ab;
	s->state[7] = 0x5be0cd19;
	s->size = 0;
}

SGPU_ON_DEVICE void sgpu_sha_byte(struct sgpu_sha *s, uint32_t byte)
{
	uint32_t at = s->size % 64, shift = 24 - 8 * (at % 4);

	s->words[at / 4] = (at % 4 ? s->words[at / 4] : 0) | byte << shift;
	s->size++;
	if (at == 63) {
		sgpu_sha_block(s);
	}
}

/* Takes less than 2^29 bytes in all. */
SGPU_ON_DEVICE_CALLED void sgpu_sha_update(struct sgpu_sha *s, const void *data, uint32_t size)
{
	const uint8_t *bytes = (const uint8_t *)data;

	SGPU_ROLL
	for (uint32_t i = 0; i < size; i++) {
		sgpu_sha_byte(s, bytes[i]);
	}
}

SGPU_ON_DEVICE_CALLED void sgpu_sha_end(struct sgpu_sha *s, uint8_t digest[32])
{
	uint32_t size = s->size;

	sgpu_sha_byte(s, 0x80);
	while (s->size % 64 != 56) {
		sgpu_sha_byte(s, 0);
	}
	for (int i = 0; i < 8; i++) {
		sgpu_sha_byte(s, i < 4 ? 0 : size << 3 >> (56 - 8 * i) & 0xff);
	}
	for (int i = 0; i < 32; i++) {
		digest[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
	}
}

/* key_size is at most 64. */
SGPU_ON_DEVICE void sgpu_hmac_begin(struct sgpu_hmac *m, const void *key, uint32_t key_size)
{
	const uint8_t *bytes = (const uint8_t *)key;

	sgpu_sha_begin(&m->sha);
	for (uint32_t i = 0; i < 64; i++) {
		m->key[i] = i < key_size ? bytes[i] : 0;
		sgpu_sha_byte(&m->sha, m->key[i] ^ 0x36u);
	}
}

SGPU_ON_DEVICE void sgpu_hmac_update(struct sgpu_hmac *m, const void *data, uint32_t size)
{
	sgpu_sha_update(&m->sha, data, size);
}

SGPU_ON_DEVICE void sgpu_hmac_end(struct sgpu_hmac *m, uint8_t mac[32])
{
	sgpu_sha_end(&m->sha, m->inner);
	sgpu_sha_begin(&m->sha);
	for (int i = 0; i < 64; i++) {
		sgpu_sha_byte(&m->sha, m->key[i] ^ 0x5cu);
	}
	sgpu_sha_update(&m->sha, m->inner, 32);
	sgpu_sha_end(&m->sha, mac);
}

#endif
