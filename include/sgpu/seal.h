/* SPDX-License-Identifier: Apache-2.0
 *
 * The sealed segment, sgpu-sealed(5): C2SP chunked-encryption, instance Cobblestone-256, as of
 * commit 6f65019.
 *
 *     salt (24) || commitment (32) || chunk_0 || ... || chunk_n
 *
 * Each chunk holds 16 KiB of plaintext and a tag; the last is always shorter, possibly empty, and
 * is the end mark.
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
	SGPU_CONTEXT_MAX = 4096, /* most bytes of the key schedule's context */
};
#define SGPU_SEALED_PLAINTEXT_MAX (((uint64_t)1 << 52) - 1)

/* Sealed bytes for `size` plaintext bytes; false when size is out of range. Always at least 72. */
bool sgpu_sealed_size(uint64_t size, uint64_t *sealed_size);
/* The inverse; false for a length that no plaintext has. */
bool sgpu_sealed_plaintext_size(uint64_t sealed_size, uint64_t *size);
/* Returns the sealed bytes of a chunk run of `size` plaintext bytes, without the header. Unless
 * `last` is true, `size` is a multiple of SGPU_CHUNK. */
uint64_t sgpu_run_sealed_size(uint64_t size, bool last);
/* Returns how many bytes opening `size` sealed bytes may write, even if the last chunk was cut
 * short: whole chunks are written before a rest shorter than a tag is refused. */
uint64_t sgpu_opened_size(uint64_t size);

/* The derived keys of one sealed segment: a key for AES, a base nonce, and its header. Wipe with
 * sgpu_wipe. */
struct sgpu_sealed_keys {
	uint8_t header[SGPU_SEALED_HEADER]; /* salt || commitment */
	uint8_t key[SGPU_KEY_SIZE];
	uint8_t base_nonce[SGPU_NONCE_SIZE];
};

/* For sealing: draws a random salt and derives the rest. `key` is the segment key (the
 * specification's input key), used once or few times; `context` is what the segment is bound to. */
SGPU_MUST_CHECK int sgpu_sealed_keys_new(const uint8_t key[SGPU_KEY_SIZE], const void *context,
					 size_t context_size, struct sgpu_sealed_keys *keys,
					 struct sgpu_error *error);
/* For opening: derives the keys with the header's salt. Errors: SGPU_EKEY when the commitment,
 * compared in constant time, does not match: the wrong key, or another context. */
SGPU_MUST_CHECK int sgpu_sealed_keys_open(const uint8_t key[SGPU_KEY_SIZE], const void *context,
					  size_t context_size,
					  const uint8_t header[SGPU_SEALED_HEADER],
					  struct sgpu_sealed_keys *keys, struct sgpu_error *error);

struct sgpu_aead; /* crypto/crypto.h */

/* ---- runs of chunks, in memory; `aead` was made from keys->key ----
 * Seals `size` bytes as chunks, of which the first has the number `first`. With `last`, the final
 * chunk is shorter, and is written even when it is empty; without, size must be a multiple of
 * SGPU_CHUNK. out holds size + 16 * chunks bytes and may not overlap in. */
SGPU_MUST_CHECK int sgpu_seal_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys,
				     uint64_t first, bool last, const uint8_t *in, size_t size,
				     uint8_t *out);
/* Opens `size` sealed bytes, whose first chunk has the number `first`. The end mark is required
 * with `last`, and refused without. Errors: SGPU_EAUTH; *bad_chunk (unless NULL) is then the
 * chunk's number, and nothing in `out` may be used. */
SGPU_MUST_CHECK int sgpu_open_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys,
				     uint64_t first, bool last, const uint8_t *in, size_t size,
				     uint8_t *out, uint64_t *bad_chunk);

#ifdef __cplusplus
}
#endif
#endif
