/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that live in a TPM 2.0, by OpenSSL's provider "tpm2" (the package tpm2-openssl). It is
 * loaded only if such a key is used, so a machine without a TPM does not need it.
 */
#ifndef SGPU_ATTEST_KEYS_TPM_H
#define SGPU_ATTEST_KEYS_TPM_H

#include <openssl/evp.h>

#include <sgpu/error.h>

/* Signing needs it named: without, OpenSSL takes the signature of the default provider, which has
 * no private half. To be given to EVP_DigestSignInit_ex and its like. */
#define SGPU_TPM_PROPERTIES "?provider=tpm2"

/* Loads the provider, once in the process, beside the default one. After it a PEM file "TSS2
 * PRIVATE KEY" is decoded, and its key used, by the ordinary calls of OpenSSL. Errors:
 * SGPU_EUNAVAILABLE, with what to install and to set. */
SGPU_MUST_CHECK int sgpu_tpm_provider(struct sgpu_error *error);

/* A new signing key on P-384 in the TPM, under its storage root. The private half never leaves the
 * TPM: the written key is wrapped by that TPM, and useless to another. The caller frees *key.
 * Errors: SGPU_EUNAVAILABLE. */
SGPU_MUST_CHECK int sgpu_tpm_generate(EVP_PKEY **key, struct sgpu_error *error);

#endif
