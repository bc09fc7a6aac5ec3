/* SPDX-License-Identifier: Apache-2.0
 *
 * app: a whole application, from the batch to its response: sealed and in a secure context, and
 * unsealed on the plain device.
 */
#include "cases.h"
#include "job.h"

/* As Graviton ran black_scholes (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options.
 */
enum { OPTIONS = 4000000, OPTIONS_QUICK = 250000 };

int bench_app(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const uint64_t size =
		(bench->options.quick ? OPTIONS_QUICK : OPTIONS) * (uint64_t)sizeof(float);
	const struct sgpu_bench_point point = {
		.parameters = { { "app", "black_scholes", 0 },
				{ "batch_bytes", NULL, OPTIONS_VECTORS * size } },
		.bytes = OPTIONS_VECTORS * size,
	};
	struct job_side side = { .name = NULL };
	const int rc = options_new(bench, size, &side, error);

	return rc ? rc : job_measure_here(bench, &point, &side, error);
}
