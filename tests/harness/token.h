/* SPDX-License-Identifier: Apache-2.0
 *
 * A token verified by itself, for tests: the library verifies tokens as parts of quotes.
 */
#ifndef HARNESS_TOKEN_H
#define HARNESS_TOKEN_H

#include <string.h>

#include <openssl/err.h>

#include "attest/internal.h"

/* Splits a token and verifies its signature with `public_key`, or, when that is NULL, with the key
 * of the first certificate in x5c. *chain (unless NULL) receives x5c, unverified; *payload comes
 * from malloc. */
static inline int token_verify(const char *token, size_t token_size, EVP_PKEY *public_key,
			       char **payload, size_t *payload_size, struct sgpu_chain *chain,
			       struct sgpu_error *error)
{
	EVP_PKEY *key = public_key && EVP_PKEY_up_ref(public_key) == 1 ? public_key : NULL;
	struct sgpu_chain x5c;
	struct sgpu_jws jws;
	int code = sgpu_jws_open(token, token_size, &jws, &x5c, error);

	*payload = NULL;
	*payload_size = 0;
	if (chain) {
		memset(chain, 0, sizeof(*chain));
	}
	if (!code && !key && x5c.count) {
		code = sgpu_certificate_key(x5c.list[0], "certificate 1", &key, error);
		if (key) {
			EVP_PKEY_up_ref(key);
		}
	}
	if (!code && (!key || !sgpu_is_p384(key))) {
		code = sgpu_fail(error, SGPU_EINVALID, "there is no key on the curve P-384");
	}
	code = code ? code : sgpu_jws_check(&jws, key, error);
	if (!code) {
		*payload = jws.payload;
		*payload_size = jws.payload_size;
		jws.payload = NULL;
	}
	if (!code && chain) {
		*chain = x5c;
		x5c.count = 0;
	}
	ERR_clear_error();
	sgpu_jws_clear(&jws);
	sgpu_chain_clear(&x5c);
	EVP_PKEY_free(key);
	return code;
}

#endif
