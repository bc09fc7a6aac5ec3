/* SPDX-License-Identifier: Apache-2.0
 *
 * A known answer of the kernels that set up keys and open: what was loaded as code cannot be read
 * back from a device, so before the first key goes there each kernel that opens has to open one
 * chunk right, and to refuse it when one bit of it, or of its key, was changed. A device that fails
 * is not used any more.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/kernels.h>
#include <device/cuda/gpu.h>

enum { COUNTER = 256 }; /* bytes, before the state */

struct test {
	struct sgpu_device *device;
	CUdeviceptr room, state, sealed, plain;
	struct sgpu_cuda_status *status;
	uint8_t *bytes; /* a sealed chunk, then what was opened */
};

/* Key 00 01 02 ..., base nonce 80 81 82 ..., plaintext i * 131 >> 3: the tag that AES-256-GCM
 * gives. */
static const uint8_t known_tag[SGPU_TAG_SIZE] = {
	0x97, 0xe1, 0xfe, 0xca, 0x28, 0xb0, 0x8c, 0x7c,
	0x75, 0x1c, 0x95, 0xd9, 0x61, 0x89, 0x15, 0x19,
};

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 131 >> 3);
}

static void known_keys(struct sgpu_sealed_keys *keys)
{
	memset(keys, 0, sizeof(*keys));
	for (int i = 0; i < SGPU_KEY_SIZE; i++) {
		keys->key[i] = (uint8_t)i;
	}
	for (int i = 0; i < SGPU_NONCE_SIZE; i++) {
		keys->base_nonce[i] = (uint8_t)(0x80 + i);
	}
}

static size_t room_size(const struct sgpu_device *device)
{
	return COUNTER + device->keys.size + SGPU_SEALED_CHUNK + SGPU_CHUNK;
}

/* The chunk, sealed by the host, whose tag must be the known one, too. */
static int make_chunk(struct test *t, struct sgpu_error *error)
{
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead = NULL;
	int code;

	known_keys(&keys);
	for (size_t i = 0; i < SGPU_CHUNK; i++) {
		t->bytes[i] = pattern(i);
	}
	code = sgpu_aead_create(NULL, keys.key, &aead, error);
	if (code == SGPU_OK) {
		code = sgpu_aead_seal(aead, keys.base_nonce, t->bytes, SGPU_CHUNK, t->bytes,
				      t->bytes + SGPU_CHUNK);
		if (code < 0 || memcmp(t->bytes + SGPU_CHUNK, known_tag, SGPU_TAG_SIZE) != 0) {
			code = sgpu_fail(error, SGPU_EDEVICE,
					 "AES-256-GCM of the host fails its known answer");
		}
	}
	sgpu_aead_free(&aead);
	return code;
}

/* Brings the key to the device: sealed, or as it is. */
static int load(struct test *t, bool sealed, bool change, struct sgpu_error *error)
{
	struct sgpu_cuda_keys *all = &t->device->keys;
	struct sgpu_cuda_delivery delivery;
	struct sgpu_sealed_keys keys;
	CUresult result =
		sgpu_cu.cuMemsetD8Async(t->room, 0, COUNTER + all->size, t->device->internal);
	int code = SGPU_OK;

	known_keys(&keys);
	if (sealed) {
		pthread_mutex_lock(&all->lock);
		code = sgpu_cuda_seal_key(t->device, &keys, &delivery);
		pthread_mutex_unlock(&all->lock);
		if (code < 0) {
			return sgpu_fail(error, code, "cannot seal a key for the device");
		}
		delivery.words[3] ^= change ? 0x100 : 0;
		if (result == CUDA_SUCCESS) {
			result = (CUresult)sgpu_cuda_key_deliver(t->device->internal, &delivery,
								 t->state);
		}
	} else {
		memcpy((void *)(uintptr_t)t->status->host, keys.key, SGPU_KEY_SIZE);
		memcpy((uint8_t *)(uintptr_t)t->status->host + SGPU_KEY_SIZE, keys.base_nonce,
		       SGPU_NONCE_SIZE);
		atomic_thread_fence(memory_order_seq_cst);
		if (result == CUDA_SUCCESS) {
			result = (CUresult)sgpu_cuda_key_setup(t->device->internal,
							       t->status->device, t->state);
		}
	}
	code = sgpu_cuda_check(t->device, result, "cannot set up a key on the device", error);
	return code == SGPU_OK ? sgpu_cuda_sync_internal(t->device, error) : code;
}

/* Opens the chunk. */
static int open_chunk(struct test *t, enum sgpu_cuda_kernel kernel,
		      struct sgpu_cuda_verdict *verdict, struct sgpu_error *error)
{
	CUstream stream = t->device->internal;
	struct sgpu_cuda_report report = { .verdict = t->status->device, .counter = t->room };
	uint64_t expected;
	CUresult result;
	int code;

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
		result = (CUresult)sgpu_cuda_open(stream, t->state, 0, false, t->sealed,
						  SGPU_SEALED_CHUNK, t->plain, kernel, &report,
						  &expected);
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuMemcpyDtoHAsync(t->bytes + SGPU_SEALED_CHUNK, t->plain,
						   SGPU_CHUNK, stream);
	}
	code = sgpu_cuda_check(t->device, result, "cannot open on the device", error);
	if (code == SGPU_OK) {
		code = sgpu_cuda_sync_internal(t->device, error);
	}
	atomic_thread_fence(memory_order_acquire);
	memcpy(verdict, (const void *)(uintptr_t)t->status->host, sizeof(*verdict));
	return code;
}

static bool opened_right(const struct test *t, const struct sgpu_cuda_verdict *verdict)
{
	bool right = verdict->bad == UINT64_MAX && verdict->done == 1 && verdict->refused == 0;

	for (size_t i = 0; i < SGPU_CHUNK; i++) {
		right = right && t->bytes[SGPU_SEALED_CHUNK + i] == pattern(i);
	}
	return right;
}

/* What is wrong with a kernel that opens, or NULL; *code of what could not be done. */
static const char *run_kernel(struct test *t, enum sgpu_cuda_kernel kernel, bool sealed, int *code,
			      struct sgpu_error *error)
{
	struct sgpu_cuda_verdict verdict;

	*code = load(t, sealed, false, error);
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
	if (!sealed) {
		return NULL;
	}
	*code = load(t, true, true, error);
	*code = *code == SGPU_OK ? open_chunk(t, kernel, &verdict, error) : *code;
	return *code == SGPU_OK && verdict.refused == 1 && verdict.done == 0
		       ? NULL
		       : "it takes a key that was changed";
}

static const char *run(struct test *t, bool sealed, int *code, struct sgpu_error *error)
{
	const char *wrong = run_kernel(t, SGPU_CUDA_LARGE, sealed, code, error);

	return wrong ? wrong : run_kernel(t, SGPU_CUDA_SMALL, sealed, code, error);
}

int sgpu_cuda_known_answer(struct sgpu_device *device, bool sealed, struct sgpu_error *error)
{
	struct test t = { .device = device, .bytes = calloc(1, SGPU_SEALED_CHUNK + SGPU_CHUNK) };
	const char *wrong;
	int code = t.bytes ? make_chunk(&t, error) : sgpu_fail_nomem(error);

	if (code == SGPU_OK) {
		code = sgpu_cuda_private_alloc(device, room_size(device), &t.room, error);
	}
	if (code == SGPU_OK) {
		t.status = sgpu_cuda_status_take(device, 0);
		code = t.status ? SGPU_OK : sgpu_fail_nomem(error);
	}
	if (code == SGPU_OK) {
		t.state = t.room + COUNTER;
		t.sealed = t.state + device->keys.size;
		t.plain = t.sealed + SGPU_SEALED_CHUNK;
		wrong = run(&t, sealed, &code, error);
		if (code == SGPU_OK && wrong) {
			sgpu_cuda_fault(device, SGPU_EDEVICE, false,
					"it fails the known answer of AES-256-GCM");
			code = sgpu_fail(error, SGPU_EDEVICE,
					 "the device fails the known answer of AES-256-GCM: %s",
					 wrong);
		}
	}
	sgpu_cuda_status_give(device, t.status);
	sgpu_cuda_private_free(device, t.room);
	free(t.bytes);
	return code;
}
