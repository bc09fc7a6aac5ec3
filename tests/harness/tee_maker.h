/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and certificates for tests of TEE reports, as the makers of processors lay theirs out: made
 * anew in each run.
 */
#ifndef TEE_MAKER_H
#define TEE_MAKER_H

#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <sgpu/attest.h>
#include <sgpu/base.h>

#include "base/json.h"
#include "attest/verify/tsm_report.h"
#include "unit.h"

enum { TEE_NOW = 1800000000, TEE_FROM = 1700000000, TEE_TO = 1900000000 };

/* Ends the program unless it is good. */
void tee_need(int good, const char *what);

/* A certificate and its key. */
struct tee_identity {
	EVP_PKEY *key;
	X509 *certificate;
};

/* "RSA", or the name of a curve. */
EVP_PKEY *tee_key(const char *kind);

/* An extension whose value is these bytes as they are. */
void tee_add_raw(X509 *certificate, const char *number, const void *data, size_t size);

/* Signs as an RSA issuer of AMD does, with PSS, or as an issuer on an elliptic curve. */
void tee_sign_by(X509 *certificate, EVP_PKEY *key, const EVP_MD *digest);

/* The same with the digest that goes with the kind of key. */
void tee_sign(X509 *certificate, EVP_PKEY *key);

/* Not signed yet. issuer NULL: its own. */
struct tee_identity tee_start(const char *name, const char *kind, const struct tee_identity *issuer,
			      bool ca);

/* A signed one that may sign others. */
struct tee_identity tee_authority(const char *name, const char *kind,
				  const struct tee_identity *issuer);

void tee_free(struct tee_identity *identity);

/* DER from malloc. */
uint8_t *tee_der(X509 *certificate, size_t *size);

/* Adds a copy to a chain. */
void tee_push(struct sgpu_chain *chain, X509 *certificate);

/* PEM of several, one after another, from malloc. */
char *tee_pem(X509 *const *certificates, size_t count, size_t *size);

/* r || s, each of `half` bytes, big-endian. */
void tee_ecdsa(EVP_PKEY *key, const EVP_MD *digest, const void *data, size_t size,
	       uint8_t *signature, int half);

/* Little-endian. */
void tee_put16(uint8_t *at, unsigned value);
void tee_put32(uint8_t *at, uint32_t value);

/* As a host would: makes the record of such a report and has it verified. */
int tee_verify(const char *provider, const void *outblob, size_t size, const void *auxblob,
	       size_t auxblob_size, const struct sgpu_chain *given, const struct sgpu_chain *roots,
	       int64_t now, struct sgpu_tee_report *report, struct sgpu_error *error);

/* How far apart the places are that a slow loop looks at. */
size_t tee_step(size_t small);

#endif
