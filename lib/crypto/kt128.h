/* SPDX-License-Identifier: Apache-2.0
 *
 * KangarooTwelve (RFC 9861, KT128) for code that computes its leaves elsewhere, the sponge under
 * it, and what measures of memory (crypto/crypto.h) share on the host and on a device.
 */
#ifndef SGPU_CRYPTO_KT128_H
#define SGPU_CRYPTO_KT128_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/crypto.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keccak.c: TurboSHAKE128, a sponge over Keccak-p[1600, 12] with a rate of 168 bytes ----
 * Call absorb, then finish, then squeeze. The owner of a state that saw secrets wipes it. */
enum { SGPU_KECCAK_LANES = 25, SGPU_TURBOSHAKE_RATE = 168 };

struct sgpu_turboshake {
	uint64_t lanes[SGPU_KECCAK_LANES]; /* lane i holds bytes 8 i to 8 i + 7 of the state,
					      little-endian */
	unsigned at; /* bytes of the current block that were absorbed or squeezed */
};

void sgpu_turboshake_absorb(struct sgpu_turboshake *sponge, const void *data, size_t size);
/* Pads with the domain separation byte, 0x01 to 0x7f. */
void sgpu_turboshake_finish(struct sgpu_turboshake *sponge, uint8_t domain);
void sgpu_turboshake_squeeze(struct sgpu_turboshake *sponge, uint8_t *out, size_t size);

/* Absorbs whole blocks of a rate each into a sponge that holds no part of a block. */
void sgpu_keccak_blocks(uint64_t lanes[], const uint8_t *data, size_t blocks);
/* The same in plain C, for every CPU, and with AVX-512. */
void sgpu_keccak_blocks_plain(uint64_t lanes[], const uint8_t *data, size_t blocks);
void sgpu_keccak_blocks_planes(uint64_t lanes[], const uint8_t *data, size_t blocks);

/* ---- the tree ----
 * The message, its customisation string and the string's length are cut into chunks. Chunk 0 goes
 * into the final node; every other is a leaf that gives a chaining value. */
enum {
	SGPU_KT128_CHUNK = 8192,
	SGPU_KT128_VALUE = 32,	   /* bytes of a chaining value */
	SGPU_KT128_LENGTH_MAX = 9, /* most bytes of an encoded length */
	SGPU_KT128_MARKER = 8, /* bytes: 0x03 and zeros, between chunk 0 and the chaining values */
	/* Domain separation bytes of a message in one node, a leaf, a final node over leaves. */
	SGPU_KT128_SINGLE = 0x07,
	SGPU_KT128_LEAF = 0x0b,
	SGPU_KT128_FINAL = 0x06,
};

/* The RFC's length_encode. Returns how many bytes of `out` it took. */
unsigned sgpu_kt128_length(uint64_t value, uint8_t out[]);
void sgpu_kt128_leaves(const uint8_t *data, uint64_t count, uint8_t *values);
/* Ends the final node, after `count` chaining values. */
void sgpu_kt128_end(struct sgpu_turboshake *node, uint64_t count, uint8_t *out, size_t size);

/* ---- kt128.c: a digest under way ---- */
struct sgpu_kt128 {
	struct sgpu_turboshake node; /* the final node */
	struct sgpu_turboshake leaf; /* the leaf that is not whole yet */
	bool in_leaves;		     /* chunk 0 and the marker were absorbed */
	size_t filled;		     /* bytes of the current chunk */
	uint64_t leaves;	     /* chaining values that the node has taken */
};

/* Begin with zeros, update any number of times, finish once. */
void sgpu_kt128_update(struct sgpu_kt128 *state, const void *data, size_t size);
void sgpu_kt128_finish(struct sgpu_kt128 *state, const void *custom, size_t custom_size,
		       uint8_t *digest, size_t digest_size);
/* Whether the next byte starts a leaf, so that whole leaves may be computed elsewhere. */
bool sgpu_kt128_at_leaf(struct sgpu_kt128 *state);
/* Adds the chaining values of `count` whole leaves to the node. */
void sgpu_kt128_take(struct sgpu_kt128 *state, const uint8_t *values, uint64_t count);

/* ---- measure.c ---- */
/* The customisation string of a measure's digests, secret if it has a key. */
struct sgpu_measure_custom {
	size_t size;
	uint8_t bytes[sizeof(SGPU_MEASURE_CUSTOM) + SGPU_KEY_SIZE];
};
/* key: SGPU_KEY_SIZE bytes, or NULL. */
void sgpu_measure_custom(const uint8_t *key, struct sgpu_measure_custom *custom);

#ifdef __cplusplus
}
#endif
#endif
