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
	/* Adds segments and operations to a job. */
	void (*add)(const struct app *app, struct job *job);
	/* Makes the same as bare calls; or NULL. */
	int (*new_bare)(const struct app *app, struct sgpu_bench *bench, struct bare **bare, struct sgpu_error *error);
	/* As in struct job_side. */
	int (*check)(const struct job_side *side, const void *results, uint64_t size, struct sgpu_error *error);
	void *data;              /* of the application, and of its sides */
};

/* Each application fills in what it is, with data that are kept until the case ends. */
SGPU_MUST_CHECK int app_black_scholes(struct sgpu_bench *bench, struct app *app, struct sgpu_error *error);
SGPU_MUST_CHECK int app_fashion_knn(struct sgpu_bench *bench, struct app *app, struct sgpu_error *error);

#endif
