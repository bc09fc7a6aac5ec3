/* SPDX-License-Identifier: Apache-2.0
 *
 * What several cases make alike.
 */
#include "made.h"

int bench_each_size(struct sgpu_bench *bench, const uint64_t *sizes, int count,
		    struct bench_need need, bench_size_fn measure, void *argument,
		    struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		const struct sgpu_bench_point point = { .parameters = { { "size_bytes", NULL,
									  sizes[i] } } };
		const size_t mark = sgpu_bench_mark(bench);
		struct sgpu_error lack;

		if (!sgpu_bench_wants(bench, sizes[i])) {
			continue;
		}
		if (sgpu_bench_fits(bench, need.host * sizes[i] + need.more,
				    need.device * sizes[i] + need.more, &lack) != SGPU_OK) {
			sgpu_bench_waive(bench, &point, NULL, "%s", lack.text);
			continue;
		}
		rc = measure(argument, sizes[i], error);
		sgpu_bench_release(bench, mark);
	}
	return rc;
}

int bench_sweep(struct sgpu_bench *bench, uint64_t min, uint64_t max, struct bench_need need,
		bench_size_fn measure, void *argument, struct sgpu_error *error)
{
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	const int count = sgpu_bench_sizes(bench, min, max, sizes);

	return bench_each_size(bench, sizes, count, need, measure, argument, error);
}

int bench_or_waive(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		   const char *variant, int rc, const struct sgpu_error *error)
{
	if (rc == SGPU_EUNAVAILABLE) {
		sgpu_bench_waive(bench, point, variant, "%s", error->text);
		return SGPU_OK;
	}
	return rc;
}

/* ---- things ---- */
BENCH_ENDING(end_device, struct sgpu_device, sgpu_device_close)
BENCH_ENDING(end_pool, struct sgpu_pool, sgpu_pool_free)
BENCH_ENDING(end_aead, struct sgpu_aead, sgpu_aead_free)
BENCH_ENDING(end_device_key, struct sgpu_device_key, sgpu_device_key_free)

int bench_new_device(struct sgpu_bench *bench, const char *selector, struct sgpu_device **device,
		     struct sgpu_error *error)
{
	const struct sgpu_device_config config = { .jobs = bench->options.jobs,
						   .timer = bench->options.timer };
	const int rc = sgpu_device_open(selector, &config, device, error);

	return rc ? rc : sgpu_bench_keep(bench, end_device, (uintptr_t)*device, 0, error);
}

int bench_new_pool(struct sgpu_bench *bench, struct sgpu_pool **pool, struct sgpu_error *error)
{
	const int rc = sgpu_pool_create(bench->options.jobs, pool, error);

	return rc ? rc : sgpu_bench_keep(bench, end_pool, (uintptr_t)*pool, 0, error);
}

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

int bench_new_sealed(struct sgpu_bench *bench, struct sgpu_stream *stream, uint64_t size,
		     uint64_t seed, struct bench_sealed *sealed, struct sgpu_error *error)
{
	const uint8_t secret[SGPU_KEY_SIZE] = { 9 };
	int rc = sgpu_sealed_keys_new(secret, "", 0, &sealed->keys, error);

	sealed->size = size;
	sealed->sealed_size = sgpu_run_sealed_size(size, true);
	rc = rc ? rc : bench_new_aead(bench, NULL, sealed->keys.key, &sealed->aead, error);
	rc = rc ? rc : bench_new_device_key(bench, stream, &sealed->keys, &sealed->key, error);
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
