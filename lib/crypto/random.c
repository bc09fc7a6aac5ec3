/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes, and the report of failures of libcrypto.
 */
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
	/* The private generator is used, since most of these bytes become keys. */
	return RAND_priv_bytes_ex(NULL, data, size, 0) == 1
		       ? 0
		       : sgpu_crypto_fail(error, "the random generator");
}
