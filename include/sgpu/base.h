/* SPDX-License-Identifier: Apache-2.0
 *
 * Base: checked numbers, encodings, wiping.
 */
#ifndef SGPU_BASE_H
#define SGPU_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SGPU_ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Overwrites `size` bytes in a way that the compiler may not remove. */
void sgpu_wipe(void *data, size_t size);

/* Wipes and frees `size` bytes, and clears the pointer to them, whose address is data_pointer.
 * Accepts NULL and a pointer to NULL. */
void sgpu_free_wiped(void *data_pointer, size_t size);

/* Compares `size` bytes, in time that depends on `size` alone. */
bool sgpu_equal(const void *a, const void *b, size_t size);

/* Parses a whole decimal number in [min, max], without sign, blanks or trailing text. `what` names
 * the number in messages. Errors: SGPU_EUSAGE. */
SGPU_MUST_CHECK int sgpu_parse_u64(const char *text, const char *what, uint64_t min, uint64_t max,
				   uint64_t *value, struct sgpu_error *error);

/* As sgpu_parse_u64, with an optional suffix K, M, G or T (powers of 1024). */
SGPU_MUST_CHECK int sgpu_parse_size(const char *text, const char *what, uint64_t min, uint64_t max,
				    uint64_t *bytes, struct sgpu_error *error);

/* Parses a duration in seconds, or with the suffix ms, s, m, h or d; fractions are allowed. It must
 * be more than 0 and at most 10 years. *ns: nanoseconds. */
SGPU_MUST_CHECK int sgpu_parse_duration(const char *text, const char *what, uint64_t *ns,
					struct sgpu_error *error);

/* Writes lower-case hexadecimal; `text` must hold 2 * size + 1 bytes. */
void sgpu_hex_encode(const void *data, size_t size, char *text);

/* Decodes exactly 2 * size digits. Errors: SGPU_EINVALID, with both lengths in the text. */
SGPU_MUST_CHECK int sgpu_hex_decode(const char *text, void *data, size_t size,
				    struct sgpu_error *error);

/* ---- untrusted text for display ----
 * Copies printable ASCII and, with `utf8`, other characters in UTF-8, except those that move the
 * cursor, change the direction of writing or are invisible. Every other byte becomes \xNN. The text
 * ends with a NUL and is cut between characters to `room` bytes (at least 1). Returns its
 * length. */
size_t sgpu_escape(const void *bytes, size_t size, char *text, size_t room, bool utf8);

/* Writes base64url without padding (RFC 4648, section 5). `text` must hold SGPU_BASE64URL_MAX(size)
 * bytes. */
#define SGPU_BASE64URL_MAX(size) (((size)*4 + 2) / 3 + 1)
void sgpu_base64url_encode(const void *data, size_t size, char *text);

/* Decodes exactly `size` bytes, unpadded; unused bits must be zero. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_base64url_decode(const char *text, void *data, size_t size,
					  struct sgpu_error *error);

/* On overflow, these return false, and *result is the value modulo 2^64. */
static inline bool sgpu_add_u64(uint64_t a, uint64_t b, uint64_t *result)
{
	return !__builtin_add_overflow(a, b, result);
}
static inline bool sgpu_mul_u64(uint64_t a, uint64_t b, uint64_t *result)
{
	return !__builtin_mul_overflow(a, b, result);
}

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t sgpu_now_ns(void);

/* Counts the processors that this process may use, by its affinity mask and the cgroup's quota; at
 * least 1. */
unsigned sgpu_cpu_count(void);

#ifdef __cplusplus
}
#endif
#endif
