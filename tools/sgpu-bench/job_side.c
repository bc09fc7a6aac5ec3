/* SPDX-License-Identifier: Apache-2.0
 *
 * Where jobs run, and variants that run them.
 */
#include <string.h>

#include "job.h"

/* ---- places ---- */
static int open_runners(struct job_place *place, struct sgpu_device *device, bool with_context, struct sgpu_error *error)
{
	struct sgpu_runner_config config = { .device = device };
	int rc = sgpu_runner_create(&config, &place->plain, error);

	if (rc != SGPU_OK || !with_context) {
		return rc;
	}
	rc = sgpu_secure_create(device, NULL, &place->context, error);
	if (rc != SGPU_OK) {
		return rc == SGPU_EUNAVAILABLE ? SGPU_OK : rc;
	}
	config.device = sgpu_secure_device(place->context);
	return sgpu_runner_create(&config, &place->sealed, error);
}

int job_place_open(struct job_place *place, const char *selector, const struct sgpu_device_config *config,
		   bool with_context, struct sgpu_error *error)
{
	int rc;

	*place = (struct job_place){ .device = NULL };
	rc = sgpu_device_open(selector, config, &place->device, error);
	rc = rc ? rc : open_runners(place, place->device, with_context, error);
	if (rc != SGPU_OK) {
		job_place_close(place);
	}
	return rc;
}

void job_place_close(struct job_place *place)
{
	sgpu_runner_free(&place->sealed);
	sgpu_secure_destroy(&place->context);
	sgpu_runner_free(&place->plain);
	sgpu_device_close(&place->device);
}

static void end_place(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench, (void)size;
	job_place_close((struct job_place *)what);
}

int job_new_place(struct sgpu_bench *bench, struct job_place **place, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, sizeof(**place), &memory, error);

	*place = memory;
	rc = rc ? rc : sgpu_bench_keep(bench, end_place, (uintptr_t)memory, 0, error);
	return rc ? rc : open_runners(*place, bench->device, true, error);
}

/* ---- jobs that are kept ---- */
static void end_job(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	(void)bench, (void)size;
	job_clear((struct job *)what);
}

int job_new(struct sgpu_bench *bench, bool sealed, struct job **job, struct sgpu_error *error)
{
	void *memory = NULL;
	int rc = sgpu_bench_new(bench, sizeof(**job), &memory, error);

	*job = memory;
	rc = rc ? rc : sgpu_bench_keep(bench, end_job, (uintptr_t)memory, 0, error);
	return rc ? rc : job_begin(*job, sealed, error);
}

/* ---- variants ---- */
const char *job_device_text(bool opens)
{
	return opens ? "opened for a batch" : "resident";
}

static int run_opened(struct job_side *side, uint64_t *ns, struct sgpu_error *error)
{
	const struct sgpu_bench *bench = side->bench;
	const struct sgpu_device_config config = { .jobs = bench->options.jobs, .timer = bench->options.timer };
	struct job_place own;
	uint64_t begin = sgpu_now_ns(), inside;
	int rc = job_place_open(&own, bench->info.selector, &config, side->job->sealed && side->place->sealed, error);

	rc = rc ? rc : job_run(side->job, &own, &inside, error);
	job_place_close(&own);
	*ns = sgpu_now_ns() - begin;
	return rc;
}

int job_side_run(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job_side *side = argument;
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < side->batches; i++) {
		uint64_t one = 0;

		rc = side->opens ? run_opened(side, &one, error) : job_run(side->job, side->place, &one, error);
		*ns += one;
	}
	return rc;
}

int job_side_verify(void *argument, struct sgpu_error *error)
{
	struct job_side *side = argument;

	return side->check(side, error);
}

int job_check_same(struct job_side *side, struct sgpu_error *error)
{
	int rc = job_read(side->job, side->id, side->output, side->count, error);

	return rc || memcmp(side->output, side->data, side->count) == 0 ? rc :
	       sgpu_fail(error, SGPU_EDIFFERS, "output '%s' is not what it should be", side->id);
}
