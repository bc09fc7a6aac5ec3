/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases, and set-up that they share. Objects are kept until the end of the case or of a part of
 * it.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <bench/bench.h>
#include <sgpu/keys.h>
#include <sgpu/seal.h>

#include "channel/channel.h"

/* In the order in which they run; a row without a name ends the table. */
extern const struct sgpu_bench_case bench_cases[];

typedef int bench_case_fn(struct sgpu_bench *bench, struct sgpu_error *error);
bench_case_fn bench_aead_cpu, bench_aead_gpu, bench_app, bench_bandwidth, bench_channel,
	bench_conversion, bench_digest, bench_dsa, bench_exitless, bench_measure, bench_peer,
	bench_secure_copy, bench_session, bench_sizes, bench_training, bench_transition;

/* A channel over pages of bench->device, with both of its ends. */
struct bench_channel {
	struct sgpu_pages_info pages;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_session *session;
	uint32_t number;
	uint64_t spent_ns[SGPU_CH_SUBMIT + 1]; /* in the command processor, by op */
	uint32_t pages_told;		       /* that the channel's last summary names */
};
SGPU_MUST_CHECK int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages,
				      struct bench_channel **channel, struct sgpu_error *error);
/* A channel's memory beside plain memory. */
SGPU_MUST_CHECK int bench_channel_measures(struct sgpu_bench *bench, struct sgpu_error *error);

/* Opens and closes a device and a stream, plain or in a secure context. ns: the two times. */
SGPU_MUST_CHECK int bench_open(const char *selector, unsigned jobs, bool secure, uint64_t ns[2],
			       struct sgpu_error *error);

/* ---- sizes and objects ---- */
/* Sizes are powers of two, so a set of them is a bit mask. host, device: the memory that a size
 * needs, in multiples of the size, plus `more` bytes each. */
struct bench_sizes {
	uint64_t all, quick;
	unsigned host, device;
	uint64_t more;
};
/* The first two members: powers of four times 4 KiB, from `min` to `max`. */
#define BENCH_SWEEP(min, max) \
	(2 * (uint64_t)(max) - (uint64_t)(min)) & 0x5555555555555000, 64 << 10 | 4 << 20 | 64 << 20
typedef int (*bench_size_fn)(void *argument, uint64_t size, struct sgpu_error *error);
/* Calls measure() for each size that --size allows, then releases what measure() kept; waives sizes
 * for which memory is lacking. */
SGPU_MUST_CHECK int bench_each_size(struct sgpu_bench *bench, const struct bench_sizes *sizes,
				    bench_size_fn measure, void *argument,
				    struct sgpu_error *error);

SGPU_MUST_CHECK int bench_new_aead(struct sgpu_bench *bench, const char *provider,
				   const uint8_t key[SGPU_KEY_SIZE], struct sgpu_aead **aead,
				   struct sgpu_error *error);
SGPU_MUST_CHECK int bench_new_device_key(struct sgpu_bench *bench, struct sgpu_stream *stream,
					 const struct sgpu_sealed_keys *keys,
					 struct sgpu_device_key **key, struct sgpu_error *error);

/* A pattern and its sealed form, a chunk run from chunk 0 on, with new keys. */
struct bench_sealed {
	struct sgpu_sealed_keys keys;
	struct sgpu_aead *aead;
	struct sgpu_device_key *key;
	void *plain, *sealed, *result; /* of the device's pool; result: for either */
	uint64_t size, sealed_size;
};
SGPU_MUST_CHECK int bench_new_sealed(struct sgpu_bench *bench, uint64_t size, uint64_t seed,
				     struct bench_sealed *sealed, struct sgpu_error *error);

/* ---- memory for copies, and timed parts of work ---- */
/* Makes memory, aligned to 2 MiB, with every page present, on huge pages if the kernel has them.
 * Errors: SGPU_ENOMEM. */
SGPU_MUST_CHECK int bench_new_pages(struct sgpu_bench *bench, uint64_t size, void **memory,
				    struct sgpu_error *error);
/* Alters every page, so that old contents cannot pass for new ones. */
void bench_spoil(void *memory, uint64_t size);

/* Returns how often a sample repeats work on `size` bytes, `most` times at most, to have about 256
 * MiB of large sizes. */
uint64_t bench_repeats(uint64_t size, uint64_t most);
/* Gets memory and gives it back; one is timed. */
SGPU_MUST_CHECK int bench_time_memory(struct sgpu_bench *bench, struct sgpu_device *device,
				      uint64_t size, bool gives_back, struct sgpu_error *error);
/* Waits for tasks; `rc` is the code of enqueueing them. Reports the first failure as one of `what`:
 * "copy to the device". */
SGPU_MUST_CHECK int bench_finish(struct sgpu_stream *stream, int rc, const struct sgpu_task *tasks,
				 int count, const char *what, struct sgpu_error *error);
/* Copy, and wait for the end. */
SGPU_MUST_CHECK int bench_to_device(struct sgpu_stream *stream, sgpu_devptr to, const void *from,
				    uint64_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_from_device(struct sgpu_stream *stream, void *to, sgpu_devptr from,
				      uint64_t size, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_clear(struct sgpu_stream *stream, sgpu_devptr memory, uint64_t size,
				struct sgpu_error *error);
struct bench_target {
	struct sgpu_stream *stream;
	sgpu_devptr memory;
	uint64_t size, seed;
	void *scratch; /* of the same size */
};
/* For a variant whose argument begins with a target: one clears the memory, one verifies a copy of
 * it in `scratch`, spoilt before. */
SGPU_MUST_CHECK int bench_clear_target(void *target, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_verify_target(void *target, struct sgpu_error *error);

#endif
