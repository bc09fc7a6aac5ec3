/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a job: its operations, enqueued one by one.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/base.h"
#include "remote/job.h"

static int fail_step(const struct step *step, const char *what, const struct sgpu_task *task,
		     int rc, struct sgpu_error *error)
{
	return sgpu_fail(error, rc, "%s '%s': %s", what, step->id,
			 task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}

/* Runs on the stream's thread. */
static int run_step(struct sgpu_launch *launch, void *argument)
{
	struct started *s = argument;
	int rc;

	if (atomic_load(&s->run->failed)) {
		return sgpu_fail(launch->error, SGPU_EDEPENDENCY, "an operation before it failed");
	}
	rc = sgpu_op_run(&s->call, s->step->on_device, launch);
	if (rc != SGPU_OK) {
		atomic_store(&s->run->failed, true);
	}
	return rc;
}

static int enqueue(struct sgpu_job_run *run, const struct step *step,
		   const struct sgpu_op_call *call, const struct sgpu_job *j,
		   struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX + 1];
	struct started *s = &run->started[run->count];
	int count = 0, rc;

	*s = (struct started){
		.run = run, .step = step, .call = *call, .task = { .untimed = true }
	};
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		uint64_t size = 0;

		if (call->data[i] && sgpu_type_bytes(&call->type[i], &size) && size > 0) {
			ranges[count++] =
				(struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->data[i],
							    size };
		}
	}
	if (call->scratch) {
		ranges[count++] = (struct sgpu_device_range){ j->scratch, j->scratch_size };
	}
	rc = sgpu_device_launch_on(stream, run_step, s, ranges, count, &s->task);
	if (rc != SGPU_OK) {
		return fail_step(step, "the device refused operation", &s->task, rc, error);
	}
	run->count++;
	return SGPU_OK;
}

static sgpu_devptr address_of(const struct sgpu_job *j, int segment, bool is_new,
			      const struct sgpu_device_range *ranges)
{
	const struct place *p = &j->places[segment];

	return p->range < 0 || (is_new && p->memory) ? p->memory : ranges[p->range].address;
}

static int start_step(const struct sgpu_job *j, const struct step *step, struct sgpu_stream *stream,
		      const struct sgpu_device_range *ranges, struct sgpu_job_run *run,
		      struct sgpu_error *error)
{
	struct sgpu_op_call call = step->call;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (step->segments[i] >= 0) {
			call.data[i] = (void *)(uintptr_t)address_of(j, step->segments[i],
								     step->is_new[i], ranges);
		}
	}
	call.scratch = step->scratch ? (void *)(uintptr_t)j->scratch : NULL;
	return enqueue(run, step, &call, j, stream, error);
}

static bool overlap(const struct sgpu_device_range *a, const struct sgpu_device_range *b)
{
	return a->address < b->address + b->size && b->address < a->address + a->size;
}

/* Checks ranges: no output may overlap another range, and operations need aligned data. */
static int check_ranges(const struct sgpu_job *j, const struct sgpu_device_range *ranges, int count,
			struct sgpu_error *error)
{
	const struct sgpu_manifest *m = j->manifest;

	if (count != j->range_count) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the job has %d inputs and outputs, and %d ranges are given",
				 j->range_count, count);
	}
	for (int i = 0; i < m->segment_count; i++) {
		const struct place *p = &j->places[i];

		if (p->range < 0) {
			continue;
		}
		if (ranges[p->range].size != p->size) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "segment '%s' has %llu bytes, and its range %llu",
					 m->segments[i].id, (unsigned long long)p->size,
					 (unsigned long long)ranges[p->range].size);
		}
		if (ranges[p->range].address % 64 != 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "the range of segment '%s' is not aligned to 64 bytes",
					 m->segments[i].id);
		}
		for (int k = 0; sgpu_segment_is_output(&m->segments[i]) && k < count; k++) {
			if (k != p->range && overlap(&ranges[p->range], &ranges[k])) {
				return sgpu_fail(error, SGPU_EUSAGE,
						 "the range of output '%s' overlaps another",
						 m->segments[i].id);
			}
		}
	}
	return SGPU_OK;
}

int sgpu_job_start(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		   int count, void **run, struct sgpu_error *error)
{
	struct sgpu_job *j = job;
	struct sgpu_job_run *r;
	int rc = check_ranges(j, ranges, count, error);

	*run = NULL;
	if (rc < 0) {
		return rc;
	}
	/* There are as many runs as were ever under way at one time. */
	r = j->spare ? j->spare
		     : calloc(1, sizeof(*r) + (size_t)j->step_count * sizeof(r->started[0]));
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	j->spare = r->next;
	*r = (struct sgpu_job_run){ .job = j };
	*run = r;
	for (int i = 0; rc == SGPU_OK && i < j->step_count; i++) {
		rc = start_step(j, &j->steps[i], stream, ranges, r, error);
	}
	return rc;
}

int sgpu_job_end(void **run, struct sgpu_error *error)
{
	struct sgpu_job_run *r = *run;
	int rc = SGPU_OK;

	*run = NULL;
	if (!r) {
		return SGPU_OK;
	}
	for (int i = 0; rc == SGPU_OK && i < r->count; i++) {
		const struct started *s = &r->started[i];

		rc = s->task.code == SGPU_OK
			     ? SGPU_OK
			     : fail_step(s->step, "operation", &s->task, s->task.code, error);
	}
	r->next = r->job->spare;
	r->job->spare = r;
	return rc;
}
