/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of cases: a row is a `const struct sgpu_bench_case` in a file case_*.c, named here and in cases.c.
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <sgpu/bench.h>

extern const struct sgpu_bench_case case_aead_cpu, case_aead_gpu, case_alloc, case_app, case_bandwidth, case_batch,
	case_digest, case_launch, case_manifest, case_overlap, case_secure_copy;

/* In the order in which they run, NULL-terminated. Static. */
extern const struct sgpu_bench_case *const bench_cases[];

#endif
