/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of chunks, and whole segments, in memory.
 */
#include <sgpu/seal.h>

int sgpu_seal_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys, uint64_t first,
		     bool last, const uint8_t *in, size_t size, uint8_t *out)
{
	uint8_t nonce[SGPU_NONCE_SIZE];

	if (!last && size % SGPU_CHUNK) {
		return SGPU_EUSAGE;
	}
	for (;; first++) {
		size_t part = size < SGPU_CHUNK ? size : SGPU_CHUNK;
		if (part < SGPU_CHUNK && !last) {
			return 0;
		}
		sgpu_sealed_nonce(keys, first, nonce);
		int code = sgpu_aead_seal(aead, nonce, in, part, out, out + part);
		if (code || part < SGPU_CHUNK) {
			return code;
		}
		in += part;
		size -= part;
		out += part + SGPU_TAG_SIZE;
	}
}

int sgpu_open_chunks(struct sgpu_aead *aead, const struct sgpu_sealed_keys *keys, uint64_t first,
		     bool last, const uint8_t *in, size_t size, uint8_t *out, uint64_t *bad_chunk)
{
	uint8_t nonce[SGPU_NONCE_SIZE];
	int code = 0;

	for (; size >= SGPU_SEALED_CHUNK && !code; first++) {
		sgpu_sealed_nonce(keys, first, nonce);
		code = sgpu_aead_open(aead, nonce, in, SGPU_CHUNK, out, in + SGPU_CHUNK);
		if (code) {
			break;
		}
		in += SGPU_SEALED_CHUNK;
		size -= SGPU_SEALED_CHUNK;
		out += SGPU_CHUNK;
	}
	if (!code && last && size >= SGPU_TAG_SIZE) {
		sgpu_sealed_nonce(keys, first, nonce);
		code = sgpu_aead_open(aead, nonce, in, size - SGPU_TAG_SIZE, out,
				      in + size - SGPU_TAG_SIZE);
	} else if (!code && (last || size)) {
		/* No end mark where there must be one, or something shorter than a chunk inside. */
		code = SGPU_EAUTH;
	}
	if (code && bad_chunk) {
		*bad_chunk = first;
	}
	return code;
}
