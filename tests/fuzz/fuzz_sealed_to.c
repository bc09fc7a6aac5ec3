/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the header of a file that is sealed to a public key: the input is the header, or says
 * which bit of a good one is flipped. Neither may open.
 */
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t nothing[SGPU_KEY_SIZE];
	static uint8_t header[SGPU_SEALED_TO], drawn[SGPU_KEY_SIZE], opened[SGPU_KEY_SIZE];
	static struct sgpu_key key;
	char kid[SGPU_KID_SIZE + 1] = "";

	if (!key.kid[0] && (sgpu_key_generate(SGPU_KEY_X25519, &key, NULL) ||
			    sgpu_sealed_to_make(&key, drawn, header, NULL))) {
		abort();
	}
	if (!sgpu_sealed_to_open(&key, data, size, opened, NULL) ||
	    memcmp(opened, nothing, sizeof(opened)) ||
	    (sgpu_sealed_to_kid(data, size, kid) && strlen(kid) != SGPU_KID_SIZE)) {
		abort();
	}
	if (size < 2) {
		return 0;
	}
	const size_t at = data[0] % SGPU_SEALED_TO, bit = 1u << (data[1] & 7);

	header[at] ^= (uint8_t)bit;
	if (!sgpu_sealed_to_open(&key, header, sizeof(header), opened, NULL) ||
	    memcmp(opened, nothing, sizeof(opened))) {
		abort();
	}
	header[at] ^= (uint8_t)bit;
	if (sgpu_sealed_to_open(&key, header, sizeof(header), opened, NULL) ||
	    memcmp(opened, drawn, sizeof(opened))) {
		abort();
	}
	return 0;
}
