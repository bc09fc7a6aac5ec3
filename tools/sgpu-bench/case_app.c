/* SPDX-License-Identifier: Apache-2.0
 *
 * app: whole applications, from the batch to its response: sealed and in a secure context, as sgpu-run runs them, and
 * unsealed on the plain device.
 */
#include <stdlib.h>

#include "app.h"
#include "cases.h"

const struct app_way app_ways[APP_WAYS] = { { false, false }, { false, true }, { true, false } };

int app_run_side(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct app_side *s = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < s->batches; i++) {
		uint64_t one = 0;

		rc = job_run_on(&s->job, s->bench, s->place, s->opens, &one, error);
		*ns += one;
	}
	return rc;
}

/* The sealed job on the plain device: what is not the context's. */
static int run_bare(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct app_side *s = argument;
	int rc;

	s->job.bare = true;
	rc = app_run_side(s, ns, error);
	s->job.bare = false;
	return rc;
}

int app_verify_side(void *argument, struct sgpu_error *error)
{
	struct app_side *s = argument;

	return s->check(s, error);
}

int app_run_lanes(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct app_side *lanes = argument;
	struct sgpu_run *runs[APP_LANES] = { NULL };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < lanes->batches + APP_LANES; i++) {
		struct app_side *s = &lanes[i % APP_LANES];

		rc = job_wait(&s->job, &runs[i % APP_LANES], error);
		if (rc == SGPU_OK && i < lanes->batches) {
			rc = job_submit(&s->job, s->place, &runs[i % APP_LANES], error);
		}
	}
	for (int i = 0; i < APP_LANES; i++) {
		sgpu_run_free(&runs[i]); /* after a failure, of another batch */
	}
	*ns = sgpu_now_ns() - begin;
	return rc;
}

int app_verify_lanes(void *argument, struct sgpu_error *error)
{
	struct app_side *lanes = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < APP_LANES && i < lanes->batches; i++) {
		rc = lanes[i].check(&lanes[i], error);
	}
	return rc;
}

const char *app_payloads_text(bool staged)
{
	return staged ? "staged" : "inline";
}

int app_measure(struct sgpu_bench *bench, const char *app, int batches, uint64_t batch_bytes,
		struct app_side sides[SIDES], const struct app_way *way, struct sgpu_error *error)
{
	const struct sgpu_bench_variant variants[] = {
		{ .name = "unsealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[UNSEALED] },
		{ .name = "sealed", .run = app_run_side, .verify = app_verify_side, .argument = &sides[SEALED] },
		{ .name = "sealed, no context", .run = run_bare, .verify = app_verify_side, .argument = &sides[SEALED] },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "app", app, 0 }, { "device", job_device_text(way->opens), 0 },
				{ "payloads", app_payloads_text(way->staged), 0 },
				{ "batches", NULL, (uint64_t)batches }, { "batch_bytes", NULL, batch_bytes } },
		.bytes = (uint64_t)batches * batch_bytes, .operations = (uint64_t)batches,
		.bytes_formula = "batches * batch_bytes",
	};

	for (int i = 0; i < SIDES; i++) {
		sides[i].bench = bench;
		sides[i].batches = batches;
		sides[i].opens = way->opens;
	}
	return sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

void app_clear_sides(struct app_side sides[SIDES])
{
	for (int i = 0; i < SIDES; i++) {
		job_clear(&sides[i].job);
	}
}

static int run_app(struct sgpu_bench *bench, const struct job_place *place,
		   int (*app)(struct sgpu_bench *, struct app_side *, struct sgpu_error *), struct sgpu_error *error)
{
	struct app_side *sides = calloc(SIDES, sizeof(*sides));
	int rc = sides ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		sides[SEALED].place = sides[UNSEALED].place = place;
		rc = app(bench, sides, error);
		app_clear_sides(sides);
	}
	free(sides);
	return rc;
}

static int run(struct sgpu_bench *bench, void *state, struct sgpu_error *error)
{
	struct job_place place;
	int rc = job_place_open(&place, bench->device, true, error);

	(void)state; /* --size does not count: an application has the size that it has */
	rc = rc == SGPU_OK ? run_app(bench, &place, app_black_scholes, error) : rc;
	rc = rc == SGPU_OK ? run_app(bench, &place, app_fashion_knn, error) : rc;
	job_place_close(&place);
	return rc;
}

const struct sgpu_bench_case case_app = {
	.name = "app",
	.help = "whole applications, sealed and unsealed: black_scholes, fashion-knn",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
