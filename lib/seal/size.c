/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths of the sealed segment.
 */
#include <sgpu/seal.h>

bool sgpu_sealed_size(uint64_t size, uint64_t *sealed_size)
{
	if (size > SGPU_SEALED_PLAINTEXT_MAX) {
		return false;
	}
	*sealed_size = SGPU_SEALED_HEADER + size + SGPU_TAG_SIZE * (size / SGPU_CHUNK + 1);
	return true;
}

bool sgpu_sealed_plaintext_size(uint64_t sealed_size, uint64_t *size)
{
	if (sealed_size < SGPU_SEALED_HEADER + SGPU_TAG_SIZE) {
		return false;
	}
	uint64_t full = (sealed_size - SGPU_SEALED_HEADER) / SGPU_SEALED_CHUNK;
	uint64_t last = (sealed_size - SGPU_SEALED_HEADER) % SGPU_SEALED_CHUNK;
	if (full > SGPU_SEALED_PLAINTEXT_MAX / SGPU_CHUNK || last < SGPU_TAG_SIZE) {
		return false;
	}
	*size = full * SGPU_CHUNK + (last - SGPU_TAG_SIZE);
	return true;
}
