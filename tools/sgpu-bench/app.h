/* SPDX-License-Identifier: Apache-2.0
 *
 * Between case_app.c and the applications, app_*.c.
 */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include "job.h"

enum { UNSEALED, SEALED, SIDES };
enum { APP_LANES = 4 }; /* batches under way at once, where several are */

/* One of the two variants of an application. */
struct app_side {
	struct sgpu_bench *bench;
	struct job job;
	const struct job_place *place; /* on a device that stays open; borrowed */
	int batches;
	bool opens;              /* opens the device for every batch, as a process of its own would */
	int (*check)(struct app_side *side, struct sgpu_error *error);
	const void *inputs;      /* of the application, for check */
	uint64_t count;          /* elements of an output */
	void *output;
};

/* Ways to have a device and to bring payloads. */
struct app_way {
	bool opens, staged;
};
enum { APP_WAYS = 3 };
extern const struct app_way app_ways[APP_WAYS];
const char *app_payloads_text(bool staged);

/* For variants: runs all batches; reads the last response and checks it. */
int app_run_side(void *argument, uint64_t *ns, struct sgpu_error *error);
int app_verify_side(void *argument, struct sgpu_error *error);
/* The same with APP_LANES sides at once, each with a job of its own: one is submitted when the oldest has ended. */
int app_run_lanes(void *argument, uint64_t *ns, struct sgpu_error *error);
int app_verify_lanes(void *argument, struct sgpu_error *error);
/* Sealed next to unsealed. */
SGPU_MUST_CHECK int app_measure(struct sgpu_bench *bench, const char *app, int batches, uint64_t batch_bytes,
				struct app_side sides[SIDES], const struct app_way *way, struct sgpu_error *error);
void app_clear_sides(struct app_side sides[SIDES]);

/* The applications; the sides are zero at first but for the place, and cleared by the caller. */
SGPU_MUST_CHECK int app_black_scholes(struct sgpu_bench *bench, struct app_side sides[SIDES], struct sgpu_error *error);
SGPU_MUST_CHECK int app_fashion_knn(struct sgpu_bench *bench, struct app_side sides[SIDES], struct sgpu_error *error);

#endif
