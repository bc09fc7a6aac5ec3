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
	*sealed_size = SGPU_SEALED_HEADER + sgpu_run_sealed_size(size, true);
	return true;
}

uint64_t sgpu_run_sealed_size(uint64_t size, bool last)
{
	return size + SGPU_TAG_SIZE * (size / SGPU_CHUNK + last);
}

uint64_t sgpu_opened_size(uint64_t size)
{
	uint64_t rest = size % SGPU_SEALED_CHUNK;

	return size / SGPU_SEALED_CHUNK * SGPU_CHUNK +
	       (rest > SGPU_TAG_SIZE ? rest - SGPU_TAG_SIZE : 0);
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
