/* SPDX-License-Identifier: Apache-2.0
 *
 * What several cases make alike. All of it is kept until the case ends, or the part of it that made
 * it.
 */
#ifndef BENCH_MADE_H
#define BENCH_MADE_H

#include <sgpu/bench.h>
#include <sgpu/crypto.h>
#include <sgpu/seal.h>

/* Defines a function for sgpu_bench_keep that ends a thing by a function that takes a pointer to
 * the thing's pointer. */
#define BENCH_ENDING(name, type, function)                                        \
	static void name(struct sgpu_bench *bench, uintptr_t what, uint64_t size) \
	{                                                                         \
		type *made = (type *)what;                                        \
                                                                                  \
		(void)bench, (void)size;                                          \
		function(&made);                                                  \
	}

/* Memory that a size needs: so many times the size, and some more of each. */
struct bench_need {
	unsigned host, device;
	uint64_t more;
};
typedef int (*bench_size_fn)(void *argument, uint64_t size, struct sgpu_error *error);
/* Calls measure() for each size that --size allows and that there is memory for, and waives the
 * others. What measure() makes ends with each size. */
SGPU_MUST_CHECK int bench_each_size(struct sgpu_bench *bench, const uint64_t *sizes, int count,
				    struct bench_need need, bench_size_fn measure, void *argument,
				    struct sgpu_error *error);
/* The same for the sizes of sgpu_bench_sizes. */
SGPU_MUST_CHECK int bench_sweep(struct sgpu_bench *bench, uint64_t min, uint64_t max,
				struct bench_need need, bench_size_fn measure, void *argument,
				struct sgpu_error *error);

/* rc; but if it says that something is lacking, the point or its variant is waived with the error's
 * text, and SGPU_OK. */
SGPU_MUST_CHECK int bench_or_waive(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
				   const char *variant, int rc, const struct sgpu_error *error);

/* A device besides bench->device, whose memory ends with it. */
SGPU_MUST_CHECK int bench_new_device(struct sgpu_bench *bench, const char *selector,
				     struct sgpu_device **device, struct sgpu_error *error);
/* Threads for all jobs. */
SGPU_MUST_CHECK int bench_new_pool(struct sgpu_bench *bench, struct sgpu_pool **pool,
				   struct sgpu_error *error);
SGPU_MUST_CHECK int bench_new_aead(struct sgpu_bench *bench, const char *provider,
				   const uint8_t key[SGPU_KEY_SIZE], struct sgpu_aead **aead,
				   struct sgpu_error *error);
SGPU_MUST_CHECK int bench_new_device_key(struct sgpu_bench *bench, struct sgpu_stream *stream,
					 const struct sgpu_sealed_keys *keys,
					 struct sgpu_device_key **key, struct sgpu_error *error);

/* A pattern and what it seals to, as one run of chunks from 0 on, with a new key that need not be
 * secret. */
struct bench_sealed {
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	struct sgpu_device_key *key;
	void *plain, *sealed,
		*result; /* of the device's pool; the result is for either of the two */
	uint64_t size, sealed_size;
};
SGPU_MUST_CHECK int bench_new_sealed(struct sgpu_bench *bench, struct sgpu_stream *stream,
				     uint64_t size, uint64_t seed, struct bench_sealed *sealed,
				     struct sgpu_error *error);

#endif
