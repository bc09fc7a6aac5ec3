/* SPDX-License-Identifier: Apache-2.0
 *
 * AES-256-GCM's counter mode without its authentication: only for timing what each of the two
 * costs.
 */
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include "crypto/internal.h"

enum { BLOCK = 16, PIECE = 1 << 30 };

int sgpu_aes_ctr(const uint8_t key[SGPU_KEY_SIZE], const uint8_t nonce[SGPU_NONCE_SIZE],
		 const uint8_t *in, size_t size, uint8_t *out)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint8_t counter[BLOCK] = { 0 };
	int part = 0, rc = SGPU_OK;

	memcpy(counter, nonce, SGPU_NONCE_SIZE);
	counter[BLOCK - 1] = 2; /* SP 800-38D: counter 1 is for the tag */
	if (!context || EVP_EncryptInit_ex2(context, EVP_aes_256_ctr(), key, counter, NULL) != 1) {
		rc = SGPU_EDEVICE;
	}
	while (rc == SGPU_OK && size > 0) {
		size_t piece = size < PIECE ? size : PIECE;

		if (EVP_EncryptUpdate(context, out, &part, in, (int)piece) != 1) {
			rc = SGPU_EDEVICE;
		}
		in += piece;
		size -= piece;
		out += piece;
	}
	if (rc != SGPU_OK) {
		ERR_clear_error();
	}
	EVP_CIPHER_CTX_free(context);
	return rc;
}
