/* SPDX-License-Identifier: Apache-2.0
 *
 * The runners of jobs, and variants that run jobs.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static int work(void *argument, struct sgpu_error *error)
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
		const struct job_side *side, struct sgpu_error *error)
{
	struct job_side sides[] = { *side, *side };
	struct sgpu_bench_variant variants[] = {
		{ "unsealed", NULL, work, verify, &sides[0] },
		{ "sealed", NULL, work, verify, &sides[1] },
	};
	int rc = standing ? SGPU_OK : new_place(bench, error);
	const size_t mark = sgpu_bench_mark(bench);

	for (int i = 0; rc == SGPU_OK && i < 2; i++) {
		sides[i].bench = bench;
		sides[i].sealed = i > 0;
		rc = job_new(bench, sides[i].sealed, &sides[i].job, error);
		if (rc == SGPU_OK) {
			side->add(sides[i].job, &sides[i]);
			rc = job_finish(sides[i].job, error);
		}
	}
	rc = rc ? rc : sgpu_bench_measure(bench, point, variants, 2, error);
	sgpu_bench_release(bench, mark);
	return rc;
}

int job_check_same(const struct job_side *side, const void *results, uint64_t size,
		   struct sgpu_error *error)
{
	for (uint64_t at = 0; at < size; at += side->size) {
		if (memcmp((const uint8_t *)results + at, side->data, side->size) != 0) {
			return sgpu_fail(error, SGPU_EDIFFERS,
					 "output %llu is not what it should be",
					 (unsigned long long)(at / side->size));
		}
	}
	return SGPU_OK;
}
