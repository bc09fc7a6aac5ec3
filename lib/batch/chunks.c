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

int sgpu_seal_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		     const void *plaintext, size_t size, void *sealed, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	struct sgpu_aead *aead = NULL;
	uint64_t sealed_size;

	if (!sgpu_sealed_size(size, &sealed_size)) {
		return sgpu_fail(error, SGPU_EUSAGE, "%zu bytes are too many to seal", size);
	}
	int code = sgpu_sealed_keys_new(key, context, context_size, &keys, error);
	if (!code) {
		code = sgpu_aead_create(NULL, keys.key, &aead, error);
	}
	if (!code) {
		sgpu_sealed_header(&keys, sealed);
		code = sgpu_seal_chunks(aead, &keys, 0, true, plaintext, size,
					(uint8_t *)sealed + SGPU_SEALED_HEADER);
		if (code) {
			(void)sgpu_fail(error, code, "AES-256-GCM failed");
		}
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return code;
}

int sgpu_open_memory(const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
		     const void *sealed, size_t sealed_size, void *plaintext,
		     struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys = { .salt = { 0 } };
	struct sgpu_aead *aead = NULL;
	uint64_t size, bad_chunk = 0;

	if (!sgpu_sealed_plaintext_size(sealed_size, &size)) {
		return sgpu_fail(
			error, SGPU_EAUTH,
			"%zu bytes are not a length of sealed data: cut short, or no such data",
			sealed_size);
	}
	int code = sgpu_sealed_keys_open(key, context, context_size, sealed, &keys, error);
	if (!code) {
		code = sgpu_aead_create(NULL, keys.key, &aead, error);
	}
	if (!code) {
		code = sgpu_open_chunks(aead, &keys, 0, true,
					(const uint8_t *)sealed + SGPU_SEALED_HEADER,
					sealed_size - SGPU_SEALED_HEADER, plaintext, &bad_chunk);
		if (code == SGPU_EAUTH) {
			(void)sgpu_fail(error, code,
					"authentication failed at chunk %llu (offset %llu)",
					(unsigned long long)bad_chunk,
					(unsigned long long)(SGPU_SEALED_HEADER +
							     bad_chunk * SGPU_SEALED_CHUNK));
		} else if (code) {
			(void)sgpu_fail(error, code, "AES-256-GCM failed");
		}
	}
	if (code) {
		sgpu_wipe(plaintext, size);
	}
	sgpu_aead_free(&aead);
	sgpu_wipe(&keys, sizeof(keys));
	return code;
}
