/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files on keys.
 */
#ifndef SGPU_CRYPTO_KEY_H
#define SGPU_CRYPTO_KEY_H

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "base/json.h"

enum { SGPU_KEY_TEXT_MAX = 16384 };

/* ---- key.c ---- */
/* Parses a key's text, which must be an object and is not quoted in messages. Errors:
 * SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_key_object(const char *text, size_t size, const char *name,
				    json_t **object, struct sgpu_error *error);
/* Fills key->kid with the thumbprint (RFC 7638) of the key. */
SGPU_MUST_CHECK int sgpu_key_thumbprint(struct sgpu_key *key, struct sgpu_error *error);
const char *sgpu_key_algorithm(const struct sgpu_key *key); /* the "alg" of JWS */
/* Makes an object of the public half's members, of which the thumbprint is computed. NULL: out of
 * memory. */
json_t *sgpu_key_public_json(const struct sgpu_key *key);
bool sgpu_key_set_secret(const struct sgpu_key_set *set);

/* ---- key_load.c ---- */
/* Reads a file whose whole content is secret, under the rules of sgpu_key_load. *name is for
 * messages: static, or the path itself. Free *text with sgpu_free_wiped. */
SGPU_MUST_CHECK int sgpu_secret_load(const char *path, size_t limit, const char **name, char **text,
				     size_t *size, struct sgpu_error *error);

/* Decrypts a key file that a passphrase protects. NULL unless the program takes such files:
 * sgpu_key_ask sets it. */
extern int (*sgpu_key_unlock)(const char *name, char **text, size_t *size,
			      struct sgpu_error *error);

/* ---- sign.c ---- */
/* Checks that the public half belongs to the secret and is a point of its curve, not of low order.
 * Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_key_check(const struct sgpu_key *key, struct sgpu_error *error);
/* Errors: SGPU_EKEY when the secret is not known. */
SGPU_MUST_CHECK int sgpu_signing_sign(const struct sgpu_key *key, const void *data, size_t size,
				      uint8_t signature[SGPU_SIGNATURE_SIZE],
				      struct sgpu_error *error);
/* Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int sgpu_signing_verify(const struct sgpu_key *key, const void *data, size_t size,
					const uint8_t signature[SGPU_SIGNATURE_SIZE],
					struct sgpu_error *error);

#endif
