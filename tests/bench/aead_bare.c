/* SPDX-License-Identifier: Apache-2.0
 *
 * What OpenSSL's AES-256-GCM takes to seal a chunk of the sealed format: a nonce, 16 KiB, the tag.
 * Prints the median of blocks of 64 chunks, in nanoseconds a chunk. By itself, so that sgpu-bench
 * has something to agree with; see agree.sh.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>

enum { BLOCKS = 301, BLOCK = 64, CHUNK = 16384 };

static int by_value(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

static int seal(EVP_CIPHER_CTX *context, const unsigned char *in, unsigned char *out)
{
	static const unsigned char nonce[12] = { 2 };
	unsigned char tag[16];
	int size;

	return EVP_EncryptInit_ex(context, NULL, NULL, NULL, nonce) &&
	       EVP_EncryptUpdate(context, out, &size, in, CHUNK) &&
	       EVP_EncryptFinal_ex(context, out + size, &size) &&
	       EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, sizeof(tag), tag);
}

int main(void)
{
	static const unsigned char key[32] = { 1 };
	static unsigned char in[CHUNK], out[CHUNK];
	static double ns[BLOCKS];
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	int good = context && EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, NULL);
	struct timespec begin, end;

	for (int i = 0; good && i < BLOCKS; i++) {
		memset(in, i, sizeof(in));
		clock_gettime(CLOCK_MONOTONIC_RAW, &begin);
		for (int j = 0; good && j < BLOCK; j++) {
			good = seal(context, in, out);
		}
		clock_gettime(CLOCK_MONOTONIC_RAW, &end);
		ns[i] = ((double)(end.tv_sec - begin.tv_sec) * 1e9 +
			 (double)(end.tv_nsec - begin.tv_nsec)) /
			BLOCK;
	}
	EVP_CIPHER_CTX_free(context);
	if (!good) {
		fprintf(stderr, "aead_bare: OpenSSL cannot seal\n");
		return 3;
	}
	qsort(ns, BLOCKS, sizeof(*ns), by_value);
	printf("%.1f\n", ns[BLOCKS / 2]);
	return 0;
}
