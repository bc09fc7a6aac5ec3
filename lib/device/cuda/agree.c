/* SPDX-License-Identifier: Apache-2.0
 *
 * The agreement on a session key, once a device, before its first key of a segment: the device
 * makes an X25519 key from entropy of its own and shows the public half; from there on keys of
 * segments travel sealed. Whoever only listens on the bus then learns no key. Whoever can change
 * what crosses it can take the device's place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crypto/internal.h>
#include <device/cuda/kernels.h>
#include <device/cuda/agree.h>
#include <device/cuda/kernels/agree_secret.cuh>
#include <device/cuda/gpu.h>
#include <sgpu/entropy.h>

/* Bits that are claimed of a sample; how many times as much its estimate must be; bits that are
 * needed in all. What a source really has is not known: so little is claimed that even sources that
 * depend on one another have enough. */
static const double claimed = 0.5, margin = 2, needed = 1024;

/* One agreement under way. */
struct agreement {
	struct sgpu_device *device;
	unsigned sources;
	CUdeviceptr room;
	struct sgpu_cuda_status *status;
	struct sgpu_entropy_verdict verdict;
	uint8_t both[64];	 /* public keys: the host's, the device's */
	uint8_t private_key[32]; /* the host's */
	uint8_t out[SGPU_AGREE_KEY + SGPU_AGREE_PROOF];
};

static CUstream stream_of(const struct agreement *a)
{
	return a->device->internal;
}

static int gather(struct agreement *a, struct sgpu_error *error)
{
	size_t size = a->sources * sizeof(struct sgpu_entropy_counts);
	struct sgpu_entropy_counts *counts = calloc(a->sources, sizeof(*counts));
	CUresult result;
	int code;

	if (!counts) {
		return sgpu_fail_nomem(error);
	}
	result = (CUresult)sgpu_cuda_agree_gather(stream_of(a), a->room, a->sources, 0);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemcpyDtoHAsync(
			counts, sgpu_cuda_agree_counts(a->room, a->sources), size, stream_of(a));
	}
	code = sgpu_cuda_check(a->device, result, "cannot gather entropy on the device", error);
	if (code == SGPU_OK) {
		code = sgpu_cuda_sync_internal(a->device, error);
	}
	if (code == SGPU_OK) {
		code = sgpu_entropy_judge(counts, a->sources, claimed, margin, needed, &a->verdict,
					  error);
	}
	free(counts);
	return code;
}

/* Waits for an answer into `bytes`. */
static int hear(struct agreement *a, CUresult result, uint8_t bytes[32], struct sgpu_error *error)
{
	const struct sgpu_cuda_answer *answer =
		(const struct sgpu_cuda_answer *)(uintptr_t)a->status->host;
	int code =
		sgpu_cuda_check(a->device, result, "cannot agree on a key with the device", error);

	if (code == SGPU_OK) {
		code = sgpu_cuda_sync_internal(a->device, error);
	}
	if (code < 0) {
		return code;
	}
	atomic_thread_fence(memory_order_acquire);
	memcpy(bytes, answer->bytes, 32);
	switch (*(const volatile uint64_t *)&answer->done) {
	case SGPU_CUDA_AGREE_DONE:
		break;
	case SGPU_CUDA_AGREE_ZERO:
		return sgpu_fail(error, SGPU_EDEVICE,
				 "the device finds that the shared secret is zero");
	default:
		return sgpu_fail(error, SGPU_EDEVICE,
				 "the device was asked for a key and gave none");
	}
	memset((void *)(uintptr_t)a->status->host, 0, sizeof(*answer));
	return SGPU_OK;
}

/* The device's key, then the host's, and what follows from them. */
static int exchange(struct agreement *a, struct sgpu_error *error)
{
	uint8_t random[32], shared[32] = { 0 }, proof[SGPU_AGREE_PROOF];
	int code = sgpu_random(random, sizeof(random), error);

	if (code == SGPU_OK) {
		code = hear(a,
			    (CUresult)sgpu_cuda_agree_make(stream_of(a), a->room, a->sources,
							   random, a->status->device),
			    a->both + 32, error);
	}
	if (code == SGPU_OK) {
		code = sgpu_x25519_generate(a->private_key, a->both, error);
	}
	if (code == SGPU_OK) {
		code = sgpu_x25519(a->private_key, a->both + 32, shared, error);
		if (code == SGPU_EAUTH) {
			code = sgpu_fail(error, SGPU_EDEVICE,
					 "the device's public key has low order");
		}
	}
	if (code == SGPU_OK) {
		code = sgpu_hkdf_sha256(shared, sizeof(shared), SGPU_AGREE_SALT,
					strlen(SGPU_AGREE_SALT), a->both, sizeof(a->both), a->out,
					sizeof(a->out), error);
	}
	sgpu_wipe(shared, sizeof(shared));
	if (code == SGPU_OK) {
		code = hear(a,
			    (CUresult)sgpu_cuda_agree_finish(stream_of(a), a->room, a->sources,
							     a->both, a->status->device),
			    proof, error);
	}
	if (code == SGPU_OK && !sgpu_equal(proof, a->out + SGPU_AGREE_KEY, sizeof(proof))) {
		code = sgpu_fail(error, SGPU_EDEVICE, "the device came to another session key");
	}
	return code;
}

/* The session key's state, in the order of the internal stream. */
static int keep(struct agreement *a, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &a->device->keys.trust;
	CUresult result;
	int code = sgpu_cuda_private_alloc(a->device, a->device->keys.size, &trust->session, error);

	if (code < 0) {
		return code;
	}
	result = sgpu_cu.cuMemsetD8Async(trust->session, 0, a->device->keys.size,
					 a->device->internal);
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_key_setup(
			stream_of(a), sgpu_cuda_agree_material(a->room, a->sources),
			trust->session);
	}
	code = sgpu_cuda_check(a->device, result, "cannot set up the session key", error);
	if (code == SGPU_OK) {
		code = sgpu_cuda_sync_internal(a->device, error);
	}
	return code == SGPU_OK ? sgpu_aead_create(NULL, a->out, &trust->aead, error) : code;
}

static int agree(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	struct agreement a = { .device = device, .sources = device->multiprocessors };
	int code;

	a.sources = a.sources > SGPU_CUDA_SOURCES_MAX ? SGPU_CUDA_SOURCES_MAX : a.sources;
	code = sgpu_cuda_private_alloc(device, sgpu_cuda_agree_room(a.sources), &a.room, error);
	if (code < 0) {
		return code;
	}
	a.status = sgpu_cuda_status_take(device, 0);
	code = a.status ? gather(&a, error) : sgpu_fail_nomem(error);
	if (code == SGPU_OK) {
		code = exchange(&a, error);
	}
	if (code == SGPU_OK) {
		code = keep(&a, error);
	}
	if (code == SGPU_OK) {
		trust->told.agreed = true;
		memcpy(trust->told.public_key, a.both + 32, 32);
		snprintf(trust->told.text, sizeof(trust->told.text),
			 "X25519 key made on the device; entropy: %u of %u sources, at least %.1f "
			 "bits a sample, "
			 "%.1f counted, health tests passed",
			 a.verdict.sound, a.verdict.sources, a.verdict.least, claimed);
	}
	sgpu_cuda_status_give(device, a.status);
	sgpu_cuda_private_free(device, a.room);
	sgpu_wipe(&a, sizeof(a));
	return code;
}

static bool bus_is_bare(struct sgpu_device *device)
{
	struct sgpu_device_agreement *told = &device->keys.trust.told;

	if (strcmp(device->confidential, "on") == 0) {
		snprintf(told->text, sizeof(told->text),
			 "confidential computing encrypts the bus: nothing else is agreed");
		return true;
	}
	if (device->keys.bare) {
		snprintf(told->text, sizeof(told->text),
			 "keys cross the bus as they are, as was asked for");
		return true;
	}
	return false;
}

/* The lock of the trust is held. */
static int establish(struct sgpu_device *device, struct sgpu_error *error)
{
	int code = sgpu_cuda_check(device, (CUresult)sgpu_cuda_aead_prepare(),
				   "cannot load the kernels for AES-GCM", error);

	device->keys.size = (sgpu_cuda_key_size() + 255) / 256 * 256;
	if (code == SGPU_OK) {
		code = sgpu_cuda_known_answer(device, false, error);
	}
	if (code == SGPU_OK && !bus_is_bare(device)) {
		code = agree(device, error);
		if (code == SGPU_OK) {
			code = sgpu_cuda_known_answer(device, true, error);
		}
	}
	return code;
}

int sgpu_cuda_keys_ready(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	struct sgpu_error why = { 0 };
	int code;

	if (atomic_load(&trust->ready)) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&trust->lock);
	code = trust->error.code;
	if (code == SGPU_OK && !atomic_load(&trust->ready)) {
		code = establish(device, &why);
		if (code == SGPU_OK) {
			atomic_store(&trust->ready, true);
		} else if (code == SGPU_EDEVICE) {
			/* What a device did once it may do again, unseen. */
			trust->error = why;
		} else if (error) {
			*error = why;
		}
		if (code < 0) {
			sgpu_cuda_trust_close(device);
		}
	}
	if (code == SGPU_EDEVICE && error) {
		*error = trust->error;
	}
	pthread_mutex_unlock(&trust->lock);
	return code;
}

int sgpu_cuda_agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
		    struct sgpu_error *error)
{
	int code = sgpu_cuda_enter(device, error);

	if (code == SGPU_OK) {
		code = sgpu_cuda_keys_ready(device, error);
	}
	if (code == SGPU_OK) {
		*agreement = device->keys.trust.told;
	}
	return code;
}

int sgpu_cuda_seal_key(struct sgpu_device *device, const struct sgpu_sealed_keys *material,
		       struct sgpu_cuda_delivery *delivery)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	uint8_t bare[SGPU_CUDA_DELIVERED], nonce[SGPU_NONCE_SIZE] = { 0 };
	int code, i;

	memset(delivery, 0, sizeof(*delivery));
	if (trust->counter == UINT64_MAX) {
		return SGPU_EDEVICE;
	}
	delivery->counter = trust->counter++;
	delivery->session = trust->session;
	for (i = 0; i < 8; i++) {
		nonce[SGPU_NONCE_SIZE - 1 - i] = (uint8_t)(delivery->counter >> 8 * i);
	}
	memcpy(bare, material->key, SGPU_KEY_SIZE);
	memcpy(bare + SGPU_KEY_SIZE, material->base_nonce, SGPU_NONCE_SIZE);
	code = sgpu_aead_seal(trust->aead, nonce, bare, sizeof(bare), (uint8_t *)delivery->words,
			      (uint8_t *)delivery->tag);
	sgpu_wipe(bare, sizeof(bare));
	if (code < 0) {
		sgpu_wipe(delivery, sizeof(*delivery));
	}
	return code;
}

void sgpu_cuda_trust_close(struct sgpu_device *device)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;

	sgpu_aead_free(&trust->aead);
	sgpu_cuda_private_free(device, trust->session);
	trust->session = 0;
	memset(&trust->told, 0, sizeof(trust->told));
}
