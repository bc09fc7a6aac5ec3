/* SPDX-License-Identifier: Apache-2.0
 *
 * A token verified by itself, for tests: the library verifies tokens as parts of quotes and
 * requests.
 */
#ifndef HARNESS_TOKEN_H
#define HARNESS_TOKEN_H

#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "attest/internal.h"

/* Splits a token and verifies its signature with `public_pem`, or, when that is NULL, with the key
 * of the first certificate in x5c. *chain (unless NULL) receives x5c, unverified; *payload comes
 * from malloc. */
static inline int token_verify(const char *token, size_t token_size, const char *public_pem,
			       char **payload, size_t *payload_size, struct sgpu_chain *chain,
			       struct sgpu_error *error)
{
	BIO *bio = public_pem ? BIO_new_mem_buf(public_pem, -1) : NULL;
	EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	struct sgpu_jws jws;
	int code = sgpu_jws_parse(token, token_size, &jws, error);

	*payload = NULL;
	*payload_size = 0;
	if (chain) {
		memset(chain, 0, sizeof(*chain));
	}
	if (!code && !public_pem && jws.chain.count) {
		code = sgpu_certificate_key(jws.chain.der[0], jws.chain.size[0], "certificate 1",
					    &key, error);
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
		*chain = jws.chain;
		memset(&jws.chain, 0, sizeof(jws.chain));
	}
	ERR_clear_error();
	sgpu_jws_clear(&jws);
	EVP_PKEY_free(key);
	BIO_free(bio);
	return code;
}

#endif
