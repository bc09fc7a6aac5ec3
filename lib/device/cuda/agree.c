/* SPDX-License-Identifier: Apache-2.0
 *
 * The agreement on a session key, made once for each device before its first segment key. The
 * device makes an X25519 key from its own entropy. From then on, segment keys cross the bus sealed:
 * whoever only listens there learns none; whoever can change the traffic can impersonate the
 * device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crypto/internal.h>
#include <device/cuda/kernels.h>
#include <device/cuda/kernels/agree_secret.cuh>
#include <device/cuda/stream.h>

#include "crypto/entropy.h"

/* Bits of entropy claimed for a sample; factor by which its estimate must exceed them; bits needed
 * in all. The true entropy is unknown: the claim is small enough even for dependent sources. */
static const double claimed = 0.5, margin = 2, needed = 1024;

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

static int finish(struct sgpu_device *device, CUresult result, const char *what,
		  struct sgpu_error *error)
{
	int rc = sgpu_cuda_check(device, result, what, error);

	return rc == SGPU_OK ? sgpu_cuda_sync_internal(device, error) : rc;
}

static int gather(struct agreement *a, struct sgpu_error *error)
{
	size_t size = a->sources * sizeof(struct sgpu_entropy_counts);
	struct sgpu_entropy_counts *counts = calloc(a->sources, sizeof(*counts));
	CUresult result;
	int rc;

	if (!counts) {
		return sgpu_fail_nomem(error);
	}
	result = (CUresult)sgpu_cuda_agree_gather(a->device->internal, a->room, a->sources);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemcpyDtoHAsync(counts,
						   sgpu_cuda_agree_counts(a->room, a->sources),
						   size, a->device->internal);
	}
	rc = finish(a->device, result, "cannot gather entropy on the device", error);
	if (rc == SGPU_OK) {
		rc = sgpu_entropy_judge(counts, a->sources, claimed, margin, needed, &a->verdict,
					error);
	}
	free(counts);
	return rc;
}

/* Waits for a kernel's answer, and copies it to `bytes`. result: of the launch. */
static int hear(struct agreement *a, CUresult result, uint8_t bytes[32], struct sgpu_error *error)
{
	const struct sgpu_cuda_answer *answer =
		(const struct sgpu_cuda_answer *)(uintptr_t)a->status->host;
	int rc = finish(a->device, result, "cannot agree on a key with the device", error);

	if (rc < 0) {
		return rc;
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

static int exchange(struct agreement *a, struct sgpu_error *error)
{
	uint8_t random[32], shared[32] = { 0 }, proof[SGPU_AGREE_PROOF];
	int rc = sgpu_random(random, sizeof(random), error);

	if (rc == SGPU_OK) {
		rc = hear(a,
			  (CUresult)sgpu_cuda_agree_make(a->device->internal, a->room, a->sources,
							 random, a->status->device),
			  a->both + 32, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_raw_generate("X25519", a->private_key, a->both, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_x25519(a->private_key, a->both, a->both + 32, shared, error);
		if (rc == SGPU_EAUTH) {
			rc = sgpu_fail(error, SGPU_EDEVICE,
				       "the device's public key has low order");
		}
	}
	if (rc == SGPU_OK) {
		rc = sgpu_hkdf_sha256(shared, sizeof(shared), SGPU_AGREE_SALT,
				      strlen(SGPU_AGREE_SALT), a->both, sizeof(a->both), a->out,
				      sizeof(a->out), error);
	}
	sgpu_wipe(shared, sizeof(shared));
	if (rc == SGPU_OK) {
		rc = hear(a,
			  (CUresult)sgpu_cuda_agree_finish(a->device->internal, a->room, a->both,
							   a->status->device),
			  proof, error);
	}
	if (rc == SGPU_OK && !sgpu_equal(proof, a->out + SGPU_AGREE_KEY, sizeof(proof))) {
		rc = sgpu_fail(error, SGPU_EDEVICE, "the device came to another session key");
	}
	return rc;
}

/* Makes the session key's state on the device. */
static int keep(struct agreement *a, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &a->device->keys.trust;
	CUresult result;
	int rc = sgpu_cuda_private_alloc(a->device, SGPU_CUDA_KEY_STATE, &trust->session, error);

	if (rc < 0) {
		return rc;
	}
	result = (CUresult)sgpu_cuda_key_setup(a->device->internal,
					       sgpu_cuda_agree_material(a->room), trust->session);
	rc = finish(a->device, result, "cannot set up the session key", error);
	return rc == SGPU_OK ? sgpu_aead_create(NULL, a->out, &trust->aead, error) : rc;
}

static int agree(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	struct agreement a = { .device = device, .sources = device->info.compute_units };
	int rc;

	a.sources = a.sources > SGPU_CUDA_SOURCES_MAX ? SGPU_CUDA_SOURCES_MAX : a.sources;
	rc = sgpu_cuda_private_alloc(device, sgpu_cuda_agree_room(a.sources), &a.room, error);
	if (rc < 0) {
		return rc;
	}
	a.status = sgpu_cuda_status_take(device);
	rc = a.status ? gather(&a, error) : sgpu_fail_nomem(error);
	if (rc == SGPU_OK) {
		rc = exchange(&a, error);
	}
	if (rc == SGPU_OK) {
		rc = keep(&a, error);
	}
	if (rc == SGPU_OK) {
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
	return rc;
}

/* ---- a known-answer test: loaded code cannot be read back from a device. So before the first key,
 * each kernel that opens must open a chunk correctly, and refuse it if one bit of the chunk or of
 * the sealed key was changed. A device that fails is not used any more. ---- */
enum { COUNTER = 256 }; /* bytes for counters in `room`, before the state */

struct test {
	struct sgpu_device *device;
	CUdeviceptr room, state, sealed, plain;
	struct sgpu_cuda_status *status;
	uint8_t *bytes; /* a sealed chunk, then the opened one */
};

static const struct sgpu_sealed_keys known_keys = {
	.key = { 0,  1,	 2,  3,	 4,  5,	 6,  7,	 8,  9,	 10, 11, 12, 13, 14, 15,
		 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 },
	.base_nonce = { 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139 },
};

/* The tag that AES-256-GCM gives for these and pattern(). */
static const uint8_t known_tag[SGPU_TAG_SIZE] = {
	0x97, 0xe1, 0xfe, 0xca, 0x28, 0xb0, 0x8c, 0x7c,
	0x75, 0x1c, 0x95, 0xd9, 0x61, 0x89, 0x15, 0x19,
};

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 131 >> 3);
}

/* Seals the chunk on the host, where the tag must be the known one, too. */
static int make_chunk(struct test *t, struct sgpu_error *error)
{
	struct sgpu_aead *aead = NULL;
	int rc;

	for (size_t i = 0; i < SGPU_CHUNK; i++) {
		t->bytes[i] = pattern(i);
	}
	rc = sgpu_aead_create(NULL, known_keys.key, &aead, error);
	if (rc == SGPU_OK) {
		rc = sgpu_aead_seal(aead, known_keys.base_nonce, t->bytes, SGPU_CHUNK, t->bytes,
				    t->bytes + SGPU_CHUNK);
		if (rc < 0 || memcmp(t->bytes + SGPU_CHUNK, known_tag, SGPU_TAG_SIZE) != 0) {
			rc = sgpu_fail(error, SGPU_EDEVICE,
				       "AES-256-GCM of the host fails its known answer");
		}
	}
	sgpu_aead_free(&aead);
	return rc;
}

/* change: flips a bit of the sealed key. */
static int bring_key(struct test *t, bool change, struct sgpu_error *error)
{
	struct sgpu_cuda_keys *all = &t->device->keys;
	struct sgpu_cuda_message message = { .session = all->trust.session, .states = t->state };
	CUresult result = sgpu_cu.cuMemsetD8Async(t->room, 0, COUNTER + SGPU_CUDA_KEY_STATE,
						  t->device->internal);
	int rc;

	pthread_mutex_lock(&all->lock);
	rc = sgpu_cuda_seal_key(t->device, &known_keys, message.keys);
	pthread_mutex_unlock(&all->lock);
	if (rc < 0) {
		return sgpu_fail(error, rc, "cannot seal a key for the device");
	}
	message.keys->words[3] ^= change ? 0x100 : 0;
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_keys_deliver(t->device->internal, &message, 1);
	}
	return finish(t->device, result, "cannot set up a key on the device", error);
}

static int open_chunk(struct test *t, enum sgpu_cuda_kernel kernel,
		      struct sgpu_cuda_verdict *verdict, struct sgpu_error *error)
{
	CUstream stream = t->device->internal;
	struct sgpu_cuda_run run = { .state = t->state,
				     .in = t->sealed,
				     .out = t->plain,
				     .size = SGPU_SEALED_CHUNK,
				     .verdict = t->status->device,
				     .counter = t->room };
	CUresult result;
	int rc;

	memset((void *)(uintptr_t)t->status->host, 0, sizeof(*verdict));
	t->status->host[0] = -1;
	result = sgpu_cu.cuMemcpyHtoDAsync(t->sealed, t->bytes, SGPU_SEALED_CHUNK, stream);
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemsetD8Async(t->room, 0, COUNTER, stream);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemsetD8Async(t->plain, 0, SGPU_CHUNK, stream);
	}
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_run_chunks(stream, (int)t->device->info.compute_units,
							true, &run, 1, kernel);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemcpyDtoHAsync(t->bytes + SGPU_SEALED_CHUNK, t->plain,
						   SGPU_CHUNK, stream);
	}
	rc = finish(t->device, result, "cannot open on the device", error);
	atomic_thread_fence(memory_order_acquire);
	memcpy(verdict, (const void *)(uintptr_t)t->status->host, sizeof(*verdict));
	return rc;
}

static bool opened_right(const struct test *t, const struct sgpu_cuda_verdict *verdict)
{
	bool right = verdict->bad == UINT64_MAX && verdict->done == 1 && verdict->refused == 0;

	for (size_t i = 0; i < SGPU_CHUNK; i++) {
		right = right && t->bytes[SGPU_SEALED_CHUNK + i] == pattern(i);
	}
	return right;
}

/* Returns what is wrong with a kernel, or NULL. *code: of a failed step, or 0. */
static const char *run_kernel(struct test *t, enum sgpu_cuda_kernel kernel, int *code,
			      struct sgpu_error *error)
{
	struct sgpu_cuda_verdict verdict;

	*code = bring_key(t, false, error);
	*code = *code == SGPU_OK ? open_chunk(t, kernel, &verdict, error) : *code;
	if (*code < 0 || !opened_right(t, &verdict)) {
		return "it does not open what it should";
	}
	t->bytes[SGPU_CHUNK / 2] ^= 1;
	*code = open_chunk(t, kernel, &verdict, error);
	t->bytes[SGPU_CHUNK / 2] ^= 1;
	if (*code < 0 || verdict.bad != 0 || verdict.done != 0) {
		return "it opens what was changed";
	}
	*code = bring_key(t, true, error);
	*code = *code == SGPU_OK ? open_chunk(t, kernel, &verdict, error) : *code;
	return *code == SGPU_OK && verdict.refused == 1 && verdict.done == 0
		       ? NULL
		       : "it takes a key that was changed";
}

static int known_answer(struct sgpu_device *device, struct sgpu_error *error)
{
	struct test t = { .device = device, .bytes = calloc(1, SGPU_SEALED_CHUNK + SGPU_CHUNK) };
	const char *wrong;
	int rc = t.bytes ? make_chunk(&t, error) : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_private_alloc(
			device, COUNTER + SGPU_CUDA_KEY_STATE + SGPU_SEALED_CHUNK + SGPU_CHUNK,
			&t.room, error);
	}
	if (rc == SGPU_OK) {
		t.status = sgpu_cuda_status_take(device);
		rc = t.status ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (rc == SGPU_OK) {
		t.state = t.room + COUNTER;
		t.sealed = t.state + SGPU_CUDA_KEY_STATE;
		t.plain = t.sealed + SGPU_SEALED_CHUNK;
		wrong = run_kernel(&t, SGPU_CUDA_LARGE, &rc, error);
		wrong = wrong ? wrong : run_kernel(&t, SGPU_CUDA_SMALL, &rc, error);
		if (rc == SGPU_OK && wrong) {
			sgpu_cuda_fault(device, SGPU_EDEVICE,
					"it fails the known answer of AES-256-GCM");
			rc = sgpu_fail(error, SGPU_EDEVICE,
				       "the device fails the known answer of AES-256-GCM: %s",
				       wrong);
		}
	}
	sgpu_cuda_status_give(device, t.status);
	sgpu_cuda_private_free(device, t.room);
	free(t.bytes);
	return rc;
}

/* ---- the conditions for loading keys ---- */
/* The caller holds trust.lock. */
static int establish(struct sgpu_device *device, struct sgpu_error *error)
{
	int rc = sgpu_cuda_check(device, (CUresult)sgpu_cuda_aead_prepare(),
				 "cannot load the kernels for AES-GCM", error);

	if (rc == SGPU_OK) {
		rc = agree(device, error);
	}
	return rc == SGPU_OK ? known_answer(device, error) : rc;
}

int sgpu_cuda_keys_ready(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	struct sgpu_error why;

	if (atomic_load(&trust->ready)) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&trust->lock);
	why = trust->error;
	if (why.code == SGPU_OK && !atomic_load(&trust->ready)) {
		why.code = establish(device, &why);
		if (why.code == SGPU_OK) {
			atomic_store(&trust->ready, true);
		} else {
			sgpu_cuda_trust_close(device);
		}
		if (why.code == SGPU_EDEVICE) {
			/* Final: a device that failed once may fail again unnoticed. */
			trust->error = why;
		}
	}
	pthread_mutex_unlock(&trust->lock);
	if (why.code < 0 && error) {
		*error = why;
	}
	return why.code;
}

int sgpu_cuda_agree(struct sgpu_device *device, struct sgpu_device_agreement *agreement,
		    struct sgpu_error *error)
{
	int rc = sgpu_cuda_enter(device, error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_keys_ready(device, error);
	}
	if (rc == SGPU_OK) {
		*agreement = device->keys.trust.told;
	}
	return rc;
}

int sgpu_cuda_seal_key(struct sgpu_device *device, const struct sgpu_sealed_keys *material,
		       struct sgpu_cuda_delivery *delivery)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;
	uint8_t bare[SGPU_CUDA_DELIVERED], nonce[SGPU_NONCE_SIZE] = { 0 };
	int rc, i;

	memset(delivery, 0, sizeof(*delivery));
	if (trust->counter == UINT64_MAX) {
		return SGPU_EDEVICE;
	}
	delivery->counter = trust->counter++;
	for (i = 0; i < 8; i++) {
		nonce[SGPU_NONCE_SIZE - 1 - i] = (uint8_t)(delivery->counter >> 8 * i);
	}
	memcpy(bare, material->key, SGPU_KEY_SIZE);
	memcpy(bare + SGPU_KEY_SIZE, material->base_nonce, SGPU_NONCE_SIZE);
	rc = sgpu_aead_seal(trust->aead, nonce, bare, sizeof(bare), (uint8_t *)delivery->words,
			    (uint8_t *)delivery->tag);
	sgpu_wipe(bare, sizeof(bare));
	if (rc < 0) {
		sgpu_wipe(delivery, sizeof(*delivery));
	}
	return rc;
}

void sgpu_cuda_trust_close(struct sgpu_device *device)
{
	struct sgpu_cuda_trust *trust = &device->keys.trust;

	sgpu_aead_free(&trust->aead);
	sgpu_cuda_private_free(device, trust->session);
	trust->session = 0;
	memset(&trust->told, 0, sizeof(trust->told));
}
