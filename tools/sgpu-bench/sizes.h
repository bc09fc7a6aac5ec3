/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways to price options, beside those of served.h, and the figures of the case sizes.
 */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include "served.h"

/* ---- in a session of another process, over a ring (priced_session.c) ---- */
struct priced;
/* Opens the session, which is kept, and prepares the operation. */
SGPU_MUST_CHECK int priced_new(struct sgpu_bench *bench, const struct job_side *side,
			       struct priced **priced, struct sgpu_error *error);
/* For variants whose argument is a priced. One copies the inputs in, runs the operation and copies
 * the outputs out, sealed on the way. */
int priced_spoil(void *priced, struct sgpu_error *error);
int priced_run(void *priced, struct sgpu_error *error);
int priced_check(void *priced, struct sgpu_error *error);
/* Another one runs the operation over what is there: this copies the inputs in, and spoilt outputs;
 * runs it; and copies the outputs out, and checks them. */
int priced_bring(void *priced, struct sgpu_error *error);
int priced_run_alone(void *priced, struct sgpu_error *error);
int priced_fetch(void *priced, struct sgpu_error *error);

/* ---- by tests/bench/naive.py, in another process (naive.c) ---- */
struct naive;
/* Starts it. Errors: SGPU_EUNAVAILABLE: python3 or a module is not there. */
SGPU_MUST_CHECK int naive_new(struct sgpu_bench *bench, struct naive **naive,
			      struct sgpu_error *error);
/* Has it price so many options. *ns: how long this took, without the preparation. */
SGPU_MUST_CHECK int naive_run(const struct naive *naive, uint64_t count, uint64_t *ns,
			      struct sgpu_error *error);

/* ---- figures that a goal is about (sizes_figures.c) ---- */
SGPU_MUST_CHECK int sizes_figures(struct sgpu_bench *bench, struct sgpu_error *error);
/* Measures the processor time of a server that has run a batch, and rests. */
SGPU_MUST_CHECK int sizes_idle(struct served *served, struct sgpu_error *error);

#endif
