/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases, in the order in which they run.
 */
#include <stddef.h>

#include "cases.h"

const struct sgpu_bench_case *const bench_cases[] = {
	&case_bandwidth,  &case_staging,  &case_shared_memory,
	&case_aead_cpu,	  &case_aead_gpu, &case_secure_copy,
	&case_peer,	  &case_digest,	  &case_measure,
	&case_launch,	  &case_alloc,	  &case_transition,
	&case_conversion, &case_dsa,	  &case_channel,
	&case_session,	  &case_batch,	  &case_app,
	&case_training,	  &case_exitless, NULL,
};
