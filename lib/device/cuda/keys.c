/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of sealed segments on the GPU. They cross the bus sealed under the session key (agree.c), as
 * parameters of the kernel that makes the key's state. States are in memory that no copy reaches,
 * and are cleared when a key is freed.
 *
 * Other streams that use a key wait for its set-up alone: an event is recorded directly after the
 * set-up, since later work of its stream may never end.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

struct sgpu_device_key {
	struct sgpu_device_object object;
	struct sgpu_device *device;
	struct sgpu_cuda_key_state *state;
	struct sgpu_stream *stream; /* on which it is set up */
	CUevent ready;		    /* recorded after the set-up */
	atomic_bool done;	    /* the set-up is known to have ended */
};

int sgpu_cuda_keys_open(struct sgpu_device *device, struct sgpu_error *error)
{
	return sgpu_cuda_check(device, sgpu_cuda_event_take(device, &device->keys.cleared),
			       "cannot create an event", error);
}

/* Enqueues the clearing of a state; the next set-up in it waits for that. The lock is held. */
static CUresult clear_state(struct sgpu_device *device, struct sgpu_cuda_key_state *state)
{
	struct sgpu_cuda_keys *keys = &device->keys;

	state->next = keys->clearing;
	keys->clearing = state;
	keys->marked = false;
	return sgpu_cu.cuMemsetD8Async(state->address, 0, keys->size, device->internal);
}

static void free_states(struct sgpu_device *device, struct sgpu_cuda_key_state **list)
{
	struct sgpu_cuda_key_state *state;

	while ((state = *list)) {
		*list = state->next;
		sgpu_cuda_private_free(device, state->address);
		free(state);
	}
}

/* Makes another state; the lock is held. */
static int add_state(struct sgpu_device *device, struct sgpu_error *error)
{
	struct sgpu_cuda_keys *keys = &device->keys;
	struct sgpu_cuda_key_state *state = calloc(1, sizeof(*state));
	int rc;

	if (!state) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_private_alloc(device, keys->size, &state->address, error);
	if (rc < 0) {
		free(state);
		return rc;
	}
	/* Clear it: a state that no kernel set up must not look usable. */
	rc = sgpu_cuda_check(device, clear_state(device, state), "cannot clear device memory",
			     error);
	if (rc < 0) {
		keys->clearing = state->next;
		state->next = NULL;
		free_states(device, &state);
	}
	return rc;
}

/* Makes the stream wait until all of `clearing` is clear. The lock is held. */
static CUresult wait_until_clear(struct sgpu_stream *stream)
{
	struct sgpu_cuda_keys *keys = &stream->device->keys;
	CUresult result = CUDA_SUCCESS;

	if (!keys->marked) {
		result = sgpu_cu.cuEventRecord(keys->cleared, stream->device->internal);
		keys->marked = result == CUDA_SUCCESS;
	}
	if (result == CUDA_SUCCESS) {
		result = sgpu_cu.cuEventQuery(keys->cleared);
	}
	if (result == CUDA_ERROR_NOT_READY) {
		return sgpu_cu.cuStreamWaitEvent(stream->native, keys->cleared, 0);
	}
	if (result == CUDA_SUCCESS) {
		keys->idle = keys->clearing;
		keys->clearing = NULL;
	}
	return result;
}

/* Takes a state that is clear by the time the stream's next work runs. The lock is held. */
static int take_state(struct sgpu_stream *stream, struct sgpu_cuda_key_state **state,
		      struct sgpu_error *error)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_keys *keys = &device->keys;
	struct sgpu_cuda_key_state **list;
	int rc = keys->idle || keys->clearing ? SGPU_OK : add_state(device, error);

	if (rc == SGPU_OK && !keys->idle) {
		rc = sgpu_cuda_check(device, wait_until_clear(stream),
				     "cannot wait for device memory", error);
	}
	if (rc == SGPU_OK) {
		list = keys->idle ? &keys->idle : &keys->clearing;
		*state = *list;
		*list = (*state)->next;
	}
	return rc;
}

/* Enqueues the set-up. The stream's lock and the keys' are held. */
static CUresult set_up(struct sgpu_stream *stream, struct sgpu_device_key *key,
		       const struct sgpu_sealed_keys *material)
{
	struct sgpu_cuda_delivery delivery;
	CUresult result;

	if (sgpu_cuda_seal_key(stream->device, material, &delivery) != SGPU_OK) {
		return CUDA_ERROR_NOT_PERMITTED;
	}
	result = (CUresult)sgpu_cuda_key_deliver(stream->native, &delivery, key->state->address);
	return result == CUDA_SUCCESS
		       ? sgpu_cuda_event_after(stream->device, stream->native, &key->ready)
		       : result;
}

/* Gives a state back to be cleared. usable: the context is current and the device not faulted. The
 * keys' lock is held. */
static void retire(struct sgpu_device *device, struct sgpu_cuda_key_state *state, bool usable)
{
	struct sgpu_cuda_keys *keys = &device->keys;

	if (usable) {
		sgpu_cuda_note(device, clear_state(device, state));
		return;
	}
	if (atomic_load(&device->faulted) == 0) {
		free(state); /* its memory is freed when the device is closed */
		return;
	}
	state->next = keys->clearing; /* a faulted device sets up no more keys */
	keys->clearing = state;
}

/* Retires the state of a failed set-up, whose kernel may run. The keys' lock is held. */
static void give_up(struct sgpu_device *device, struct sgpu_stream *stream,
		    struct sgpu_device_key *key)
{
	bool usable = atomic_load(&device->faulted) == 0;

	if (usable) {
		sgpu_cuda_wait_until_idle(stream);
	}
	sgpu_cuda_event_give(device, key->ready);
	retire(device, key->state, usable);
}

static int load_key(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
		    struct sgpu_device_key **key, struct sgpu_error *error)
{
	struct sgpu_device *device = stream->device;
	struct sgpu_cuda_keys *keys = &device->keys;
	struct sgpu_device_key *new;
	int rc = sgpu_cuda_enter(device, error);

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_keys_ready(device, error);
	}
	if (rc < 0) {
		return rc;
	}
	new = calloc(1, sizeof(*new));
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->object.backend = &sgpu_cuda_backend;
	new->device = device;
	new->stream = stream;
	rc = sgpu_cuda_begin(stream, NULL);
	if (rc < 0) {
		free(new);
		return sgpu_cuda_faulted(device, error);
	}
	pthread_mutex_lock(&keys->lock);
	rc = take_state(stream, &new->state, error);
	if (rc == SGPU_OK) {
		rc = sgpu_cuda_check(device, set_up(stream, new, material),
				     "cannot bring a key to the device", error);
		if (rc < 0) {
			give_up(device, stream, new);
		}
	}
	pthread_mutex_unlock(&keys->lock);
	stream->enqueued++;
	pthread_mutex_unlock(&stream->lock);
	if (rc < 0) {
		free(new);
		return rc;
	}
	*key = new;
	return SGPU_OK;
}

int sgpu_cuda_keys_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
			int count, struct sgpu_device_key **keys, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = load_key(stream, &material[i], &keys[i], error);
	}
	for (int i = 0; rc != SGPU_OK && i < count && keys[i]; i++) {
		sgpu_cuda_key_free(keys[i]);
		keys[i] = NULL;
	}
	return rc;
}

CUresult sgpu_cuda_key_use(struct sgpu_stream *stream, struct sgpu_device_key *key,
			   CUdeviceptr *state)
{
	*state = key->state->address;
	if (key->stream == stream || atomic_load(&key->done)) {
		return CUDA_SUCCESS;
	}
	return sgpu_cu.cuStreamWaitEvent(stream->native, key->ready, 0);
}

void sgpu_cuda_key_was_used(struct sgpu_device_key *key)
{
	atomic_store(&key->done, true);
}

/* No work with the key is pending, but its set-up may be, if it was never used. */
void sgpu_cuda_key_free(struct sgpu_device_key *key)
{
	struct sgpu_device *device = key->device;
	struct sgpu_cuda_keys *keys = &device->keys;
	bool usable =
		sgpu_cuda_enter(device, NULL) == SGPU_OK &&
		(atomic_load(&key->done) || sgpu_cuda_wait(device, key->ready, NULL) == SGPU_OK) &&
		atomic_load(&device->faulted) == 0;

	sgpu_cuda_event_give(device, key->ready);
	pthread_mutex_lock(&keys->lock);
	retire(device, key->state, usable);
	pthread_mutex_unlock(&keys->lock);
	free(key);
}

void sgpu_cuda_keys_close(struct sgpu_device *device)
{
	struct sgpu_cuda_keys *keys = &device->keys;

	sgpu_cuda_trust_close(device);
	free_states(device, &keys->idle);
	free_states(device, &keys->clearing);
	sgpu_cuda_event_give(device, keys->cleared);
}
