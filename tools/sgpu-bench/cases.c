/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases, in the order in which they run.
 */
#include <stddef.h>

#include "cases.h"

const struct sgpu_bench_case *const bench_cases[] = {
	&case_aead_cpu,
	NULL,
};
