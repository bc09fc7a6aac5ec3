/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this part share.
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

SGPU_MUST_CHECK int sgpu_sha512(const void *data, size_t size, uint8_t digest[SGPU_SHA512_SIZE],
				struct sgpu_error *error);
/* Signs the bytes with ES384. */
SGPU_MUST_CHECK int sgpu_signer_sign(const struct sgpu_signer *signer, const void *data,
				     size_t size, uint8_t signature[SGPU_ES384_SIZE],
				     struct sgpu_error *error);
/* A context ready to sign with ES384, or NULL; for what libcrypto signs by itself. */
EVP_MD_CTX *sgpu_signer_context(const struct sgpu_signer *signer);
/* SHA-256 of the DER SubjectPublicKeyInfo. */
SGPU_MUST_CHECK int sgpu_key_fingerprint(EVP_PKEY *key, uint8_t hash[SGPU_SHA256_SIZE],
					 struct sgpu_error *error);
/* Whether a key is on this curve, which it names by one of these names, not by explicit parameters.
 * NULL is not. */
bool sgpu_is_on_curve(const EVP_PKEY *key, const char *name, const char *other);
static inline bool sgpu_is_p384(const EVP_PKEY *key)
{
	return sgpu_is_on_curve(key, "secp384r1", "P-384");
}
/* The key of a certificate, which keeps it: P-384 or SGPU_EINVALID. `what` names the certificate.
 */
SGPU_MUST_CHECK int sgpu_certificate_key(const X509 *certificate, const char *what, EVP_PKEY **key,
					 struct sgpu_error *error);
/* Whether the certificate is an authority's for an EK: path length 0. May be NULL. */
bool sgpu_is_ek_certificate(X509 *certificate);
/* Seconds since 1970, or -1. */
int64_t sgpu_certificate_time(const ASN1_TIME *time);
/* What a memory BIO holds, as a string from malloc; the BIO's own copy is wiped. */
SGPU_MUST_CHECK int sgpu_bio_text(BIO *bio, char **text, size_t *size, struct sgpu_error *error);
/* A certificate from exactly `size` bytes of DER, or NULL. */
X509 *sgpu_certificate_parse(const uint8_t *der, size_t size);

/* Verifies the chain from `leaf` through `others` to one of the self-signed roots. Partial chains
 * are refused; no revocation lists are read. `machine`: for the chain of an AK, which must fit the
 * profile of our own certificates, receives the fingerprint of the EK that signed it; NULL for
 * those of processor makers, which lack key usage and key identifiers. `owner` names the chain in
 * messages: "VCEK", or "". Errors: SGPU_ECHAIN, SGPU_EEXPIRED. */
SGPU_MUST_CHECK int sgpu_chain_check(X509 *leaf, X509 *const *others, int other_count,
				     const struct sgpu_chain *roots, int64_t now, uint8_t *machine,
				     const char *owner, struct sgpu_error *error);
/* Verifies strictly by RFC 5280 that the chain leads through an EK to one of the roots at time
 * `now`; the system's roots are not used. The leaf must be on P-384, no CA, with key usage
 * digitalSignature and no extended key usage except any, and last neither longer than its EK's nor
 * above SGPU_AK_DAYS. Errors: SGPU_ECHAIN, SGPU_EEXPIRED. */
SGPU_MUST_CHECK int sgpu_chain_verify(const struct sgpu_chain *chain,
				      const struct sgpu_chain *roots, int64_t now,
				      uint8_t machine[SGPU_SHA256_SIZE], struct sgpu_error *error);

/* Bytes in base64 with padding, as libcrypto writes it: a new JSON string, or NULL. */
json_t *sgpu_base64_json(const void *data, size_t size);

/* ---- JSON web signatures with ES384: what is in the header beside the algorithm ---- */
/* Makes a token; x5c: `chain`, or NULL for none; typ may be NULL. *token from malloc. */
SGPU_MUST_CHECK int sgpu_jws_sign(const struct sgpu_signer *signer, const struct sgpu_chain *chain,
				  const char *typ, const void *payload, size_t size, char **token,
				  struct sgpu_error *error);
/* Takes a token apart, unverified; *chain: its x5c, or empty. Every alg but ES384 is refused, and
 * every header but alg, typ, kid and x5c. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_jws_open(const char *token, size_t size, struct sgpu_jws *jws,
				  struct sgpu_chain *chain, struct sgpu_error *error);
/* Errors: SGPU_ESIGNATURE. */
SGPU_MUST_CHECK int sgpu_jws_check(const struct sgpu_jws *jws, EVP_PKEY *key,
				   struct sgpu_error *error);

/* ---- keys/ ---- */
/* The text of a file that sgpu_owners_load takes. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_owners_parse(const char *text, size_t size, const char *path,
				      struct sgpu_owners *owners, struct sgpu_error *error);

#endif
