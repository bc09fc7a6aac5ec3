/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of sealed segments. They cross the bus sealed under the session key (agree.c), as parameters
 * of the kernel that makes their states. The keys of a launch are a group, whose states are in one
 * block that no copy reaches. They are cleared together.
 *
 * Other streams wait for a key's set-up alone, by an event directly after it, since later work of
 * its stream may never end.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cuda/kernels.h>
#include <device/cuda/stream.h>

struct group;
struct sgpu_device_key {
	struct sgpu_device_object object;
	struct group *group;
	CUdeviceptr state;
};

struct group {
	struct sgpu_device *device;
	struct sgpu_stream *stream; /* on which it is set up */
	CUdeviceptr states;
	CUevent ready;
	atomic_bool done; /* the set-up is known to have ended */
	atomic_int live;  /* keys that are not freed */
	struct sgpu_device_key keys[];
};

/* Seals the keys and enqueues the set-up. The stream's lock is held. */
static CUresult set_up(struct group *group, const struct sgpu_sealed_keys *material, int count)
{
	struct sgpu_cuda_keys *all = &group->device->keys;
	const CUstream native = group->stream->native;
	struct sgpu_cuda_message message = { .session = all->trust.session,
					     .states = group->states };
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&all->lock);
	for (int i = 0; result == CUDA_SUCCESS && i < count; i++) {
		if (sgpu_cuda_seal_key(group->device, &material[i], &message.keys[i]) != SGPU_OK) {
			result = CUDA_ERROR_NOT_PERMITTED;
		}
	}
	pthread_mutex_unlock(&all->lock);
	if (result == CUDA_SUCCESS) {
		result = (CUresult)sgpu_cuda_keys_deliver(native, &message, (unsigned)count);
	}
	return result == CUDA_SUCCESS ? sgpu_cuda_event_after(group->device, native, &group->ready)
				      : result;
}

/* Frees a group; no work with it is pending. On a faulted device the states stay to its end. */
static void end_group(struct group *group)
{
	sgpu_cuda_event_give(group->device, group->ready);
	sgpu_cuda_private_free(group->device, group->states);
	free(group);
}

static int make_group(struct sgpu_stream *stream, int count, struct group **group,
		      struct sgpu_error *error)
{
	struct group *new = calloc(1, sizeof(*new) + (size_t)count * sizeof(*new->keys));
	int rc;

	if (!new) {
		return sgpu_fail_nomem(error);
	}
	rc = sgpu_cuda_private_alloc(stream->device, (uint64_t)count * SGPU_CUDA_KEY_STATE,
				     &new->states, error);
	if (rc < 0) {
		free(new);
		return rc;
	}
	new->device = stream->device;
	new->stream = stream;
	atomic_init(&new->live, count);
	for (int i = 0; i < count; i++) {
		new->keys[i].object.backend = &sgpu_cuda_backend;
		new->keys[i].group = new;
		new->keys[i].state = new->states + (CUdeviceptr)i *SGPU_CUDA_KEY_STATE;
	}
	*group = new;
	return SGPU_OK;
}

static int load_group(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material,
		      int count, struct sgpu_device_key **keys, struct sgpu_error *error)
{
	struct group *group = NULL;
	int rc = make_group(stream, count, &group, error);

	if (rc < 0) {
		return rc;
	}
	rc = sgpu_cuda_begin(stream, NULL);
	if (rc < 0) {
		end_group(group);
		return sgpu_cuda_faulted(stream->device, error);
	}
	rc = sgpu_cuda_check(stream->device, set_up(group, material, count),
			     "cannot bring keys to the device", error);
	stream->enqueued++;
	if (rc < 0) {
		sgpu_cuda_wait_until_idle(stream); /* the kernel may run */
	}
	pthread_mutex_unlock(&stream->lock);
	if (rc < 0) {
		end_group(group);
		return rc;
	}
	for (int i = 0; i < count; i++) {
		keys[i] = &group->keys[i];
	}
	return SGPU_OK;
}

/* The last key ends its group. Of work with the keys only their set-up may be pending, if none was
 * used. */
static void key_free(struct sgpu_device_key *key)
{
	struct group *group = key->group;

	if (atomic_fetch_sub(&group->live, 1) > 1) {
		return;
	}
	if (!atomic_load(&group->done) && sgpu_cuda_enter(group->device, NULL) == SGPU_OK) {
		(void)!sgpu_cuda_wait(group->device, group->ready, NULL);
	}
	end_group(group);
}

static int keys_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material, int count,
		     struct sgpu_device_key **keys, struct sgpu_error *error)
{
	int rc = sgpu_cuda_enter(stream->device, error), done = 0;

	if (rc == SGPU_OK) {
		rc = sgpu_cuda_keys_ready(stream->device, error);
	}
	while (rc == SGPU_OK && done < count) {
		const int part = count - done < SGPU_CUDA_KEYS ? count - done : SGPU_CUDA_KEYS;

		rc = load_group(stream, material + done, part, keys + done, error);
		done += rc == SGPU_OK ? part : 0;
	}
	if (rc != SGPU_OK) {
		while (done > 0) {
			key_free(keys[--done]);
		}
		memset(keys, 0, (size_t)count * sizeof(*keys));
	}
	return rc;
}

CUresult sgpu_cuda_key_use(struct sgpu_stream *stream, struct sgpu_device_key *key,
			   const struct sgpu_device_key *before, uint64_t *state)
{
	struct group *group = key->group;

	*state = key->state;
	if (group->stream == stream || (before && before->group == group) ||
	    atomic_load(&group->done)) {
		return CUDA_SUCCESS;
	}
	return sgpu_cu.cuStreamWaitEvent(stream->native, group->ready, 0);
}

void sgpu_cuda_key_was_used(struct sgpu_device_key *key)
{
	atomic_store(&key->group->done, true);
}

static bool reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	return size <= SGPU_REACHED_MAX && sgpu_cuda_reach(device, memory, size, write) != 0;
}

const struct sgpu_device_key_calls sgpu_cuda_key_calls = {
	.load = keys_load,
	.free = key_free,
	.reaches = reaches,
	.agree = sgpu_cuda_agree,
};
