/* SPDX-License-Identifier: Apache-2.0 */
#include "crypto/crypto.h"
#include "channel/keys.h"

#include <string.h>

#include <sgpu/base.h>

#include "channel/wire.h"

static const char HELLO_INFO[] = "sgpu session v1";

int sgpu_binding_make(const uint8_t owner_key[32], const struct sgpu_key *worker,
		      struct sgpu_binding *binding, struct sgpu_error *error)
{
	uint8_t *enc = sgpu_put_bytes(binding->hello, owner_key, 32), *sealed = enc + 32;
	int rc;

	if (worker->kind == SGPU_KEY_OCT) {
		return sgpu_fail(
			error, SGPU_EUSAGE,
			"a quote names an X25519 key of a worker, and this is a symmetric key");
	}
	rc = sgpu_random(binding->secret, sizeof(binding->secret), error);
	return rc < 0 ? rc
		      : sgpu_hpke_seal(worker->public_half, HELLO_INFO, strlen(HELLO_INFO),
				       binding->hello, 32, binding->secret, sizeof(binding->secret),
				       enc, sealed, error);
}

int sgpu_binding_open(const struct sgpu_key *key, const uint8_t hello[SGPU_HELLO_SIZE],
		      struct sgpu_binding *binding, struct sgpu_error *error)
{
	memcpy(binding->hello, hello, sizeof(binding->hello));
	return sgpu_hpke_open(key, binding->hello + 32, HELLO_INFO, strlen(HELLO_INFO),
			      binding->hello, 32, binding->hello + 64,
			      SGPU_KEY_SIZE + SGPU_TAG_SIZE, binding->secret, error);
}

int sgpu_channel_bind(struct sgpu_channel_keys *keys, const struct sgpu_binding *binding,
		      const struct sgpu_grant *grant, struct sgpu_error *error)
{
	static const char *const infos[] = { "sgpu session group", "sgpu session answer" };
	uint8_t *const bound[] = { keys->group, keys->answer };
	uint8_t transcript[SGPU_HELLO_SIZE + SGPU_GRANT_SIZE], salt[SGPU_SHA256_SIZE],
		both[2 * SGPU_KEY_SIZE];
	int rc;

	sgpu_grant_encode(grant, sgpu_put_bytes(transcript, binding->hello, SGPU_HELLO_SIZE));
	rc = sgpu_sha256(transcript, sizeof(transcript), salt, error);
	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(bound); i++) {
		sgpu_put_bytes(sgpu_put_bytes(both, binding->secret, SGPU_KEY_SIZE), bound[i],
			       SGPU_KEY_SIZE);
		rc = sgpu_hkdf_sha256(both, sizeof(both), salt, sizeof(salt), infos[i],
				      strlen(infos[i]), bound[i], SGPU_KEY_SIZE, error);
	}
	sgpu_wipe(both, sizeof(both));
	return rc;
}
