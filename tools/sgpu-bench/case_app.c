/* SPDX-License-Identifier: Apache-2.0
 *
 * app: whole applications, from the batch to its response: sealed and in a secure context, as
 * sgpu-run runs them, and unsealed on the plain device.
 */
#include "app.h"
#include "cases.h"

/* A way to have a device and to bring payloads. What Graviton compares is the application with its
 * whole protection, and without any: next to bare calls, one batch after the other, and several at
 * once, which a runner that stays is for. */
struct way {
	bool opens, staged;
	int at_once; /* batches; 0: not next to bare calls */
};
static const struct way ways[] = { { false, false, 0 },
				   { false, false, 1 },
				   { false, true, 0 },
				   { false, true, 1 },
				   { false, true, JOB_AT_ONCE_MAX },
				   { true, false, 0 } };

enum { BARE, UNSEALED, SEALED, SIDES };
static const char *const names[SIDES] = { "bare calls", "unsealed", "sealed" };

static int measure_way(struct sgpu_bench *bench, const struct job_place *place,
		       const struct app *app, const struct way *way, struct sgpu_error *error)
{
	const uint64_t batches = (uint64_t)app->side.batches;
	struct job_side sides[SIDES];
	struct sgpu_bench_point point = {
		.parameters = { { "app", app->name, 0 },
				{ "device", job_device_text(way->opens), 0 },
				{ "payloads", way->staged ? "staged" : "inline", 0 },
				{ "batches", NULL, batches },
				{ "batch_bytes", NULL, app->batch_bytes } },
		.bytes = batches * app->batch_bytes,
		.operations = batches,
		.bytes_formula = "batches * batch_bytes",
	};

	if (way->at_once) {
		point.parameters[5] = (struct sgpu_bench_parameter){ "against", "bare calls", 0 };
		point.parameters[6] =
			(struct sgpu_bench_parameter){ "at_once", NULL, (uint64_t)way->at_once };
	}
	for (int i = 0; i < SIDES; i++) {
		sides[i] = app->side;
		sides[i].name = names[i];
		sides[i].place = place;
		sides[i].sealed = i >= SEALED;
		sides[i].opens = way->opens;
		sides[i].staged = way->staged;
		sides[i].at_once = way->at_once;
	}
	sides[BARE].add = NULL;
	return job_measure(bench, &point, &sides[way->at_once ? BARE : UNSEALED],
			   way->at_once ? 3 : 2, error);
}

int bench_app(struct sgpu_bench *bench, struct sgpu_error *error)
{
	static int (*const apps[])(struct sgpu_bench * bench, struct app * app,
				   struct sgpu_error * error) = {
		app_black_scholes,
		app_fashion_knn,
	};
	struct job_place *place = NULL;
	int rc = job_new_place(bench, bench->device, true, &place, error);

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(apps); i++) {
		struct app app;

		rc = apps[i](bench, &app, error);
		for (size_t w = 0; rc == SGPU_OK && w < SGPU_ARRAY_LENGTH(ways); w++) {
			if (!ways[w].at_once || app.side.new_bare) {
				rc = measure_way(bench, place, &app, &ways[w], error);
			}
		}
	}
	return rc;
}
