/* SPDX-License-Identifier: Apache-2.0
 *
 * An operation by the bare calls that a job comes down to: no runner and no checks, and memory that
 * stays.
 */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <bench/bench.h>
#include <sgpu/ops.h>

enum { BARE_VECTORS_MAX = 5, BARE_LAUNCHES_MAX = 64 };

/* Vectors of f32 of one size, the inputs first, and launches on one stream. */
struct bare {
	struct sgpu_bench *bench;
	struct sgpu_stream *stream;
	uint64_t size;		       /* bytes of a vector */
	int inputs, vectors, launches; /* launches: one, unless the caller sets more */
	float *host[BARE_VECTORS_MAX]; /* of the device's pool; each output lies right behind the
					  one before */
	sgpu_devptr memory[BARE_VECTORS_MAX];
	struct sgpu_op_call call, next; /* next: of each launch but the first; the same, unless the
					   caller changes it */
	struct sgpu_task tasks[BARE_VECTORS_MAX + BARE_LAUNCHES_MAX]; /* copies, then launches */
	bool busy;
	const float *wanted; /* of bare_verify */
};
/* Kept until the case ends, or the part of it. The caller fills the inputs, and sets parameters of
 * the calls. */
SGPU_MUST_CHECK int bare_new(struct sgpu_bench *bench, const char *op, uint64_t size,
			     struct bare **bare, struct sgpu_error *error);
/* Of struct sgpu_bench_variant, with a bare as argument: the first brings the inputs to the device,
 * spoils the outputs here and there, and makes the tasks ready; the second brings the first output
 * back and compares it with what is wanted. */
SGPU_MUST_CHECK int bare_prepare(void *argument, struct sgpu_error *error);
SGPU_MUST_CHECK int bare_verify(void *argument, struct sgpu_error *error);
/* Enqueues copies of the inputs, the launches, and copies of the outputs. */
SGPU_MUST_CHECK int bare_begin(struct bare *bare, struct sgpu_error *error);
/* Waits for their end. SGPU_OK, too, if nothing was begun. */
SGPU_MUST_CHECK int bare_end(struct bare *bare, struct sgpu_error *error);
/* Enqueues some of the launches alone. */
SGPU_MUST_CHECK int bare_launch(struct bare *bare, int first, int count, struct sgpu_error *error);

#endif
