/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the CA and the requests that come to it.
 */
#ifndef SGPU_ATTEST_KEYS_CA_H
#define SGPU_ATTEST_KEYS_CA_H

#include "attest/internal.h"

/* Seconds since 1970, or -1. */
int64_t sgpu_certificate_time(const ASN1_TIME *time);

/* The AK's key of a request that one of the EKs signed, and that EK's fingerprint. The caller frees
 * *key. Errors as sgpu_ca_certify. */
SGPU_MUST_CHECK int sgpu_enroll_verify(const char *known_eks, const char *request, size_t size,
				       int64_t now, unsigned max_age, EVP_PKEY **key,
				       uint8_t fingerprint[SGPU_SHA256_SIZE],
				       struct sgpu_error *error);

#endif
