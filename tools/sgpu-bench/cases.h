/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cases: a row is a `const struct sgpu_bench_case` in a file case_*.c, named here and
 * in cases.c.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <sys/types.h>

#include <sgpu/bench.h>
#include <sgpu/channel.h>
#include <sgpu/secure.h>

extern const struct sgpu_bench_case case_aead_cpu, case_aead_gpu, case_alloc, case_app,
	case_bandwidth, case_batch, case_channel, case_conversion, case_digest, case_dsa,
	case_exitless, case_launch, case_measure, case_peer, case_secure_copy, case_session,
	case_shared_memory, case_staging, case_transition;
extern const struct sgpu_bench_case case_training;

/* A channel over pages of bench->device, of which nobody else maps any, with both of its ends.
 * Kept. */
struct bench_channel {
	struct sgpu_pager pager;
	struct sgpu_processor *processor;
	struct sgpu_allocator *allocator;
	struct sgpu_key owner;
	struct sgpu_session *session;
	uint32_t number;
	uint64_t spent_ns[SGPU_CH_SUBMIT +
			  1]; /* in the processor, by the kind of the allocator's command */
};
/* big_pages: of the device's memory; the first one is not protected, and of the last one a part is
 * hidden. */
SGPU_MUST_CHECK int bench_new_channel(struct sgpu_bench *bench, uint64_t big_pages,
				      struct bench_channel **channel, struct sgpu_error *error);
/* CH_MEASURE, a part of channel. */
SGPU_MUST_CHECK int bench_measure_channel(struct sgpu_bench *bench, struct sgpu_error *error);

/* Opens a device up to a stream that takes work, and closes it: plain, in a secure context for an
 * owner whose key is there already, or with that key made and one agreed with the device, too. ns:
 * of opening and of closing. */
enum bench_opening { BENCH_PLAIN, BENCH_SECURE, BENCH_AGREED };
SGPU_MUST_CHECK int bench_open(const char *selector, unsigned jobs, enum bench_opening kind,
			       uint64_t ns[2], struct sgpu_error *error);

/* Parts of session. The first two need bench->device without a secure context over it. */
SGPU_MUST_CHECK int bench_session_open(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_session_group(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_session_remote(struct sgpu_bench *bench, struct sgpu_secure *context,
					 struct sgpu_error *error);

/* Starts this program again; the caller's descriptors become its first ones. */
SGPU_MUST_CHECK int bench_spawn(const char *const *words, const int *given, int count, pid_t *child,
				struct sgpu_error *error);
/* The same with the verb `open`, for bench->device, an option and its value (or NULL), and pipes;
 * or as the worker of a ring. The ends here are kept; that the process has ended is waited for when
 * they are closed. */
struct sgpu_pipe;
struct sgpu_remote_ring;
SGPU_MUST_CHECK int bench_start_pipe(struct sgpu_bench *bench, const char *option,
				     const char *value, struct sgpu_pipe *pipe,
				     struct sgpu_error *error);
SGPU_MUST_CHECK int bench_start_ring(struct sgpu_bench *bench, struct sgpu_remote_ring *ring,
				     struct sgpu_error *error);
/* What it does: serves on standard input and output until their end "plain" requests, a "session"
 * of a program, or one over a "ring" whose memory and area are descriptors 3 and 4, and its bell
 * standard input. Errors: SGPU_EUSAGE for other words. */
SGPU_MUST_CHECK int bench_serve(const char *selector, const char *what, struct sgpu_error *error);

/* In the order in which they run, NULL-terminated. Static. */
extern const struct sgpu_bench_case *const bench_cases[];

/* Part of training: pictures of 28 by 28 and their classes, those of Fashion-MNIST, or, false, made
 * here. */
bool bench_pictures(uint8_t *images, uint8_t *labels, size_t count);
/* One of them: a class's prototype with some noise, nearer to it than to another class's. */
void bench_draw(uint8_t *picture, uint64_t class, uint64_t number);

#endif
