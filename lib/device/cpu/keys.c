/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys on the CPU device, and opening and sealing chunk runs with them. A key is a key schedule and
 * a cipher made from it. Workers of the pool share a run, each with a copy of the cipher.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>

#include "base/base.h"
#include "crypto/crypto.h"

struct sgpu_device_key {
	struct sgpu_device_object object;
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *model;
};

static void key_free(struct sgpu_device_key *key)
{
	sgpu_aead_free(&key->model);
	sgpu_free_wiped(&key, sizeof(*key));
}

static int key_load(struct sgpu_stream *stream, const struct sgpu_sealed_keys *material, int count,
		    struct sgpu_device_key **keys, struct sgpu_error *error)
{
	int rc = SGPU_OK, made = 0;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		struct sgpu_device_key *new = calloc(1, sizeof(*new));

		if (!new) {
			rc = sgpu_fail_nomem(error);
			break;
		}
		new->object.backend = stream->object.backend;
		new->keys = material[i];
		keys[made++] = new;
		rc = sgpu_aead_create(NULL, new->keys.key, &new->model, error);
	}
	while (rc != SGPU_OK && made > 0) {
		key_free(keys[--made]);
		keys[made] = NULL;
	}
	return rc;
}

static bool reaches(struct sgpu_device *device, const void *memory, uint64_t size, bool write)
{
	(void)device;
	(void)memory;
	(void)size;
	(void)write;
	return true;
}

/* ---- chunk runs ---- */
/* Chunks that a worker takes at a time; one worker is fastest for GRAIN_MIN or fewer. */
enum { GRAIN_MIN = 8, GRAIN_MAX = 64 };

struct run {
	const struct sgpu_work *work;
	bool open;
	bool shared;	      /* the sealed side is memory of the host */
	uint64_t count;	      /* chunks */
	pthread_mutex_t lock; /* everything below */
	int code;
	uint64_t bad_chunk;
};

static int work_chunks(const struct run *run, struct sgpu_aead *aead, uint64_t first, bool last,
		       const uint8_t *in, uint64_t size, uint8_t *out, uint64_t *bad_chunk)
{
	const struct sgpu_sealed_keys *keys = &run->work->key->keys;

	*bad_chunk = first;
	return run->open ? sgpu_open_chunks(aead, keys, first, last, in, size, out, bad_chunk)
			 : sgpu_seal_chunks(aead, keys, first, last, in, size, out);
}

/* Others may change the host's memory meanwhile, and ciphers read what they open, and what they
 * have sealed, more than once: so a sealed chunk there goes through `own`, which nobody else
 * reaches. */
static int work_piece(const struct run *run, struct sgpu_aead *aead, uint64_t begin, uint64_t end,
		      uint8_t *own, uint64_t *bad_chunk)
{
	const struct sgpu_work *work = run->work;
	const uint64_t in_chunk = run->open ? SGPU_SEALED_CHUNK : SGPU_CHUNK;
	const uint64_t out_chunk = run->open ? SGPU_CHUNK : SGPU_SEALED_CHUNK;
	const uint64_t from = begin * in_chunk;
	const uint64_t size = sgpu_min_u64(end * in_chunk, work->size) - from;
	const uint8_t *in = (const uint8_t *)work->from + from;
	uint8_t *out = (uint8_t *)work->to + begin * out_chunk;
	const bool last = work->last && end == run->count;
	int rc;

	if (own && run->open) {
		memcpy(own, in, size);
		in = own;
	}
	rc = work_chunks(run, aead, work->first + begin, last, in, size,
			 own && !run->open ? own : out, bad_chunk);
	if (rc == SGPU_OK && own && !run->open) {
		memcpy(out, own, sgpu_run_sealed_size(size, last));
	}
	return rc;
}

/* The lowest chunk that fails is reported, in whatever order workers find failures. */
static void work_grain(void *argument, uint64_t begin, uint64_t end)
{
	struct run *run = argument;
	const uint64_t step = run->shared ? 1 : end - begin;
	struct sgpu_aead *aead = NULL;
	uint64_t bad_chunk = run->work->first + begin;
	uint8_t own[SGPU_SEALED_CHUNK];
	int rc = sgpu_aead_copy(run->work->key->model, &aead, NULL);

	do { /* also for an empty run, which fails if it should end the segment */
		const uint64_t next = sgpu_min_u64(begin + step, end);

		rc = rc ? rc
			: work_piece(run, aead, begin, next, run->shared ? own : NULL, &bad_chunk);
		begin = next;
	} while (rc == SGPU_OK && begin < end);
	sgpu_aead_free(&aead);
	pthread_mutex_lock(&run->lock);
	if (rc != SGPU_OK && (run->code == SGPU_OK || bad_chunk < run->bad_chunk)) {
		run->code = rc;
		run->bad_chunk = bad_chunk;
	}
	pthread_mutex_unlock(&run->lock);
}

static int run_chunks(struct sgpu_device *device, struct run *run, uint64_t *bad_chunk)
{
	uint64_t grain = run->count / ((uint64_t)sgpu_pool_jobs(device->pool) * 4);
	int rc = SGPU_OK;

	if (sgpu_pool_cancelled(device->pool)) {
		return SGPU_ECANCELED;
	}
	grain = grain < GRAIN_MIN ? GRAIN_MIN : sgpu_min_u64(grain, GRAIN_MAX);
	pthread_mutex_init(&run->lock, NULL);
	if (run->count > GRAIN_MIN) {
		rc = sgpu_pool_for(device->pool, run->count, grain, 0, work_grain, run);
	} else {
		work_grain(run, 0, run->count);
	}
	pthread_mutex_destroy(&run->lock);
	if (run->code != SGPU_OK) {
		rc = run->code;
		*bad_chunk = run->bad_chunk;
	}
	return rc;
}

int sgpu_cpu_open_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task)
{
	const struct sgpu_work *work = &item->work;
	struct run run = { .work = work,
			   .open = true,
			   .shared = work->kind == SGPU_WORK_OPEN_FROM && !work->alone };
	int rc;

	run.count = work->size / SGPU_SEALED_CHUNK + (work->size % SGPU_SEALED_CHUNK != 0);
	task->bad_chunk = work->first;
	rc = run_chunks(device, &run, &task->bad_chunk);
	if (rc != SGPU_OK) {
		sgpu_wipe(work->to, sgpu_opened_size(work->size));
	}
	if (rc == SGPU_EAUTH) {
		sgpu_fail(&task->error, rc, "chunk %llu does not verify",
			  (unsigned long long)task->bad_chunk);
	}
	return rc;
}

int sgpu_cpu_seal_run(struct sgpu_device *device, const struct sgpu_cpu_item *item,
		      struct sgpu_task *task)
{
	const struct sgpu_work *work = &item->work;
	struct run run = { .work = work,
			   .shared = work->kind == SGPU_WORK_SEAL_TO && !work->alone,
			   .count = work->size / SGPU_CHUNK + work->last };
	uint64_t unused;

	(void)task;
	return run_chunks(device, &run, &unused);
}

const struct sgpu_device_key_calls sgpu_cpu_key_calls = {
	.load = key_load,
	.free = key_free,
	.reaches = reaches,
};
