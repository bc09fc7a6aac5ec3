/* SPDX-License-Identifier: Apache-2.0
 *
 * Between case_app.c and the applications, app_*.c.
 */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include "job.h"

struct app {
	const char *name;
	uint64_t batch_bytes;
	struct job_side side; /* what all of its sides have in common; new_bare: NULL if it is not
				 measured next to bare calls */
};

/* Each application fills in what it is, with data that are kept until the case ends. */
SGPU_MUST_CHECK int app_black_scholes(struct sgpu_bench *bench, struct app *app,
				      struct sgpu_error *error);
SGPU_MUST_CHECK int app_fashion_knn(struct sgpu_bench *bench, struct app *app,
				    struct sgpu_error *error);

#endif
