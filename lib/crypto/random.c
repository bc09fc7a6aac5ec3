/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes, and the report of failures of libcrypto.
 */
#include <limits.h>

#include <openssl/err.h>
#include <openssl/rand.h>

#include "crypto/internal.h"

int sgpu_crypto_fail(struct sgpu_error *error, const char *what)
{
	unsigned long reason = ERR_peek_last_error();
	const char *text = reason ? ERR_reason_error_string(reason) : NULL;

	ERR_clear_error();
	return sgpu_fail(error, SGPU_ESYSTEM, "libcrypto: %s failed: %s", what,
			 text ? text : "no reason given");
}

int sgpu_random(void *data, size_t size, struct sgpu_error *error)
{
	uint8_t *next = data;

	while (size > 0) {
		int part = size < INT_MAX ? (int)size : INT_MAX;
		/* The private generator is used, since most of these bytes become keys. */
		if (RAND_priv_bytes(next, part) != 1) {
			return sgpu_crypto_fail(error, "the random generator");
		}
		next += part;
		size -= (size_t)part;
	}
	return 0;
}
