/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's own evidence: an SPDM report that the GPU signs, with its certificates. It has room for
 * a nonce of 32 bytes, which are drawn from our 64 by SHAKE256, as other collectors of such
 * evidence do.
 */
#include <stdlib.h>

#include <openssl/evp.h>

#include <sgpu/base.h>

#include "device/device.h"
#include "attest/collect/evidence.h"
#include "attest/internal.h"
#include "crypto/internal.h"

int sgpu_gpu_nonce(const uint8_t report_data[64], uint8_t nonce[SGPU_GPU_NONCE_SIZE],
		   struct sgpu_error *error)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	int done = context && EVP_DigestInit_ex(context, EVP_shake256(), NULL) == 1 &&
		   EVP_DigestUpdate(context, report_data, 64) == 1 &&
		   EVP_DigestFinalXOF(context, nonce, SGPU_GPU_NONCE_SIZE) == 1;

	EVP_MD_CTX_free(context);
	return done ? SGPU_OK : sgpu_crypto_fail(error, "SHAKE256");
}

/* An array, one object a GPU, as Veraison's nvidia-gpu-evidence has it. */
static json_t *to_json(const struct sgpu_device_evidence *evidence,
		       const uint8_t nonce[SGPU_GPU_NONCE_SIZE])
{
	char hex[2 * SGPU_GPU_NONCE_SIZE + 1];

	sgpu_hex_encode(nonce, SGPU_GPU_NONCE_SIZE, hex);
	return json_pack("[{s:s, s:o, s:o, s:s}]", "arch", evidence->architecture, "certificate",
			 sgpu_base64_json(evidence->chain, evidence->chain_size), "evidence",
			 sgpu_base64_json(evidence->report, evidence->report_size), "nonce", hex);
}

static int collect(const uint8_t report_data[64], struct sgpu_device *device, char **value,
		   size_t *size, struct sgpu_error *error)
{
	struct sgpu_device_evidence evidence = { 0 };
	uint8_t nonce[SGPU_GPU_NONCE_SIZE];
	int rc;

	if (!device) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "no device was asked");
	}
	rc = sgpu_gpu_nonce(report_data, nonce, error);
	if (rc == SGPU_OK) {
		rc = sgpu_device_get_evidence(device, nonce, &evidence, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_evidence_text(to_json(&evidence, nonce), value, size, error);
	}
	sgpu_device_evidence_clear(&evidence);
	return rc;
}

const struct sgpu_evidence_source sgpu_evidence_nvidia = { "nv-gpu-evidence", SGPU_TYPE_NVIDIA,
							   collect };
