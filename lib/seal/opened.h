/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory opening a run of chunks may write, whether the run is whole or was cut short.
 */
#ifndef SGPU_SEAL_OPENED_H
#define SGPU_SEAL_OPENED_H

#include <sgpu/seal.h>

/* Whole chunks are written before a rest that is shorter than a tag is found to be wrong. Unit: bytes, of a run of
 * `size` bytes, sealed. */
static inline uint64_t sgpu_opened_size(uint64_t size)
{
	uint64_t rest = size % SGPU_SEALED_CHUNK;

	return size / SGPU_SEALED_CHUNK * SGPU_CHUNK + (rest > SGPU_TAG_SIZE ? rest - SGPU_TAG_SIZE : 0);
}

/* Sealed bytes of `size` bytes of plaintext, whole chunks unless they are the last; last: with the end mark. */
static inline uint64_t sgpu_run_sealed_size(uint64_t size, bool last)
{
	return size + (size / SGPU_CHUNK + last) * SGPU_TAG_SIZE;
}

#endif
