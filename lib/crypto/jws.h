/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON web signatures (RFC 7515), compact: their text, whoever signs it.
 */
#ifndef SGPU_CRYPTO_JWS_H
#define SGPU_CRYPTO_JWS_H

#include <jansson.h>

#include <sgpu/error.h>

enum { SGPU_JWS_MAX = 1 << 20, SGPU_JWS_SIGNATURE_MAX = 96 };

/* HEADER "." PAYLOAD, which is what is signed: from malloc. Takes the header over, which may be
 * NULL when memory is out. */
SGPU_MUST_CHECK int sgpu_jws_text(json_t *header, const void *payload, size_t size, char **text,
				  struct sgpu_error *error);
/* The token of such a text; `detached`: without its payload (appendix F). *token from malloc. */
SGPU_MUST_CHECK int sgpu_jws_token(const char *text, bool detached, const uint8_t *signature,
				   size_t size, char **token, struct sgpu_error *error);

/* The parts of a token. Nothing in the header is believed: an attacker writes it. */
struct sgpu_jws {
	json_t *header;
	char *header_text, *payload; /* NUL-terminated */
	size_t header_size, payload_size;
	const char *signed_text; /* in the token */
	size_t signed_size;
	uint8_t signature[SGPU_JWS_SIGNATURE_MAX];
};
/* Takes a token apart whose signature has `signature_size` bytes. `what` names it in messages.
 * Clear it also after an error. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_jws_parse(const char *token, size_t size, size_t signature_size,
				   const char *what, struct sgpu_jws *jws,
				   struct sgpu_error *error);
void sgpu_jws_clear(struct sgpu_jws *jws);

#endif
