/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files on keys share.
 */
#ifndef SGPU_CRYPTO_KEY_H
#define SGPU_CRYPTO_KEY_H

#include <sgpu/crypto.h>

enum { SGPU_KEY_TEXT_MAX = 16384 };

/* Fills key->kid with the thumbprint (RFC 7638) of what else is in *key. */
SGPU_MUST_CHECK int sgpu_key_thumbprint(struct sgpu_key *key, struct sgpu_error *error);

/* The text of a file that is secret whatever is in it, under the rules of sgpu_key_load. *name is what messages call it,
 * static or the path itself; free *text with sgpu_free_wiped. */
SGPU_MUST_CHECK int sgpu_secret_load(const char *path, size_t limit, const char **name, char **text, size_t *size,
				     struct sgpu_error *error);

#endif
