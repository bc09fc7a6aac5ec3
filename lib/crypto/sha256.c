/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256.
 */
#include "crypto/internal.h"

int sgpu_sha256(const void *data, size_t size, uint8_t digest[SGPU_SHA256_SIZE],
		struct sgpu_error *error)
{
	return EVP_Digest(size ? data : "", size, digest, NULL, EVP_sha256(), NULL) == 1
		       ? 0
		       : sgpu_crypto_fail(error, "SHA-256");
}
