/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cases, the functions that its rows name, and what cases share that is of one file.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <sys/types.h>

#include <bench/bench.h>
#include "channel/channel.h"
#include "secure/secure.h"

/* In the order in which they run; ends with a row without a name. Static. */
extern const struct sgpu_bench_case bench_cases[];

typedef int bench_case_fn(struct sgpu_bench *bench, struct sgpu_error *error);
bench_case_fn bench_aead_cpu, bench_aead_gpu, bench_alloc, bench_app, bench_bandwidth, bench_batch,
	bench_channel, bench_conversion, bench_digest, bench_dsa, bench_exitless, bench_launch,
	bench_measure, bench_peer, bench_secure_copy, bench_session, bench_shared_memory,
	bench_staging, bench_training, bench_transition;

/* A channel over pages of bench->device, with both of its ends. Kept. */
struct bench_channel {
	struct sgpu_pages_info pages;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_session *session;
	uint32_t number;
	uint64_t spent_ns[SGPU_CH_SUBMIT + 1]; /* in the processor, by the kind of command */
};
/* Of the big pages the first is not protected, and a part of the last is hidden. */
SGPU_MUST_CHECK int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages,
				      struct bench_channel **channel, struct sgpu_error *error);
/* The points of CH_MEASURE: measuring a channel's memory beside plain memory. */
SGPU_MUST_CHECK int bench_channel_measures(struct sgpu_bench *bench, struct sgpu_error *error);

/* Opens a device up to a stream, and closes it: plain, or in a secure context. ns: the two
 * times. */
SGPU_MUST_CHECK int bench_open(const char *selector, unsigned jobs, bool secure, uint64_t ns[2],
			       struct sgpu_error *error);

/* Starts this program again with the verb `open` for bench->device, over pipes and with an option
 * and its value (or NULL); or as the worker of a ring. The ends on this side, the second of which
 * is written to, are kept; closing them waits for the process's end. */
struct sgpu_remote_ring;
SGPU_MUST_CHECK int bench_start_pipe(struct sgpu_bench *bench, const char *option,
				     const char *value, int ends[2], struct sgpu_error *error);
SGPU_MUST_CHECK int bench_start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring,
				     struct sgpu_error *error);
/* A picture of 28 by 28: a class's prototype with some noise. */
void bench_draw(uint8_t *picture, uint64_t class, uint64_t number);

#endif
