/* SPDX-License-Identifier: Apache-2.0
 *
 * HKDF (RFC 5869).
 */
#include <string.h>

#include <sgpu/base.h>

#include "crypto/internal.h"

enum { ROUNDS_MAX = 255 };

/* Uses our own HMAC, which looks up no algorithm by name. */
int sgpu_hkdf_expand(size_t digest_size, const uint8_t *prk, size_t prk_size, const void *info,
		     size_t info_size, uint8_t *out, size_t size, struct sgpu_error *error)
{
	uint8_t block[SGPU_SHA512_SIZE] = { 0 };
	int rc = SGPU_OK;

	if (size > ROUNDS_MAX * digest_size) {
		return sgpu_fail(error, SGPU_EUSAGE, "HKDF yields at most %zu bytes, not %zu",
				 ROUNDS_MAX * digest_size, size);
	}
	for (uint8_t i = 1; rc == SGPU_OK && size > 0; i++) {
		const struct sgpu_piece pieces[] = { { block, i > 1 ? digest_size : 0 },
						     { info, info_size },
						     { &i, 1 } };
		const size_t part = size < digest_size ? size : digest_size;

		rc = sgpu_hmac_pieces(digest_size, prk, prk_size, pieces, SGPU_ARRAY_LENGTH(pieces),
				      block, error);
		if (rc == SGPU_OK) {
			memcpy(out, block, part);
			out += part;
			size -= part;
		}
	}
	sgpu_wipe(block, sizeof(block));
	return rc;
}

int sgpu_hkdf_sha256(const uint8_t *ikm, size_t ikm_size, const void *salt, size_t salt_size,
		     const void *info, size_t info_size, uint8_t *out, size_t size,
		     struct sgpu_error *error)
{
	uint8_t prk[SGPU_SHA256_SIZE] = { 0 };
	int rc = sgpu_hmac_sha256(salt, salt_size, ikm, ikm_size, prk, error);

	rc = rc ? rc
		: sgpu_hkdf_expand(sizeof(prk), prk, sizeof(prk), info, info_size, out, size,
				   error);
	sgpu_wipe(prk, sizeof(prk));
	return rc;
}
