/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the case transition: each gives points of its own, and waives what this machine lacks.
 */
#ifndef BENCH_TRANSITION_H
#define BENCH_TRANSITION_H

#include <sgpu/bench.h>

struct crossing {
	const char *name; /* of the variant */
	/* Crosses and comes back `count` times, and verifies that it did, if that takes no time.
	 * SGPU_EUNAVAILABLE waives the point, with the error's text. */
	int (*cross)(void *argument, uint64_t count, struct sgpu_error *error);
	void *argument;
	bool single; /* every sample is one crossing, however short */
};
/* Measures a crossing as the only variant of a point, whose `operations` are chosen: the fewest, of
 * the powers of two, that take 5 us together. */
SGPU_MUST_CHECK int bench_cross(struct sgpu_bench *bench, struct sgpu_bench_point point,
				const struct crossing *crossing, struct sgpu_error *error);

/* Executes CPUID, for which a virtual machine is left. */
void bench_leave_guest(void);

SGPU_MUST_CHECK int bench_transition_call(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_transition_switch(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_transition_kvm(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_transition_gpu(struct sgpu_bench *bench, struct sgpu_error *error);
SGPU_MUST_CHECK int bench_transition_report(struct sgpu_bench *bench, struct sgpu_error *error);

#endif
