/* SPDX-License-Identifier: Apache-2.0
 *
 * A TDX quote taken apart. Everything borrows from it.
 */
#ifndef SGPU_ATTEST_VERIFY_TDX_H
#define SGPU_ATTEST_VERIFY_TDX_H

#include "attest/verify/tsm_report.h"

enum { SGPU_TDX_HALF = 32 /* bytes of a coordinate on P-256 */, SGPU_QE_REPORT_SIZE = 384 };
/* The first byte of a TD's attributes: if any of its bits is set, the host may look into the TD. */
enum { SGPU_TDX_DEBUG = 0xff };

struct sgpu_tdx_quote {
	uint16_t version;
	struct sgpu_bytes head;		   /* header and body: what the attestation key signs */
	struct sgpu_bytes body;		   /* the TD's report */
	const uint8_t *signature;	   /* r || s */
	struct sgpu_bytes attestation_key; /* x || y */
	struct sgpu_bytes qe_report; /* of the quoting enclave, and its signature by the platform's
					key (PCK) */
	const uint8_t *qe_signature;
	struct sgpu_bytes qe_data; /* hashed into the enclave's report beside the key */
	struct sgpu_bytes chain;   /* the PCK's certificates in PEM */
};

/* Checks only the layout. Errors: SGPU_EINVALID. */
SGPU_MUST_CHECK int sgpu_tdx_parse(struct sgpu_bytes blob, struct sgpu_tdx_quote *quote,
				   struct sgpu_error *error);

#endif
