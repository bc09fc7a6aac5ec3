/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of a session: a manifest that was parsed and checked once. Its operations run in the
 * manifest's order on one stream, over ranges of the session's buffers: one for each INPUT, OUTPUT
 * and INPUT_OUTPUT, in the order of the segments, of exactly the segment's size. INTERMEDIATE
 * segments are in memory of the job. Operations read an INPUT_OUTPUT's value from before the run;
 * its range has the new value after the run.
 */
#ifndef SGPU_REMOTE_JOB_H
#define SGPU_REMOTE_JOB_H

#include <stdatomic.h>

#include "ops/ops.h"
#include "channel/group.h"

extern const struct sgpu_group_jobs sgpu_remote_jobs;

/* ---- for job.c and job_run.c ---- */
struct step {
	struct sgpu_op_call call; /* types and parameters, without data */
	/* the device's implementation; NULL: the CPU's, call.op->cpu */
	sgpu_op_fn on_device;
	const char *id;
	int segments[SGPU_ARGUMENTS_MAX]; /* by argument of the operation; -1: absent */
	bool is_new[SGPU_ARGUMENTS_MAX];  /* of an INPUT_OUTPUT the new value, not the old one */
	bool scratch;			  /* needs the job's scratch memory */
};

/* A segment's memory. */
struct place {
	uint64_t size;
	int range;	    /* its index in a run's ranges, or -1 */
	sgpu_devptr memory; /* for an INTERMEDIATE, and for an INPUT_OUTPUT's new value; or 0 */
};

struct sgpu_job;
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
	/* in the order of execution; then copies of each INPUT_OUTPUT's new value over the old one,
	 * which no operation reads any more */
	struct step *steps;
	int step_count;
	struct sgpu_job_run *spare; /* for reuse */
	sgpu_devptr scratch;	    /* as much as any step needs */
	uint64_t scratch_size;
	uint64_t bytes; /* all device memory of the job */
};

/* ---- job_run.c: as in struct sgpu_group_jobs ---- */
int sgpu_job_start(void *job, struct sgpu_stream *stream, const struct sgpu_device_range *ranges,
		   int count, void **run, struct sgpu_error *error);
int sgpu_job_end(void **run, struct sgpu_error *error);

#endif
