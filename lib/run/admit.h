/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission: what a batch must be before anything of it is fetched or run.
 */
#ifndef SGPU_RUN_ADMIT_H
#define SGPU_RUN_ADMIT_H

#include <sgpu/run.h>

struct sgpu_run_base;
struct sgpu_prepared;

/* What admission gives. Nothing of it changes afterwards, but that the key is wiped at the end of
 * the run. */
struct sgpu_job {
	const struct sgpu_run_options *options;
	struct sgpu_batch *batch;
	struct sgpu_prepared *prepared;
	const struct sgpu_manifest *manifest; /* of the prepared job */
	const struct sgpu_plan *plan;
	bool keyed;
	uint8_t batch_key[SGPU_KEY_SIZE];
	char owner[SGPU_KID_SIZE +
		   1]; /* the first listed one in the batch; empty: nobody's was asked for */
	bool replayed; /* the record of batches has refused it */
	uint8_t response_id[SGPU_RESPONSE_ID_SIZE]; /* of the one response to it */
	int *to_manifest; /* by segment of the batch: index in the manifest */
	int *in_batch;	  /* by segment of the manifest: index in the batch, or -1 */
};

/* Fills in base->job, whose options are set. */
SGPU_MUST_CHECK int sgpu_admit(struct sgpu_run_base *base, struct sgpu_tar_reader *tar,
			       struct sgpu_error *error);
/* Remembers the batch, and refuses one that was taken before: the last of all checks, so that no
 * batch is remembered that could have come again. */
SGPU_MUST_CHECK int sgpu_admit_once(struct sgpu_job *job, struct sgpu_error *error);
void sgpu_job_clear(struct sgpu_job *job);

#endif
