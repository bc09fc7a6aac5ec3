/* SPDX-License-Identifier: Apache-2.0
 *
 * Between case_app.c and the applications, app_*.c.
 */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include "job.h"

struct app {
	const char *name;
	int batches;             /* of a sample */
	uint64_t batch_bytes;
	/* Makes and finishes the job of a side that has none, and says how its response is checked. */
	int (*make)(const struct app *app, struct job_side *side, bool sealed, bool staged, struct sgpu_error *error);
	/* Measures more on a device that stays open; or NULL. */
	int (*more)(struct sgpu_bench *bench, const struct app *app, const struct job_place *place, bool staged,
		    struct sgpu_error *error);
	void *data;              /* of the application */
};

const char *app_payloads_text(bool staged);
/* Sealed next to unsealed, with each way to have a device and to bring payloads. */
SGPU_MUST_CHECK int app_measure(struct sgpu_bench *bench, const struct job_place *place, const struct app *app,
				struct sgpu_error *error);

/* The applications. */
SGPU_MUST_CHECK int app_black_scholes(struct sgpu_bench *bench, const struct job_place *place, struct sgpu_error *error);
SGPU_MUST_CHECK int app_fashion_knn(struct sgpu_bench *bench, const struct job_place *place, struct sgpu_error *error);

#endif
