/* SPDX-License-Identifier: Apache-2.0
 *
 * The sealed segment, sgpu-sealed(5): C2SP chunked-encryption, instance Cobblestone-256, as of
 * commit 6f65019.
 *
 *     salt (24) || commitment (32) || chunk_0 || ... || chunk_n
 *
 * Each chunk holds 16 KiB of plaintext and a tag; the last is always shorter, possibly empty: the
 * end mark.
 */
#ifndef SGPU_SEAL_H
#define SGPU_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	SGPU_SALT_SIZE = 24,
	SGPU_COMMITMENT_SIZE = 32,
	SGPU_SEALED_HEADER = SGPU_SALT_SIZE + SGPU_COMMITMENT_SIZE,
	SGPU_CHUNK = 16384, /* plaintext bytes of a full chunk */
	SGPU_SEALED_CHUNK = SGPU_CHUNK + SGPU_TAG_SIZE,
	SGPU_CONTEXT_MAX = 4096, /* bytes of context that the key schedule takes */
};
#define SGPU_SEALED_PLAINTEXT_MAX (((uint64_t)1 << 52) - 1)

/* Sealed bytes for `size` plaintext bytes; false when size is out of range. Always at least 72. */
bool sgpu_sealed_size(uint64_t size, uint64_t *sealed_size);
/* The inverse; false for a length that no plaintext has. */
bool sgpu_sealed_plaintext_size(uint64_t sealed_size, uint64_t *size);
/* The same for chunks without the header: sealed bytes for `size` plaintext bytes, which are whole
 * chunks without `last`. */
uint64_t sgpu_run_sealed_size(uint64_t size, bool last);
/* How many bytes opening `size` sealed bytes may write, whether they are whole or were cut short:
 * whole chunks are written before a rest that is shorter than a tag is found to be wrong. */
uint64_t sgpu_opened_size(uint64_t size);

/* The key schedule of one sealed segment. Wipe with sgpu_wipe. */
struct sgpu_sealed_keys {
	uint8_t salt[SGPU_SALT_SIZE];
	uint8_t commitment[SGPU_COMMITMENT_SIZE];
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t base_nonce[SGPU_NONCE_SIZE];
};

/* For sealing: draws a random salt and derives the rest. `key` is the segment key (the
 * specification's input key), used once or few times, `context` what the segment is bound to. */
SGPU_MUST_CHECK int sgpu_sealed_keys_new(const uint8_t key[SGPU_KEY_SIZE], const void *context,
					 size_t context_size, struct sgpu_sealed_keys *keys,
					 struct sgpu_error *error);
/* For opening: derives the keys from the first 56 bytes. Errors: SGPU_EKEY when the commitment,
 * compared in constant time, does not match: the wrong key, or another context. */
SGPU_MUST_CHECK int sgpu_sealed_keys_open(const uint8_t key[SGPU_KEY_SIZE], const void *context,
					  size_t context_size,
					  const uint8_t header[SGPU_SEALED_HEADER],
					  struct sgpu_sealed_keys *keys, struct sgpu_error *error);
void sgpu_sealed_header(const struct sgpu_sealed_keys *keys, uint8_t header[SGPU_SEALED_HEADER]);
/* nonce = base_nonce XOR chunk, big endian. */
void sgpu_sealed_nonce(const struct sgpu_sealed_keys *keys, uint64_t chunk,
		       uint8_t nonce[SGPU_NONCE_SIZE]);

struct sgpu_aead; /* crypto/crypto.h */

/* ---- runs of chunks, in memory; `aead` was made from keys->key ----
 * Seals `size` bytes that start at chunk `first`. All chunks are full but, with `last`, the final
 * one, which is written even when it is empty. out holds size + 16 * chunks bytes and may not
 * overlap in. Without `last`, size must be a multiple of SGPU_CHUNK. */
SGPU_MUST_CHECK int sgpu_seal_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys,
				     uint64_t first, bool last, const uint8_t *in, size_t size,
				     uint8_t *out);
/* Opens `size` sealed bytes that start at chunk `first`; the end mark is demanded when `last` and
 * refused when not. Errors: SGPU_EAUTH, *bad_chunk (unless NULL) is the chunk and nothing of `out`
 * may be used. */
SGPU_MUST_CHECK int sgpu_open_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys,
				     uint64_t first, bool last, const uint8_t *in, size_t size,
				     uint8_t *out, uint64_t *bad_chunk);

#ifdef __cplusplus
}
#endif
#endif
