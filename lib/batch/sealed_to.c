/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a file that is sealed to a public key, sgpu-sealed(5):
 *
 *     magic (16) || key id (32) || enc (32) || wrapped key (48)
 *
 * The sealed segment that follows has the wrapped key.
 */
#include <string.h>

#include <sgpu/base.h>

#include "batch/batch.h"
#include "crypto/crypto.h"

static const char magic[] = "sgpu-sealed-to/1", info[] = "sgpu sealed-to v1";

enum { KID = sizeof(magic) - 1, ENC = KID + 32, CT = ENC + 32, CT_SIZE = SGPU_SEALED_TO - CT };
_Static_assert(CT_SIZE == SGPU_KEY_SIZE + SGPU_TAG_SIZE, "the header ends with the wrapped key");

int sgpu_sealed_to_make(const struct sgpu_key *recipient, uint8_t key[SGPU_KEY_SIZE],
			uint8_t header[SGPU_SEALED_TO], struct sgpu_error *error)
{
	int rc = sgpu_random(key, SGPU_KEY_SIZE, error);

	memcpy(header, magic, KID);
	rc = rc ? rc : sgpu_base64url_decode(recipient->kid, header + KID, ENC - KID, error);
	rc = rc ? rc
		: sgpu_hpke_seal(recipient->public_half, info, sizeof(info) - 1, header, ENC, key,
				 SGPU_KEY_SIZE, header + ENC, header + CT, error);
	if (rc) {
		sgpu_wipe(key, SGPU_KEY_SIZE);
	}
	return rc;
}

bool sgpu_sealed_to_kid(const uint8_t *data, size_t size, char kid[SGPU_KID_SIZE + 1])
{
	if (size < SGPU_SEALED_TO || memcmp(data, magic, KID)) {
		return false;
	}
	sgpu_base64url_encode(data + KID, ENC - KID, kid);
	return true;
}

int sgpu_sealed_to_open(const struct sgpu_key *key, const uint8_t *data, size_t size,
			uint8_t file_key[SGPU_KEY_SIZE], struct sgpu_error *error)
{
	char kid[SGPU_KID_SIZE + 1];

	sgpu_wipe(file_key, SGPU_KEY_SIZE);
	if (!sgpu_sealed_to_kid(data, size, kid)) {
		return sgpu_fail(error, SGPU_EKEY, "the data are not sealed to a public key");
	}
	if (key->kind != SGPU_KEY_X25519 || strcmp(kid, key->kid)) {
		return sgpu_fail(error, SGPU_EKEY,
				 "the data are sealed to the key '%s', and '%s' was given", kid,
				 key->kid);
	}
	int rc = sgpu_hpke_open(key, data + ENC, info, sizeof(info) - 1, data, ENC, data + CT,
				CT_SIZE, file_key, error);

	if (rc == SGPU_EAUTH) {
		rc = sgpu_fail(error, rc, "the header for the key '%s' does not verify", kid);
	}
	if (rc) {
		sgpu_wipe(file_key, SGPU_KEY_SIZE);
	}
	return rc;
}
