/* SPDX-License-Identifier: Apache-2.0
 *
 * The runners of jobs, and variants that run jobs.
 */
#include <stdlib.h>

#include "channel/channel.h"

#include "job.h"

/* ---- runners ---- */
/* The runners of a device. Sealed jobs run in a secure context over it, as in sgpu-run. */
struct place {
	struct sgpu_secure *context; /* NULL when the device maps no pages: all run in `plain` */
	struct sgpu_runner *plain, *sealed;
};

/* For the case's jobs, on bench->device, which stays open. */
static struct place *standing;

static void end_place(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct place *place = (struct place *)what;

	standing = place == standing ? NULL : standing;
	(void)bench, (void)size;
	sgpu_runner_free(&place->sealed);
	sgpu_secure_destroy(&place->context);
	sgpu_runner_free(&place->plain);
}

static int new_place(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct sgpu_runner_config config = { .device = bench->device };
	struct place *new = standing = sgpu_bench_new(bench, sizeof(*new), end_place, error);
	int rc = new ? sgpu_runner_create(&config, &new->plain, error) : SGPU_ENOMEM;

	rc = rc ? rc : sgpu_secure_create(bench->device, NULL, &new->context, error);
	if (rc != SGPU_OK) {
		return new &&rc == SGPU_EUNAVAILABLE &&new->plain ? SGPU_OK : rc;
	}
	config.device = sgpu_secure_device(new->context);
	return sgpu_runner_create(&config, &new->sealed, error);
}

/* ---- variants ---- */
/* The response's file keeps its size, since new pages would cost more than some jobs. */
static int run_here(void *argument, struct sgpu_error *error)
{
	struct bench_job *job = ((const struct job_side *)argument)->job;
	const struct sgpu_submission submission = {
		.in_fd = job->batch_fd,
		.in_name = "batch",
		.out_fd = job->response_fd,
		.out_name = "response",
		.options = { .keys = &job->owner, .key_count = 1 },
	};
	struct sgpu_runner *runner =
		job->sealed && standing->sealed ? standing->sealed : standing->plain;
	struct sgpu_run *run = NULL;
	int rc = job_rewind(job->batch_fd, false, error);

	rc = rc ? rc : job_rewind(job->response_fd, false, error);
	rc = rc ? rc : sgpu_run_create(runner, &submission, &run, error);
	rc = rc ? rc : sgpu_run_batch(run, error);
	sgpu_run_free(&run);
	return rc;
}

static int verify(void *argument, struct sgpu_error *error)
{
	const struct job_side *side = argument;
	const uint64_t size = side->job->result_size;
	void *results = malloc(size);
	int rc = results ? job_read(side->job, results, error) : sgpu_fail_nomem(error);

	rc = rc ? rc : side->check(side, results, size, error);
	free(results);
	return rc;
}

int job_measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		struct job_side sides[JOB_SIDES], int (*work)(void *side, struct sgpu_error *error),
		struct sgpu_error *error)
{
	const void *const mark = sgpu_bench_mark(bench);
	struct sgpu_bench_variant variants[JOB_SIDES];
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < JOB_SIDES; i++) {
		struct job_side *side = &sides[i];

		side->bench = bench;
		rc = job_new(bench, side, &side->job, error);
		if (rc == SGPU_OK) {
			side->add(side->job, side);
			rc = job_finish(side->job, error);
		}
		variants[i] = (struct sgpu_bench_variant){ side->name, NULL, work, verify, side };
	}
	rc = rc ? rc : sgpu_bench_measure(bench, point, variants, JOB_SIDES, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

int job_measure_here(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		     const struct job_side *side, struct sgpu_error *error)
{
	struct job_side sides[JOB_SIDES] = { *side, *side };
	const int rc = standing ? SGPU_OK : new_place(bench, error);

	sides[0].name = "unsealed";
	sides[1].name = "sealed";
	sides[1].sealed = true;
	return rc ? rc : job_measure(bench, point, sides, run_here, error);
}
