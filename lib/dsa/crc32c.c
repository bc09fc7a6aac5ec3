/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C as the accelerator computes it: reflected, inverted before and after, so that a CRC is
 * also the seed of what follows.
 */
#include <string.h>

#include "dsa/dsa.h"

enum { POLYNOMIAL = (int)0x82f63b78 };

static uint32_t by_bits(uint32_t crc, const uint8_t *data, size_t size)
{
	while (size-- > 0) {
		crc ^= *data++;
		for (int bit = 0; bit < 8; bit++) {
			crc = crc >> 1 ^ (crc & 1 ? (uint32_t)POLYNOMIAL : 0);
		}
	}
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data,
								 size_t size)
{
	uint64_t wide = crc, word;

	for (; size >= sizeof(word); size -= sizeof(word), data += sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	for (crc = (uint32_t)wide; size > 0; size--) {
		crc = __builtin_ia32_crc32qi(crc, *data++);
	}
	return crc;
}
#endif

uint32_t sgpu_crc32c(uint32_t crc, const void *data, size_t size)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2")) {
		return ~by_instruction(~crc, data, size);
	}
#endif
	return ~by_bits(~crc, data, size);
}
