/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that bypass the caches, from a cached buffer to memory that is not read soon. Ordinary
 * stores would first read every line that they overwrite.
 */
#include <string.h>

#include <transfer/engine.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { LINE = 64 };

static void store_lines(uint8_t *to, const uint8_t *from, size_t lines)
{
	for (; lines > 0; lines--, to += LINE, from += LINE) {
		for (size_t i = 0; i < LINE; i += 16) {
			__m128i part = _mm_loadu_si128((const __m128i *)(const void *)(from + i));

			_mm_stream_si128((__m128i *)(void *)(to + i), part);
		}
	}
}

void sgpu_transfer_store(void *to, const void *from, size_t size)
{
	size_t head = (LINE - (uintptr_t)to % LINE) % LINE, lines;

	head = head < size ? head : size;
	memcpy(to, from, head);
	lines = (size - head) / LINE;
	store_lines((uint8_t *)to + head, (const uint8_t *)from + head, lines);
	head += lines * LINE;
	memcpy((uint8_t *)to + head, (const uint8_t *)from + head, size - head);
	_mm_sfence();
}

#else

void sgpu_transfer_store(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
}

#endif
