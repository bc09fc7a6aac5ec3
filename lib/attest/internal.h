/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/attest.
 */
#ifndef SGPU_ATTEST_INTERNAL_H
#define SGPU_ATTEST_INTERNAL_H

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <sgpu/attest.h>

#include "base/json.h"
#include "crypto/internal.h"

struct sgpu_signer {
	EVP_PKEY *key;
	bool in_tpm;
};

enum {
	SGPU_CERTIFICATE_MAX = 16384, /* bytes of DER */
	SGPU_AK_DAYS = 30,	      /* longest life of an AK's certificate */
};

EVP_MD_CTX *sgpu_signer_context(const struct sgpu_signer *signer);
SGPU_MUST_CHECK int sgpu_key_fingerprint(EVP_PKEY *key, uint8_t hash[SGPU_SHA256_SIZE],
					 struct sgpu_error *error);
/* Whether a key names its curve so, without explicit parameters; false for NULL. */
bool sgpu_is_on_curve(const EVP_PKEY *key, const char *name, const char *other);
static inline bool sgpu_is_p384(const EVP_PKEY *key)
{
	return sgpu_is_on_curve(key, "secp384r1", "P-384");
}
/* Writes a certificate, and a chain's unless it is NULL. *pem is from malloc. */
SGPU_MUST_CHECK int sgpu_certificate_pem(X509 *certificate, const struct sgpu_chain *more,
					 char **pem, size_t *size, struct sgpu_error *error);
/* Borrows a certificate's key, which must be on P-384. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_certificate_key(const X509 *certificate, const char *what, EVP_PKEY **key,
					 struct sgpu_error *error);
/* Whether this is a CA of path length 0 that another key certified, as EKs are; false for NULL. */
bool sgpu_is_ek_certificate(X509 *certificate);
/* Seconds since 1970; -1 if it is malformed. */
int64_t sgpu_certificate_time(const ASN1_TIME *time);
/* Copies a memory BIO to a string from malloc, and wipes the BIO. */
SGPU_MUST_CHECK int sgpu_bio_text(BIO *bio, char **text, size_t *size, struct sgpu_error *error);
/* Parses a certificate of exactly `size` bytes of DER; NULL if it is malformed. */
X509 *sgpu_certificate_parse(const uint8_t *der, size_t size);

/* Verifies the chain from `leaf` through others of `chain` to a self-signed root. machine: receives
 * the fingerprint of the EK of an AK, whose chain must fit our own profile; NULL for chains of
 * processor makers. `owner` names the chain in messages. Errors: SGPU_ECHAIN, SGPU_EEXPIRED. */
SGPU_MUST_CHECK int sgpu_chain_verify(X509 *leaf, const struct sgpu_chain *chain,
				      const struct sgpu_chain *roots, int64_t now, uint8_t *machine,
				      const char *owner, struct sgpu_error *error);

/* Makes a JSON string of bytes in base64 with padding; NULL if out of memory. */
json_t *sgpu_base64_json(const void *data, size_t size);

/* ---- JSON web signatures (RFC 7515) with ES384 ---- */
struct sgpu_jws {
	json_t *header;
	char *payload; /* NUL-terminated */
	size_t payload_size;
	const char *signed_text; /* borrowed from the token */
	size_t signed_size;
	uint8_t signature[SGPU_ES384_SIZE];
};
/* Makes a token, from malloc. chain, its x5c, and typ may be NULL. */
SGPU_MUST_CHECK int sgpu_jws_sign(const struct sgpu_signer *signer, const struct sgpu_chain *chain,
				  const char *typ, const void *payload, size_t size, char **token,
				  struct sgpu_error *error);
/* Takes a token apart, unverified. chain: its x5c. Errors: SGPU_EINVALID; both are clear then. */
SGPU_MUST_CHECK int sgpu_jws_open(const char *token, size_t size, struct sgpu_jws *jws,
				  struct sgpu_chain *chain, struct sgpu_error *error);
void sgpu_jws_clear(struct sgpu_jws *jws);
/* Errors: SGPU_ESIGNATURE. */
SGPU_MUST_CHECK int sgpu_jws_check(const struct sgpu_jws *jws, EVP_PKEY *key,
				   struct sgpu_error *error);

/* Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_owners_parse(const char *text, size_t size, const char *path,
				      struct sgpu_owners *owners, struct sgpu_error *error);

#endif
