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

#endif
