/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and sealing runs of chunks on the CPU device: groups of chunks are shared out over the pool, each worker
 * with a cipher of its own.
 */
#include <stdlib.h>
#include <string.h>

#include <device/cpu/cpu.h>
#include <seal/opened.h>

/* Up to here one worker is faster than several. */
enum { INLINE_CHUNKS = 8, GROUP_MIN = 8, GROUP_MAX = 64 };

/* One run that is worked on. */
struct run {
	const struct sgpu_cpu_item *item;
	bool open;
	uint64_t count;              /* chunks */
	pthread_mutex_t lock;        /* everything below */
	struct sgpu_aead **idle;     /* ciphers that no worker has now */
	unsigned idle_count;
	int code;
	uint64_t bad_chunk;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int take_aead(struct run *run, struct sgpu_aead **aead)
{
	int code = SGPU_OK;

	pthread_mutex_lock(&run->lock);
	if (run->idle_count > 0) {
		*aead = run->idle[--run->idle_count];
	} else {
		code = sgpu_aead_copy(run->item->key->model, aead, NULL);
	}
	pthread_mutex_unlock(&run->lock);
	return code;
}

/* The lowest chunk that fails is reported, whoever finds which first. */
static void finish_piece(struct run *run, struct sgpu_aead *aead, int code, uint64_t bad_chunk)
{
	pthread_mutex_lock(&run->lock);
	if (aead) {
		run->idle[run->idle_count++] = aead;
	}
	if (code != SGPU_OK && (run->code == SGPU_OK || bad_chunk < run->bad_chunk)) {
		run->code = code;
		run->bad_chunk = bad_chunk;
	}
	pthread_mutex_unlock(&run->lock);
}

/* Chunks [begin, end) of the run with this cipher. */
static int work(const struct run *run, struct sgpu_aead *aead, uint64_t begin, uint64_t end, uint64_t *bad_chunk)
{
	const struct sgpu_cpu_item *item = run->item;
	uint64_t in_chunk = run->open ? SGPU_SEALED_CHUNK : SGPU_CHUNK;
	uint64_t out_chunk = run->open ? SGPU_CHUNK : SGPU_SEALED_CHUNK;
	uint64_t from = begin * in_chunk, size = min_u64(end * in_chunk, item->size) - from;
	const uint8_t *in = (const uint8_t *)item->from + from;
	uint8_t *out = (uint8_t *)item->to + begin * out_chunk;
	bool last = item->last && end == run->count;

	*bad_chunk = item->first + begin;
	if (run->open) {
		return sgpu_open_chunks(aead, &item->key->keys, item->first + begin, last, in, size, out, bad_chunk);
	}
	return sgpu_seal_chunks(aead, &item->key->keys, item->first + begin, last, in, size, out);
}

static void piece(void *argument, uint64_t begin, uint64_t end)
{
	struct run *run = argument;
	struct sgpu_aead *aead = NULL;
	uint64_t bad_chunk = run->item->first + begin;
	int code = take_aead(run, &aead);

	if (code == SGPU_OK) {
		code = work(run, aead, begin, end, &bad_chunk);
	}
	finish_piece(run, aead, code, bad_chunk);
}

static int run_shared(struct sgpu_device *device, struct run *run, uint64_t *bad_chunk)
{
	unsigned jobs = sgpu_pool_jobs(device->pool), i;
	uint64_t grain = run->count / ((uint64_t)jobs * 4);
	int code;

	grain = grain < GROUP_MIN ? GROUP_MIN : min_u64(grain, GROUP_MAX);
	run->idle = calloc(jobs, sizeof(struct sgpu_aead *));
	if (!run->idle || pthread_mutex_init(&run->lock, NULL) != 0) {
		free(run->idle);
		return SGPU_ENOMEM;
	}
	code = sgpu_pool_for(device->pool, run->count, grain, piece, run);
	if (run->code != SGPU_OK) {
		code = run->code;
		*bad_chunk = run->bad_chunk;
	}
	for (i = 0; i < run->idle_count; i++) {
		sgpu_aead_free(&run->idle[i]);
	}
	free(run->idle);
	pthread_mutex_destroy(&run->lock);
	return code;
}

static int perform(struct sgpu_device *device, struct run *run, uint64_t *bad_chunk)
{
	struct sgpu_aead *aead = NULL;
	int code;

	if (sgpu_pool_cancelled(device->pool)) {
		return SGPU_ECANCELED;
	}
	if (run->count > INLINE_CHUNKS && sgpu_pool_jobs(device->pool) > 1) {
		return run_shared(device, run, bad_chunk);
	}
	code = sgpu_aead_copy(run->item->key->model, &aead, NULL);
	if (code == SGPU_OK) {
		code = work(run, aead, 0, run->count, bad_chunk);
	}
	sgpu_aead_free(&aead);
	return code;
}

int sgpu_cpu_open_chunks(struct sgpu_device *device, const struct sgpu_cpu_item *item, uint64_t *bad_chunk)
{
	struct run run = { .item = item, .open = true };
	int code;

	run.count = item->size / SGPU_SEALED_CHUNK + (item->size % SGPU_SEALED_CHUNK != 0);
	*bad_chunk = item->first;
	code = perform(device, &run, bad_chunk);
	if (code != SGPU_OK) {
		sgpu_wipe(item->to, sgpu_opened_size(item->size));
	}
	return code;
}

int sgpu_cpu_seal_chunks(struct sgpu_device *device, const struct sgpu_cpu_item *item)
{
	struct run run = { .item = item };
	uint64_t unused;

	run.count = item->size / SGPU_CHUNK + item->last;
	return perform(device, &run, &unused);
}
