/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "crypto/crypto.h"
#include "cases.h"

int bench_each_size(struct sgpu_bench *bench, const struct bench_sizes *sizes,
		    bench_size_fn measure, void *argument, struct sgpu_error *error)
{
	const uint64_t taken = bench->options.quick ? sizes->all & sizes->quick : sizes->all;
	int rc = SGPU_OK;

	for (uint64_t size = 1; rc == SGPU_OK && size; size *= 2) {
		const struct sgpu_bench_point point = { .parameters = {
								{ "size_bytes", NULL, size } } };
		const void *const mark = bench->kept;
		struct sgpu_error lack;

		if (!(size & taken) || !sgpu_bench_wants(bench, size)) {
			continue;
		}
		if (sgpu_bench_fits(bench, sizes->host * size + sizes->more,
				    sizes->device * size + sizes->more, &lack) != SGPU_OK) {
			sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
			continue;
		}
		rc = measure(argument, size, error);
		sgpu_bench_release(bench, mark);
	}
	return rc;
}

SGPU_BENCH_ENDING(end_aead, struct sgpu_aead, sgpu_aead_free)
SGPU_BENCH_ENDING(end_device_key, struct sgpu_device_key, sgpu_device_key_free)

int bench_new_aead(struct sgpu_bench *bench, const char *provider, const uint8_t key[SGPU_KEY_SIZE],
		   struct sgpu_aead **aead, struct sgpu_error *error)
{
	const int rc = sgpu_aead_create(provider, key, aead, error);

	return rc ? rc : sgpu_bench_keep(bench, end_aead, (uintptr_t)*aead, 0, error);
}

int bench_new_device_key(struct sgpu_bench *bench, struct sgpu_stream *stream,
			 const struct sgpu_sealed_keys *keys, struct sgpu_device_key **key,
			 struct sgpu_error *error)
{
	const int rc = sgpu_device_key_load(stream, keys, key, error);

	return rc ? rc : sgpu_bench_keep(bench, end_device_key, (uintptr_t)*key, 0, error);
}

int bench_new_sealed(struct sgpu_bench *bench, uint64_t size, uint64_t seed,
		     struct bench_sealed *sealed, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 9 };
	int rc = sgpu_sealed_keys_new(secret, "", 0, &sealed->keys, error);

	sealed->size = size;
	sealed->sealed_size = sgpu_run_sealed_size(size, true);
	rc = rc ? rc : bench_new_aead(bench, NULL, sealed->keys.key, &sealed->aead, error);
	rc = rc ? rc
		: bench_new_device_key(bench, bench->stream, &sealed->keys, &sealed->key, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, size, &sealed->plain, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, sealed->sealed_size, &sealed->sealed, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, sealed->sealed_size, &sealed->result, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(sealed->plain, size, seed);
		rc = sgpu_seal_chunks(sealed->aead, &sealed->keys, 0, true, sealed->plain, size,
				      sealed->sealed);
		rc = rc == SGPU_OK ? rc
				   : sgpu_fail(error, rc, "cannot seal: %s", sgpu_strerror(rc));
	}
	return rc;
}

enum { PAGE = 4096 };
#define HUGE_PAGE ((uint64_t)2 << 20)

int bench_new_pages(struct sgpu_bench *bench, uint64_t size, void **memory,
		    struct sgpu_error *error)
{
	const uint64_t extent = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;

	*memory = aligned_alloc(HUGE_PAGE, extent);
	if (!*memory) {
		return sgpu_fail_nomem(error);
	}
	(void)madvise(*memory, extent, MADV_HUGEPAGE);
	memset(*memory, 1, size);
	return sgpu_bench_keep(bench, sgpu_bench_end_memory, (uintptr_t)*memory, 0, error);
}

void bench_spoil(void *memory, uint64_t size)
{
	uint8_t *at = memory;

	for (uint64_t i = 0; i < size; i += PAGE) {
		at[i] ^= 0x5a;
	}
}

uint64_t bench_repeats(uint64_t size, uint64_t most)
{
	const uint64_t repeats = ((uint64_t)256 << 20) / size;

	return repeats < 1 ? 1 : sgpu_min_u64(repeats, most);
}

int bench_time_memory(struct sgpu_bench *bench, struct sgpu_device *device, uint64_t size,
		      bool gives_back, struct sgpu_error *error)
{
	const uint64_t begin = sgpu_now_ns();
	sgpu_devptr memory = 0;
	const int rc = sgpu_device_alloc(device, size, &memory, error);
	const uint64_t between = sgpu_now_ns();

	sgpu_device_free(device, &memory, size);
	bench->ns = gives_back ? sgpu_now_ns() - between : between - begin;
	return rc;
}

int bench_finish(struct sgpu_stream *stream, int rc, const struct sgpu_task *tasks, int count,
		 const char *what, struct sgpu_error *error)
{
	const int waited = sgpu_stream_sync(stream, error);

	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "cannot %s: %s", what, sgpu_strerror(rc));
	}
	return waited == SGPU_OK ? sgpu_bench_tasks(tasks, count, error) : waited;
}

int bench_to_device(struct sgpu_stream *stream, sgpu_devptr to, const void *from, uint64_t size,
		    struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_copy_in(stream, to, from, size, &task);

	return bench_finish(stream, rc, &task, 1, "copy to the device", error);
}

int bench_from_device(struct sgpu_stream *stream, void *to, sgpu_devptr from, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_copy_out(stream, to, from, size, &task);

	return bench_finish(stream, rc, &task, 1, "copy from the device", error);
}

int bench_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
		struct sgpu_error *error)
{
	struct sgpu_task task = { 0 };
	const int rc = sgpu_device_clear(stream, memory, size, &task);

	return bench_finish(stream, rc, &task, 1, "clear device memory", error);
}

int bench_clear_target(void *target, struct sgpu_error *error)
{
	const struct bench_target *t = target;

	return bench_clear(t->stream, t->memory, t->size, error);
}

int bench_verify_target(void *target, struct sgpu_error *error)
{
	const struct bench_target *t = target;
	int rc;

	bench_spoil(t->scratch, t->size);
	rc = bench_from_device(t->stream, t->scratch, t->memory, t->size, error);
	return rc ? rc : sgpu_bench_check(t->scratch, t->size, t->seed, error);
}
