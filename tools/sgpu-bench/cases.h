/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cases, the functions that its rows name, and functions of a case for others.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <sys/types.h>

#include <bench/bench.h>
#include "channel/channel.h"
#include "remote/carrier.h"

/* The cases in the order in which they run; a row without a name ends the table. */
extern const struct sgpu_bench_case bench_cases[];

typedef int bench_case_fn(struct sgpu_bench *bench, struct sgpu_error *error);
bench_case_fn bench_aead_cpu, bench_aead_gpu, bench_app, bench_bandwidth, bench_channel,
	bench_conversion, bench_digest, bench_dsa, bench_exitless, bench_measure, bench_peer,
	bench_secure_copy, bench_session, bench_sizes, bench_training, bench_transition;

/* A channel over pages of bench->device, with both of its ends. Kept until the case ends. */
struct bench_channel {
	struct sgpu_pages_info pages;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_session *session;
	uint32_t number;
	uint64_t spent_ns[SGPU_CH_SUBMIT + 1]; /* in the command processor, by op */
	uint32_t pages_told; /* pages that the last summary of the channel names */
};
SGPU_MUST_CHECK int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages,
				      struct bench_channel **channel, struct sgpu_error *error);
/* Measures the points of CH_MEASURE: a channel's memory beside plain memory. */
SGPU_MUST_CHECK int bench_channel_measures(struct sgpu_bench *bench, struct sgpu_error *error);

/* Opens a device and a stream, plain or in a secure context, and closes them. ns: the two times. */
SGPU_MUST_CHECK int bench_open(const char *selector, unsigned jobs, bool secure, uint64_t ns[2],
			       struct sgpu_error *error);

/* Start this program again with the verb `open` for bench->device: to time that, which `from` then
 * tells; or as the worker of a ring. The descriptors are kept; closing them waits for the process's
 * end. */
/* The worker's private key, which is no secret, in both processes. */
SGPU_MUST_CHECK int bench_session_key(struct sgpu_key *key, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_start_open(struct sgpu_bench *bench, bool secure, int *from,
				     struct sgpu_error *error);
SGPU_MUST_CHECK int bench_start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring,
				     struct sgpu_error *error);

#endif
