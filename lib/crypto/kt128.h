/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of KangarooTwelve (RFC 9861, KT128), for those who compute its leaves elsewhere. The
 * message with its customisation string and the length of that is cut into chunks; chunk 0 goes
 * into the final node itself, every other is a leaf that gives a chaining value.
 */
#ifndef SGPU_CRYPTO_KT128_H
#define SGPU_CRYPTO_KT128_H

#include <stddef.h>
#include <stdint.h>

#include <crypto/keccak.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_KT128_CHUNK = 8192,
	SGPU_KT128_VALUE = 32,	   /* a chaining value */
	SGPU_KT128_LENGTH_MAX = 9, /* an encoded length */
	SGPU_KT128_MARKER = 8,	   /* 0x03 and zeros: between chunk 0 and the chaining values */
	/* Domain separation bytes: the whole message in one node, a leaf, the final node over
	   leaves. */
	SGPU_KT128_SINGLE = 0x07,
	SGPU_KT128_LEAF = 0x0b,
	SGPU_KT128_FINAL = 0x06,
};

/* The RFC's length_encode: how many bytes of `out` it took. */
unsigned sgpu_kt128_length(uint64_t value, uint8_t out[]);
/* Chaining values of `count` whole leaves that follow each other. */
void sgpu_kt128_leaves(const uint8_t *data, uint64_t count, uint8_t *values);
/* The marker, with chunk 0 in the node. */
void sgpu_kt128_mark(struct sgpu_turboshake *node);
/* Ends the final node after `count` chaining values. */
void sgpu_kt128_end(struct sgpu_turboshake *node, uint64_t count, uint8_t *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
