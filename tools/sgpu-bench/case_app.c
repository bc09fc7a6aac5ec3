/* SPDX-License-Identifier: Apache-2.0
 *
 * app: a whole application, from the batch to its response: sealed and in a secure context, as
 * sgpu-run runs it, and unsealed on the plain device.
 */
#include "cases.h"
#include "job.h"

/* ---- what is measured ---- */
/* A way to run batches. Graviton's paper compares with and without protection; against bare calls,
 * several batches also run at a time. */
struct way {
	bool staged;
	int at_once; /* batches at a time; 0: not compared with bare calls */
};
static const struct way ways[] = { { false, 0 },
				   { false, 1 },
				   { true, 0 },
				   { true, 1 },
				   { true, JOB_AT_ONCE_MAX } };

enum { BARE, UNSEALED, SEALED, SIDES };
static const char *const names[SIDES] = { "bare calls", "unsealed", "sealed" };

/* side: the members that all sides have in common. */
static int measure_app(struct sgpu_bench *bench, uint64_t batch_bytes, const struct job_side *side,
		       struct sgpu_error *error)
{
	const uint64_t batches = (uint64_t)side->batches;
	struct job_side sides[SIDES];
	int rc = SGPU_OK;

	for (const struct way *way = ways; rc == SGPU_OK && way < ways + SGPU_ARRAY_LENGTH(ways);
	     way++) {
		const struct sgpu_bench_point point = {
			.parameters = { { "app", "black_scholes", 0 },
					{ "device", "resident", 0 },
					{ "payloads", way->staged ? "staged" : "inline", 0 },
					{ "batches", NULL, batches },
					{ "batch_bytes", NULL, batch_bytes },
					{ way->at_once ? "against" : NULL, "bare calls", 0 },
					{ way->at_once ? "at_once" : NULL, NULL,
					  (uint64_t)way->at_once } },
			.bytes = batches * batch_bytes,
			.operations = batches,
		};

		for (int i = 0; i < SIDES; i++) {
			sides[i] = *side;
			sides[i].name = names[i];
			sides[i].sealed = i >= SEALED;
			sides[i].staged = way->staged;
			sides[i].at_once = way->at_once;
		}
		sides[BARE].add = NULL;
		rc = job_measure(bench, &point, &sides[way->at_once ? BARE : UNSEALED],
				 way->at_once ? 3 : 2, error);
	}
	return rc;
}

/* As Graviton ran black_scholes (Volos, Vaswani, Bruno, OSDI 2018): batches of 4 million options.
 */
enum { OPTIONS = 4000000, OPTIONS_QUICK = 250000, BATCHES = 10, BATCHES_QUICK = 2 };

int bench_app(struct sgpu_bench *bench, struct sgpu_error *error)
{
	const bool quick = bench->options.quick;
	const uint64_t size = (quick ? OPTIONS_QUICK : OPTIONS) * sizeof(float);
	struct job_side side = { .batches = quick ? BATCHES_QUICK : BATCHES };
	const int rc = options_new(bench, size, &side, error);

	return rc ? rc : measure_app(bench, OPTIONS_VECTORS * size, &side, error);
}
