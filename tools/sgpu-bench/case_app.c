/* SPDX-License-Identifier: Apache-2.0
 *
 * app: whole applications, from the batch to its response: sealed and in a secure context, as sgpu-run runs them, and
 * unsealed on the plain device.
 */
#include "app.h"
#include "cases.h"

const char *app_payloads_text(bool staged)
{
	return staged ? "staged" : "inline";
}

static int measure_way(struct sgpu_bench *bench, const struct job_place *place, const struct app *app, bool opens,
		       bool staged, struct sgpu_error *error)
{
	const struct job_place plain = { .plain = place->plain };
	struct job_side unsealed = { .bench = bench, .place = place, .batches = app->batches, .opens = opens };
	struct job_side sealed = unsealed, bare; /* bare: what is not the context's */
	const struct sgpu_bench_variant variants[] = {
		{ .name = "unsealed", .run = job_side_run, .verify = job_side_verify, .argument = &unsealed },
		{ .name = "sealed", .run = job_side_run, .verify = job_side_verify, .argument = &sealed },
		{ .name = "sealed, no context", .run = job_side_run, .verify = job_side_verify, .argument = &bare },
	};
	const struct sgpu_bench_point point = {
		.parameters = { { "app", app->name, 0 }, { "device", job_device_text(opens), 0 },
				{ "payloads", app_payloads_text(staged), 0 },
				{ "batches", NULL, (uint64_t)app->batches }, { "batch_bytes", NULL, app->batch_bytes } },
		.bytes = (uint64_t)app->batches * app->batch_bytes, .operations = (uint64_t)app->batches,
		.bytes_formula = "batches * batch_bytes",
	};
	int rc = app->make(app, &unsealed, false, staged, error);

	rc = rc ? rc : app->make(app, &sealed, true, staged, error);
	bare = sealed;
	bare.place = &plain;
	return rc ? rc : sgpu_bench_measure(bench, &point, variants, SGPU_ARRAY_LENGTH(variants), error);
}

int app_measure(struct sgpu_bench *bench, const struct job_place *place, const struct app *app, struct sgpu_error *error)
{
	static const struct {
		bool opens, staged;
	} ways[] = { { false, false }, { false, true }, { true, false } };
	const size_t mark = sgpu_bench_mark(bench);
	int rc = SGPU_OK;

	for (size_t i = 0; rc == SGPU_OK && i < SGPU_ARRAY_LENGTH(ways); i++) {
		rc = measure_way(bench, place, app, ways[i].opens, ways[i].staged, error);
		sgpu_bench_release(bench, mark);
		if (rc == SGPU_OK && app->more && !ways[i].opens) {
			rc = app->more(bench, app, place, ways[i].staged, error);
		}
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct job_place *place = NULL;
	int rc = job_new_place(bench, &place, error);

	rc = rc ? rc : app_black_scholes(bench, place, error);
	return rc ? rc : app_fashion_knn(bench, place, error);
}

const struct sgpu_bench_case case_app = {
	.name = "app",
	.help = "whole applications, sealed and unsealed: black_scholes, fashion-knn",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
