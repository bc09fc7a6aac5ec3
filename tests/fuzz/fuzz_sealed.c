/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the sealed segment. The first byte chooses: the input is the segment; a good header stands
 * before the input, so that its chunks are reached; or it is sealed, and one flipped bit of the
 * result must be noticed.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/seal.h>

#include "batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 17 }; /* more than libFuzzer's inputs, or than what is sealed here */
static const uint8_t key[SGPU_KEY_SIZE] = { 42 };
static uint8_t header[SGPU_SEALED_HEADER + SGPU_TAG_SIZE], text[ROOM], sealed[ROOM], out[ROOM];

static void open_one(size_t size)
{
	uint64_t plain = 0, back = 0;
	bool valid = sgpu_sealed_plaintext_size(size, &plain);

	if ((valid && (!sgpu_sealed_size(plain, &back) || back != size)) ||
	    (!sgpu_open_memory(key, NULL, 0, sealed, size, out, NULL) && !valid)) {
		abort();
	}
}

static void flip_one(const uint8_t *data, size_t size)
{
	size_t plain = (size_t)data[0] << 8 | data[1], at = (size_t)data[2] << 8 | data[3];
	uint64_t sealed_size = 0;

	for (size_t i = 0; i < plain; i++) {
		text[i] = data[i % size];
	}
	if (!sgpu_sealed_size(plain, &sealed_size) ||
	    sgpu_seal_memory(key, data, 4, text, plain, sealed, NULL) ||
	    sgpu_open_memory(key, data, 4, sealed, sealed_size, out, NULL) ||
	    memcmp(text, out, plain)) {
		abort();
	}
	sealed[at % sealed_size] ^= (uint8_t)(1u << (data[4] & 7));
	if (!sgpu_open_memory(key, data, 4, sealed, sealed_size, out, NULL)) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > ROOM / 2 ||
	    (!header[0] && sgpu_seal_memory(key, NULL, 0, NULL, 0, header, NULL))) {
		return 0;
	}
	if (data[0] % 3 == 2 && size > 5) {
		flip_one(data + 1, size - 1);
		return 0;
	}
	size_t ahead = data[0] % 3 == 1 ? SGPU_SEALED_HEADER : 0;
	memcpy(sealed, header, ahead);
	memcpy(sealed + ahead, ahead ? data + 1 : data, ahead ? size - 1 : size);
	open_one(ahead + size - (ahead ? 1 : 0));
	return 0;
}
