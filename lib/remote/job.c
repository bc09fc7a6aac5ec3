/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of a session: a manifest, parsed and checked once. Its operations run in order on one
 * stream, over ranges of the session's buffers: one for each INPUT, OUTPUT and INPUT_OUTPUT, in the
 * order of the segments, of exactly the segment's size. INTERMEDIATE segments are in the job's
 * memory. Operations read an INPUT_OUTPUT's old value; its range has the new one after the run.
 *
 * The manifest comes from the session's owner, who may be anybody, so loading checks all sizes, and
 * each run all ranges.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include <sgpu/base.h>

#include "ops/ops.h"
#include "remote/carrier.h"

struct step {
	struct sgpu_op_call call; /* types and parameters, without data */
	/* the device's implementation; NULL: the CPU's, call.op->cpu */
	sgpu_op_fn on_device;
	const char *id;
	int segments[SGPU_ARGUMENTS_MAX]; /* by argument; -1: absent */
	bool is_new[SGPU_ARGUMENTS_MAX];  /* an INPUT_OUTPUT's new value */
	bool scratch;			  /* needs the job's scratch memory */
};

/* A segment's memory. */
struct place {
	uint64_t size;
	int range;	    /* its index in a run's ranges, or -1 */
	sgpu_devptr memory; /* for an INTERMEDIATE or an INPUT_OUTPUT's new value, or 0 */
};

struct sgpu_job_run;

struct started {
	struct sgpu_job_run *run;
	const struct step *step;
	struct sgpu_op_call call;
	struct sgpu_task task;
};

struct sgpu_job_run {
	struct sgpu_job *job;
	struct sgpu_job_run *next; /* the next spare run */
	atomic_bool failed;	   /* the remaining steps are skipped */
	int count;
	struct started started[];
};

struct sgpu_job {
	struct sgpu_device *device;
	struct sgpu_manifest *manifest;
	struct place *places;
	int range_count;
	/* in order; then copies of each INPUT_OUTPUT's new value over the old one */
	struct step *steps;
	int step_count;
	struct sgpu_job_run *spare; /* for reuse */
	sgpu_devptr scratch;	    /* as much as any step needs */
	uint64_t scratch_size;
	uint64_t bytes; /* all device memory of the job */
};

/* ---- loading ---- */

static void free_job(void **job)
{
	struct sgpu_job *j = *job;

	if (!j) {
		return;
	}
	for (int i = 0; j->places && i < j->manifest->segment_count; i++) {
		sgpu_device_free(j->device, &j->places[i].memory, j->places[i].size);
	}
	sgpu_device_free(j->device, &j->scratch, j->scratch_size);
	while (j->spare) {
		struct sgpu_job_run *next = j->spare->next;

		free(j->spare);
		j->spare = next;
	}
	sgpu_manifest_free(&j->manifest);
	free(j->places);
	free(j->steps);
	free(j);
	*job = NULL;
}

static int alloc_own(struct sgpu_job *j, uint64_t size, uint64_t most, sgpu_devptr *memory,
		     struct sgpu_error *error)
{
	int rc;

	if (size == 0) {
		return SGPU_OK;
	}
	if (size > most - j->bytes) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "the job needs more memory than the session may have");
	}
	rc = sgpu_device_alloc(j->device, size, memory, error);
	j->bytes += rc == SGPU_OK ? size : 0;
	return rc;
}

static int make_places(struct sgpu_job *j, uint64_t most, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = j->manifest;
	int rc = SGPU_OK;

	j->places = calloc((size_t)m->segment_count + 1, sizeof(*j->places));
	if (!j->places) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < m->segment_count; i++) {
		const struct sgpu_segment *s = &m->segments[i];
		struct place *p = &j->places[i];

		if (s->type.dtype == SGPU_NONE || !sgpu_type_bytes(&s->type, &p->size) ||
		    s->size_of_file) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the type of segment '%s' is not known", s->id);
		}
		if (sgpu_segment_is_output(s) && s->writer < 0) {
			return sgpu_fail(error, SGPU_EINVALID, "no operation writes segment '%s'",
					 s->id);
		}
		p->range = s->direction == SGPU_INTERMEDIATE ? -1 : j->range_count++;
		if (s->direction == SGPU_INTERMEDIATE || s->direction == SGPU_INPUT_OUTPUT) {
			rc = alloc_own(j, p->size, most, &p->memory, error);
		}
	}
	if (rc == SGPU_OK && j->range_count > SGPU_MODULE_RANGES_MAX) {
		rc = sgpu_fail(error, SGPU_EUSAGE,
			       "a job of a session has at most %d inputs and outputs",
			       SGPU_MODULE_RANGES_MAX);
	}
	return rc;
}

static struct step *add_step(struct sgpu_job *j, const char *id, const char *kernel)
{
	struct step *step = &j->steps[j->step_count++];

	step->id = id;
	step->on_device = sgpu_device_op(j->device, kernel);
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		step->segments[i] = -1;
	}
	return step;
}

static void make_copy(struct sgpu_job *j, int segment)
{
	const struct sgpu_op *copy = sgpu_op_find("copy");
	const int from = sgpu_op_arg(copy, "input"), to = sgpu_op_arg(copy, "output");
	struct step *step = add_step(j, copy->name, copy->name);

	step->call.op = copy;
	step->call.type[from] = step->call.type[to] =
		(struct sgpu_type){ SGPU_U8, 1, { j->places[segment].size, 0, 0, 0 } };
	step->call.present[from] = step->call.present[to] = true;
	step->segments[from] = step->segments[to] = segment;
	step->is_new[from] = true;
}

static int make_step(struct sgpu_job *j, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &j->manifest->operations[operation];
	struct step *step = add_step(j, op->id, op->kernel);
	uint64_t scratch;
	int rc;

	if (op->module) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "operation '%s' runs a module, which a session loads by itself",
				 op->id);
	}
	rc = sgpu_ops_prepare(j->manifest, operation, &step->call, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (step->call.op->at_most && step->call.op->at_most(&step->call)) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "the size of what operation '%s' gives is known too late", op->id);
	}
	for (int i = 0; i < op->arg_count; i++) {
		int at = sgpu_op_arg(step->call.op, op->args[i].name);

		step->segments[at] = op->args[i].segment;
		step->is_new[at] = op->args[i].output;
	}
	scratch = step->call.op->scratch ? step->call.op->scratch(&step->call) : 0;
	step->scratch = scratch > 0;
	j->scratch_size = scratch > j->scratch_size ? scratch : j->scratch_size;
	return SGPU_OK;
}

static int load_job(struct sgpu_device *device, const char *text, size_t size, uint64_t most,
		    void **job, uint64_t *bytes, struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_job *j = calloc(1, sizeof(*j));
	int rc;

	*job = NULL;
	if (!j) {
		return sgpu_fail_nomem(error);
	}
	j->device = device;
	rc = sgpu_ops_load_manifest(text, size, "the job", 0, &j->manifest, &diagnostics, error);
	sgpu_diagnostics_clear(&diagnostics);
	rc = rc ? rc : make_places(j, most, error);
	if (rc < 0) {
		goto out;
	}
	j->steps = calloc((size_t)j->manifest->operation_count + (size_t)j->range_count + 1,
			  sizeof(*j->steps));
	if (!j->steps) {
		rc = sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < j->manifest->operation_count; i++) {
		rc = make_step(j, j->manifest->order[i], error);
	}
	for (int i = 0; rc == SGPU_OK && i < j->manifest->segment_count; i++) {
		if (j->places[i].range >= 0 && j->places[i].memory) {
			make_copy(j, i);
		}
	}
	rc = rc ? rc : alloc_own(j, j->scratch_size, most, &j->scratch, error);
out:
	*job = j;
	*bytes = j->bytes;
	if (rc < 0) {
		free_job(job);
	}
	return rc;
}

/* ---- running ---- */
static int fail_step(const struct step *step, const char *what, const struct sgpu_task *task,
		     int rc, struct sgpu_error *error)
{
	return sgpu_fail(error, rc, "%s '%s': %s", what, step->id,
			 task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}

/* May run on the stream's thread. */
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
	struct started *s = &run->started[run->count];
	struct sgpu_op_call call = step->call;
	int rc;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (step->segments[i] >= 0) {
			call.data[i] = (void *)(uintptr_t)address_of(j, step->segments[i],
								     step->is_new[i], ranges);
		}
	}
	call.scratch = step->scratch ? (void *)(uintptr_t)j->scratch : NULL;
	*s = (struct started){
		.run = run, .step = step, .call = call, .task = { .untimed = true }
	};
	rc = sgpu_op_enqueue(stream, run_step, s, &call, &s->task);
	if (rc != SGPU_OK) {
		return fail_step(step, "the device refused operation", &s->task, rc, error);
	}
	run->count++;
	return SGPU_OK;
}

static bool overlap(const struct sgpu_device_range *a, const struct sgpu_device_range *b)
{
	return a->address < b->address + b->size && b->address < a->address + a->size;
}

/* No output may overlap another range, and operations need aligned data. */
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

static int start_job(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		     int count, void **run, struct sgpu_error *error)
{
	struct sgpu_job *j = job;
	struct sgpu_job_run *r;
	int rc = check_ranges(j, ranges, count, error);

	*run = NULL;
	if (rc < 0) {
		return rc;
	}
	/* There are as many runs as were ever under way at once. */
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

static int end_job(void **run, struct sgpu_error *error)
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

const struct sgpu_group_jobs sgpu_remote_jobs = { load_job, free_job, start_job, end_job };
