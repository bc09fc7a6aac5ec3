/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers and bytes in messages: little endian, without padding. Once a reader is asked for more
 * bytes than are left, it stays `bad`, and reading gives zeros.
 */
#ifndef SGPU_CHANNEL_WIRE_H
#define SGPU_CHANNEL_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sgpu_reader {
	const uint8_t *next;
	size_t left;
	bool bad;
};

static inline const uint8_t *sgpu_take(struct sgpu_reader *reader, size_t size)
{
	const uint8_t *at = reader->next;

	if (reader->bad || size > reader->left) {
		reader->bad = true;
		return NULL;
	}
	reader->next += size;
	reader->left -= size;
	return at;
}

static inline void sgpu_take_bytes(struct sgpu_reader *reader, void *to, size_t size)
{
	const uint8_t *at = sgpu_take(reader, size);

	if (at) {
		memcpy(to, at, size);
	} else {
		memset(to, 0, size);
	}
}

static inline uint64_t sgpu_take_integer(struct sgpu_reader *reader, size_t size)
{
	const uint8_t *at = sgpu_take(reader, size);
	uint64_t value = 0;

	for (size_t i = 0; at && i < size; i++) {
		value |= (uint64_t)at[i] << 8 * i;
	}
	return value;
}

static inline uint8_t sgpu_take_u8(struct sgpu_reader *reader)
{
	return (uint8_t)sgpu_take_integer(reader, 1);
}

static inline uint32_t sgpu_take_u32(struct sgpu_reader *reader)
{
	return (uint32_t)sgpu_take_integer(reader, 4);
}

static inline uint64_t sgpu_take_u64(struct sgpu_reader *reader)
{
	return sgpu_take_integer(reader, 8);
}

static inline uint8_t *sgpu_put_bytes(uint8_t *at, const void *bytes, size_t size)
{
	if (size > 0) {
		memcpy(at, bytes, size);
	}
	return at + size;
}

static inline uint8_t *sgpu_put_u32(uint8_t *at, uint32_t value)
{
	for (int i = 0; i < 4; i++) {
		*at++ = (uint8_t)(value >> 8 * i);
	}
	return at;
}

static inline uint8_t *sgpu_put_u64(uint8_t *at, uint64_t value)
{
	return sgpu_put_u32(sgpu_put_u32(at, (uint32_t)value), (uint32_t)(value >> 32));
}

#endif
