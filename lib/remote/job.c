/* SPDX-License-Identifier: Apache-2.0
 *
 * See job.h. The manifest comes from the session's owner, who may be anybody: all sizes are checked when the job is made, and
 * all ranges when it runs.
 */
#include "remote/job.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <sgpu/base.h>
#include <sgpu/ops.h>

struct step {
	struct sgpu_op_call call;      /* without data */
	sgpu_op_fn on_device;          /* the device's own implementation, or NULL: the table's for the CPU */
	const char *id;
	int segments[SGPU_ARGUMENTS_MAX]; /* by argument of the row; -1: absent */
	bool written[SGPU_ARGUMENTS_MAX];
	bool scratch;                  /* needs the job's scratch memory */
};

/* A segment's memory. */
struct place {
	uint64_t size;
	int range;                     /* which of the session's ranges, or -1 */
	sgpu_devptr memory;            /* the job's own, or 0: of an INTERMEDIATE, and of the new value of an INPUT_OUTPUT */
};

struct job;
struct run;

struct started {
	struct run *run;
	const struct step *step;       /* NULL: the copy of a new value to its place */
	struct sgpu_op_call call;
	struct sgpu_task task;
};

struct run {
	struct job *job;
	struct run *next;              /* spare */
	atomic_bool failed;            /* what follows is not run */
	int count;
	struct started started[];
};

struct job {
	struct sgpu_device *device;
	struct sgpu_manifest *manifest;
	struct place *places;          /* by segment */
	int range_count;
	struct step *steps;            /* in the order in which they run */
	int step_count;
	struct run *spare;             /* of runs that have ended */
	sgpu_devptr scratch;           /* for the step that needs most */
	uint64_t scratch_size;
	uint64_t bytes;                /* of the device, in all */
};

/* ---- made and freed ---- */
static void free_job(void **job)
{
	struct job *j = *job;

	if (!j) {
		return;
	}
	for (int i = 0; j->places && i < j->manifest->segment_count; i++) {
		sgpu_device_free(j->device, &j->places[i].memory, j->places[i].size);
	}
	sgpu_device_free(j->device, &j->scratch, j->scratch_size);
	while (j->spare) {
		struct run *next = j->spare->next;

		free(j->spare);
		j->spare = next;
	}
	sgpu_manifest_free(&j->manifest);
	free(j->places);
	free(j->steps);
	free(j);
	*job = NULL;
}

static int alloc_own(struct job *j, uint64_t size, uint64_t most, sgpu_devptr *memory, struct sgpu_error *error)
{
	int rc;

	if (size == 0) {
		return SGPU_OK;
	}
	if (size > most - j->bytes) {
		return sgpu_fail(error, SGPU_ENOMEM, "the job needs more memory than the session may have");
	}
	rc = sgpu_device_alloc(j->device, size, memory, error);
	j->bytes += rc == SGPU_OK ? size : 0;
	return rc;
}

static int make_places(struct job *j, uint64_t most, struct sgpu_error *error)
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

		if (s->type.dtype == SGPU_NONE || !sgpu_type_bytes(&s->type, &p->size) || s->size_of_file) {
			return sgpu_fail(error, SGPU_EINVALID, "the type of segment '%s' is not known", s->id);
		}
		if (sgpu_segment_is_output(s) && s->writer < 0) {
			return sgpu_fail(error, SGPU_EINVALID, "no operation writes segment '%s'", s->id);
		}
		p->range = s->direction == SGPU_INTERMEDIATE ? -1 : j->range_count++;
		if (s->direction == SGPU_INTERMEDIATE || s->direction == SGPU_INPUT_OUTPUT) {
			rc = alloc_own(j, p->size, most, &p->memory, error);
		}
	}
	if (rc == SGPU_OK && j->range_count > SGPU_MODULE_RANGES_MAX) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "a job of a session has at most %d inputs and outputs",
			       SGPU_MODULE_RANGES_MAX);
	}
	return rc;
}

static int make_step(struct job *j, int operation, struct sgpu_error *error)
{
	const struct sgpu_operation *op = &j->manifest->operations[operation];
	struct step *step = &j->steps[j->step_count++];
	uint64_t scratch;
	int rc;

	if (op->module) {
		return sgpu_fail(error, SGPU_EUSAGE, "operation '%s' runs a module, which a session loads by itself", op->id);
	}
	rc = sgpu_ops_prepare(j->manifest, operation, &step->call, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (step->call.op->at_most && step->call.op->at_most(&step->call)) {
		return sgpu_fail(error, SGPU_EUSAGE, "the size of what operation '%s' gives is known too late",
				 op->id);
	}
	step->id = op->id;
	step->on_device = sgpu_device_op(j->device, op->kernel);
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		step->segments[i] = -1;
	}
	for (int i = 0; i < op->arg_count; i++) {
		int at = sgpu_op_arg(step->call.op, op->args[i].name);

		step->segments[at] = op->args[i].segment;
		step->written[at] = op->args[i].output;
	}
	scratch = step->call.op->scratch ? step->call.op->scratch(&step->call) : 0;
	step->scratch = scratch > 0;
	j->scratch_size = scratch > j->scratch_size ? scratch : j->scratch_size;
	return SGPU_OK;
}

static int load_job(struct sgpu_device *device, const char *text, size_t size, uint64_t most, void **job, uint64_t *bytes,
		    struct sgpu_error *error)
{
	struct sgpu_diagnostics diagnostics = { 0 };
	struct job *j = calloc(1, sizeof(*j));
	int rc;

	*job = NULL;
	if (!j) {
		return sgpu_fail_nomem(error);
	}
	j->device = device;
	rc = sgpu_ops_load_manifest(text, size, "the job", &j->manifest, &diagnostics, error);
	sgpu_diagnostics_clear(&diagnostics);
	if (rc < 0) {
		goto out;
	}
	rc = make_places(j, most, error);
	if (rc < 0) {
		goto out;
	}
	j->steps = calloc((size_t)j->manifest->operation_count + 1, sizeof(*j->steps));
	if (!j->steps) {
		rc = sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < j->manifest->operation_count; i++) {
		rc = make_step(j, j->manifest->order[i], error);
	}
	if (rc == SGPU_OK) {
		rc = alloc_own(j, j->scratch_size, most, &j->scratch, error);
	}
out:
	*job = j;
	*bytes = j->bytes;
	if (rc < 0) {
		free_job(job);
	}
	return rc;
}

/* ---- runs ---- */
/* On the stream's thread. */
static int run_step(struct sgpu_launch *launch, void *argument)
{
	struct started *s = argument;
	sgpu_op_fn on_device = s->step ? s->step->on_device : sgpu_device_op(launch->device, "copy");
	int rc;

	if (atomic_load(&s->run->failed)) {
		return sgpu_fail(launch->error, SGPU_EDEPENDENCY, "an operation before it failed");
	}
	rc = on_device ? on_device(&s->call, launch) : s->call.op->cpu(&s->call, launch->pool, launch->error);
	if (rc != SGPU_OK) {
		atomic_store(&s->run->failed, true);
	}
	return rc;
}

static int enqueue(struct run *run, const struct step *step, const struct sgpu_op_call *call, const struct job *j,
		   struct sgpu_stream *stream, struct sgpu_error *error)
{
	struct sgpu_device_range ranges[SGPU_ARGUMENTS_MAX + 1];
	struct started *s = &run->started[run->count];
	int count = 0, rc;

	*s = (struct started){ .run = run, .step = step, .call = *call, .task = { .untimed = true } };
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		uint64_t size = 0;

		if (call->data[i] && sgpu_type_bytes(&call->type[i], &size) && size > 0) {
			ranges[count++] = (struct sgpu_device_range){ (sgpu_devptr)(uintptr_t)call->data[i], size };
		}
	}
	if (call->scratch) {
		ranges[count++] = (struct sgpu_device_range){ j->scratch, j->scratch_size };
	}
	rc = sgpu_device_launch_on(stream, run_step, s, ranges, count, &s->task);
	if (rc != SGPU_OK) {
		return sgpu_fail(error, rc, "the device refused operation '%s': %s", step ? step->id : "copy",
				 s->task.error.text[0] ? s->task.error.text : sgpu_strerror(rc));
	}
	run->count++;
	return SGPU_OK;
}

/* Where an argument's data are. */
static sgpu_devptr address_of(const struct job *j, int segment, bool written, const struct sgpu_device_range *ranges)
{
	const struct place *p = &j->places[segment];

	return p->range < 0 || (written && p->memory) ? p->memory : ranges[p->range].address;
}

static int start_step(const struct job *j, const struct step *step, struct sgpu_stream *stream,
		      const struct sgpu_device_range *ranges, struct run *run, struct sgpu_error *error)
{
	struct sgpu_op_call call = step->call;

	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		if (step->segments[i] >= 0) {
			call.data[i] = (void *)(uintptr_t)address_of(j, step->segments[i], step->written[i], ranges);
		}
	}
	call.scratch = step->scratch ? (void *)(uintptr_t)j->scratch : NULL;
	return enqueue(run, step, &call, j, stream, error);
}

/* The new value of an INPUT_OUTPUT goes where the old one was, which nothing reads any more. */
static int start_copy(const struct job *j, const struct place *p, struct sgpu_stream *stream,
		      const struct sgpu_device_range *ranges, struct run *run, struct sgpu_error *error)
{
	const struct sgpu_op *copy = sgpu_op_find("copy");
	struct sgpu_op_call call = { .op = copy };
	const int from = sgpu_op_arg(copy, "input"), to = sgpu_op_arg(copy, "output");

	call.type[from] = call.type[to] = (struct sgpu_type){ SGPU_U8, 1, { p->size, 0, 0, 0 } };
	call.present[from] = call.present[to] = true;
	call.data[from] = (void *)(uintptr_t)p->memory;
	call.data[to] = (void *)(uintptr_t)ranges[p->range].address;
	return enqueue(run, NULL, &call, j, stream, error);
}

static bool overlap(const struct sgpu_device_range *a, const struct sgpu_device_range *b)
{
	return a->address < b->address + b->size && b->address < a->address + a->size;
}

/* An operation must not write what it reads, and alignment is the operations' to demand. */
static int check_ranges(const struct job *j, const struct sgpu_device_range *ranges, int count, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = j->manifest;

	if (count != j->range_count) {
		return sgpu_fail(error, SGPU_EUSAGE, "the job has %d inputs and outputs, and %d ranges are given",
				 j->range_count, count);
	}
	for (int i = 0; i < m->segment_count; i++) {
		const struct place *p = &j->places[i];

		if (p->range < 0) {
			continue;
		}
		if (ranges[p->range].size != p->size) {
			return sgpu_fail(error, SGPU_EUSAGE, "segment '%s' has %llu bytes, and its range %llu", m->segments[i].id,
					 (unsigned long long)p->size, (unsigned long long)ranges[p->range].size);
		}
		if (ranges[p->range].address % 64 != 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "the range of segment '%s' is not aligned to 64 bytes",
					 m->segments[i].id);
		}
		for (int k = 0; sgpu_segment_is_output(&m->segments[i]) && k < count; k++) {
			if (k != p->range && overlap(&ranges[p->range], &ranges[k])) {
				return sgpu_fail(error, SGPU_EUSAGE, "the range of output '%s' overlaps another",
						 m->segments[i].id);
			}
		}
	}
	return SGPU_OK;
}

/* As many are made as run at one time. */
static struct run *take_run(struct job *j)
{
	struct run *r = j->spare;

	if (r) {
		j->spare = r->next;
	} else {
		r = calloc(1, sizeof(*r) + (size_t)(j->step_count + j->range_count) * sizeof(r->started[0]));
	}
	if (r) {
		r->job = j;
		r->count = 0;
		atomic_store(&r->failed, false);
	}
	return r;
}

static int start_job(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges, int count, void **run,
		     struct sgpu_error *error)
{
	struct job *j = job;
	struct run *r;
	int rc = check_ranges(j, ranges, count, error);

	*run = NULL;
	if (rc < 0) {
		return rc;
	}
	r = take_run(j);
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	*run = r;
	for (int i = 0; rc == SGPU_OK && i < j->step_count; i++) {
		rc = start_step(j, &j->steps[i], stream, ranges, r, error);
	}
	for (int i = 0; rc == SGPU_OK && i < j->manifest->segment_count; i++) {
		if (j->places[i].range >= 0 && j->places[i].memory) {
			rc = start_copy(j, &j->places[i], stream, ranges, r, error);
		}
	}
	return rc;
}

static int end_job(void **run, struct sgpu_error *error)
{
	struct run *r = *run;
	int rc = SGPU_OK;

	for (int i = 0; r && rc == SGPU_OK && i < r->count; i++) {
		const struct started *s = &r->started[i];

		if (s->task.code != SGPU_OK) {
			rc = sgpu_fail(error, s->task.code, "operation '%s': %s", s->step ? s->step->id : "copy",
				       s->task.error.text[0] ? s->task.error.text : sgpu_strerror(s->task.code));
		}
	}
	if (r) {
		r->next = r->job->spare;
		r->job->spare = r;
	}
	*run = NULL;
	return rc;
}

const struct sgpu_group_jobs sgpu_remote_jobs = { load_job, free_job, start_job, end_job };
