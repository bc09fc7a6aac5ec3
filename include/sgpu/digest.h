/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests by KangarooTwelve (RFC 9861, KT128) on several cores, of memory and of files, beside the
 * plain functions of sgpu/crypto.h: their result is the same. KT128 is a tree of leaves of 8 KiB,
 * which the workers of a pool compute; the calling thread holds one of the pool's tokens. pool
 * NULL: the calling thread computes them all.
 */
#ifndef SGPU_DIGEST_H
#define SGPU_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>
#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SGPU_KT128_SIZE = 32 }; /* bytes of a digest wherever sgpu stores one */

/* A place in a file that is read or written by position, by several threads at once. */
struct sgpu_file_place {
	int fd;
	const char *name; /* for messages */
	uint64_t offset;  /* bytes */
};
/* Adds `size` bytes of a file and, unless `copy` is NULL, writes the very bytes that it added to
 * another one. Each worker reads, digests and writes a few leaves at a time, in memory that is not
 * wiped. Errors: SGPU_ENOMEM; SGPU_ESYSTEM, also when the file ends early; SGPU_ECANCELED when the
 * pool was cancelled or after sgpu_io_interrupt. After one the state can only be freed. */
SGPU_MUST_CHECK int sgpu_kt128_update_file(struct sgpu_kt128 *state, struct sgpu_pool *pool,
					   const struct sgpu_file_place *from,
					   const struct sgpu_file_place *copy, uint64_t size,
					   struct sgpu_error *error);

/* ---- the measure of memory and of a module's image, sgpu-quote(5) ---- */
/* Pages count from the start of the data; the last one may be shorter. Each has a digest, and the
 * measure is the digest of their list, so that all pages are digested at once. Customisation string
 * of all: SGPU_MEASURE_CUSTOM, and with a key a zero byte and the key's SGPU_KEY_SIZE bytes. */
#define SGPU_MEASURE_CUSTOM "sgpu measure v1"
enum { SGPU_MEASURE_PAGE = 2 << 20 }; /* bytes */

/* key may be NULL. The second one computes on the workers of a pool. Errors: SGPU_ENOMEM,
 * SGPU_ECANCELED. */
void sgpu_measure_pages(const void *data, uint64_t size, const uint8_t *key,
			uint8_t digest[SGPU_KT128_SIZE]);
SGPU_MUST_CHECK int sgpu_measure_pages_shared(struct sgpu_pool *pool, const void *data,
					      uint64_t size, const uint8_t *key,
					      uint8_t digest[SGPU_KT128_SIZE],
					      struct sgpu_error *error);

#ifdef __cplusplus
}
#endif
#endif
