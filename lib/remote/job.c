/* SPDX-License-Identifier: Apache-2.0
 *
 * See job.h: makes and frees jobs. The manifest comes from the session's owner, who may be anybody,
 * so all sizes are checked here, and all ranges when the job runs.
 */
#include <stdlib.h>

#include <sgpu/base.h>

#include "remote/job.h"

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
	rc = sgpu_ops_load_manifest(text, size, "the job", &j->manifest, &diagnostics, error);
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

const struct sgpu_group_jobs sgpu_remote_jobs = { load_job, free_job, sgpu_job_start,
						  sgpu_job_end };
