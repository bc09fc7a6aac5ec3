/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes a second of AES-256-GCM on one core with everything in cache: `aead [PROVIDER [SECONDS]]` seals one chunk of
 * the sealed format again and again, and prints one number.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>
#include <sgpu/seal.h>

enum { ROUND = 256 }; /* chunks between looks at the clock */

static int run_round(struct sgpu_aead *aead, const uint8_t *in, uint8_t *out)
{
	uint8_t nonce[SGPU_NONCE_SIZE] = { 0 };
	uint8_t tag[SGPU_TAG_SIZE];

	for (int i = 0; i < ROUND; i++) {
		nonce[0] = (uint8_t)i;
		if (sgpu_aead_seal(aead, nonce, in, SGPU_CHUNK, out, tag)) {
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t in[SGPU_CHUNK], out[SGPU_CHUNK];
	const uint8_t key[SGPU_KEY_SIZE] = { 1 };
	const char *provider = argc > 1 && argv[1][0] ? argv[1] : NULL;
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	struct sgpu_aead *aead = NULL;
	struct sgpu_error error = { 0 };
	uint64_t start, now, rounds = 0;

	if (sgpu_aead_create(provider, key, &aead, &error)) {
		fprintf(stderr, "aead: %s\n", error.text);
		return 3;
	}
	start = sgpu_now_ns();
	do {
		if (run_round(aead, in, out)) {
			return 3;
		}
		rounds++;
		now = sgpu_now_ns();
	} while ((double)(now - start) < seconds * 1e9);
	printf("%.0f\n", (double)rounds * ROUND * SGPU_CHUNK / ((double)(now - start) / 1e9));
	sgpu_aead_free(&aead);
	return 0;
}
