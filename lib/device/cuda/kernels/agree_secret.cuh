/* SPDX-License-Identifier: Apache-2.0
 *
 * The device's half of the agreement on a key, by one thread. The host's half is in agree.c.
 *
 *   device: makes a private key from its entropy and the host's random bytes; shows the public key
 *   host:   makes an ephemeral key; shows its public key
 *   both:   HKDF-SHA256, salt "sgpu device keys v1", of the shared secret; info: the host's
 *           public key, then the device's. 32 bytes are the session key; the device shows 32
 *           more, to prove that it has that key
 */
#ifndef SGPU_DEVICE_CUDA_KERNELS_AGREE_SECRET_CUH
#define SGPU_DEVICE_CUDA_KERNELS_AGREE_SECRET_CUH

#include <device/cuda/kernels/sha256.cuh>
#include <device/cuda/kernels/x25519.cuh>

#define SGPU_AGREE_SALT "sgpu device keys v1"
#define SGPU_AGREE_ENTROPY "sgpu device entropy v1"

enum { SGPU_AGREE_KEY = 32, SGPU_AGREE_PROOF = 32 };

/* Everything secret that an agreement works on; the caller wipes it. */
struct sgpu_agree_work {
	struct sgpu_x25519 x25519;
	struct sgpu_hmac hmac;
	uint8_t shared[32], prk[32];
	uint8_t out[SGPU_AGREE_KEY + SGPU_AGREE_PROOF];
};

/* The private key is the SHA-256 of the label, the host's random bytes and the sources' digests. */
SGPU_ON_DEVICE void sgpu_agree_make(struct sgpu_agree_work *w, const uint8_t host_random[32],
				    const uint8_t *digests, uint32_t count, uint8_t private_key[32],
				    uint8_t public_key[32])
{
	const char *label = SGPU_AGREE_ENTROPY;

	sgpu_sha_begin(&w->hmac.sha);
	sgpu_sha_update(&w->hmac.sha, label, sizeof(SGPU_AGREE_ENTROPY) - 1);
	sgpu_sha_update(&w->hmac.sha, host_random, 32);
	sgpu_sha_update(&w->hmac.sha, digests, 32 * count);
	sgpu_sha_end(&w->hmac.sha, private_key);
	for (int i = 0; i < 32; i++) {
		w->shared[i] = i == 0 ? 9 : 0;
	}
	(void)sgpu_x25519_multiply(&w->x25519, public_key, private_key, w->shared);
}

/* Fills w->out. Returns whether the shared secret is sound, that is, not zero. */
SGPU_ON_DEVICE int sgpu_agree_derive(struct sgpu_agree_work *w, const uint8_t private_key[32],
				     const uint8_t host_public[32], const uint8_t device_public[32])
{
	const char *salt = SGPU_AGREE_SALT;
	uint8_t number;
	int sound = sgpu_x25519_multiply(&w->x25519, w->shared, private_key, host_public);

	sgpu_hmac_begin(&w->hmac, salt, sizeof(SGPU_AGREE_SALT) - 1);
	sgpu_hmac_update(&w->hmac, w->shared, 32);
	sgpu_hmac_end(&w->hmac, w->prk);
	for (number = 1; number <= 2; number++) {
		sgpu_hmac_begin(&w->hmac, w->prk, 32);
		if (number > 1) {
			sgpu_hmac_update(&w->hmac, w->out, 32);
		}
		sgpu_hmac_update(&w->hmac, host_public, 32);
		sgpu_hmac_update(&w->hmac, device_public, 32);
		sgpu_hmac_update(&w->hmac, &number, 1);
		sgpu_hmac_end(&w->hmac, w->out + 32 * (number - 1));
	}
	return sound;
}

#endif
