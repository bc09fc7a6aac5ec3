/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission: the checks that a batch must pass before any of it is fetched or run.
 */
#ifndef SGPU_RUN_JOB_H
#define SGPU_RUN_JOB_H

#include <pthread.h>
#include <stdatomic.h>

#include "run/run.h"

/* Prepared jobs: manifests that were parsed, checked against the operations, and planned. A kept
 * job depends only on the manifest's text, by whose hash it is found, and on the devices. */

struct sgpu_run;

enum {
	SGPU_PREPARED_MAX = 64,		    /* jobs that a runner keeps */
	SGPU_PREPARED_TEXT_MAX = 256 << 10, /* most bytes of a kept job's manifest: larger jobs run
					       longer than their parsing takes */
};

struct sgpu_prepared {
	atomic_int references;
	struct sgpu_manifest *manifest;
	struct sgpu_plan *plan; /* once it is set, the job does not change */
};

/* Makes a job of a manifest that was checked against the operations. Takes over the manifest, even
 * on failure. The caller gets the only reference. NULL: out of memory. */
struct sgpu_prepared *sgpu_prepared_create(struct sgpu_manifest **manifest);
/* Drops a reference; the last one frees the job. Accepts NULL; clears the caller's pointer. */
void sgpu_prepared_drop(struct sgpu_prepared **prepared);

/* The jobs that a runner keeps, for all of its threads. */
struct sgpu_prepared_table {
	pthread_mutex_t mutex;
	unsigned kept; /* so far */
	struct sgpu_prepared *jobs[SGPU_PREPARED_MAX];
};

void sgpu_prepared_table_clear(struct sgpu_prepared_table *table);
/* Finds the job whose manifest has this hash. The caller gets a reference, or NULL. */
struct sgpu_prepared *sgpu_prepared_find(struct sgpu_prepared_table *table,
					 const uint8_t sha256[SGPU_SHA256_SIZE]);
/* Adds a planned job to the table, unless it is large or depends on its batch (on a module's size).
 * A full table drops the one that it has kept for the longest time. */
void sgpu_prepared_keep(struct sgpu_prepared_table *table, struct sgpu_prepared *prepared);

/* The results of admission. They do not change afterwards, except that the key is wiped. */
struct sgpu_job {
	const struct sgpu_run_options *options;
	struct sgpu_batch *batch;
	struct sgpu_prepared *prepared;
	const struct sgpu_manifest *manifest; /* of the prepared job */
	const struct sgpu_plan *plan;
	bool keyed;
	uint8_t batch_key[SGPU_KEY_SIZE];
	char owner[SGPU_KID_SIZE + 1]; /* the first listed owner who signed the batch, or "" */
	bool has_module;	       /* an operation is of a module */
	uint8_t response_id[SGPU_RESPONSE_ID_SIZE]; /* of the batch's one response */
	int *to_manifest; /* by segment of the batch: index in the manifest */
	int *in_batch;	  /* by segment of the manifest: index in the batch, or -1 */
};

/* Computes how many bytes a result may have. False: more than can be counted. */
bool sgpu_result_size(const struct sgpu_batch_segment *segment, uint64_t *size);
/* Computes how many bytes the results without a place may have together, if each begins at a
 * multiple of SGPU_RESULT_LINE and has `each` more bytes, in whole lines, with it. */
bool sgpu_results_size(const struct sgpu_job *job, uint64_t each, uint64_t *sum);
enum { SGPU_RESULT_LINE = 64 };
/* Gives each result without a place one within the `left` bytes at `next`. */
SGPU_MUST_CHECK int sgpu_results_place(const struct sgpu_job *job, struct sgpu_location next,
				       uint64_t left, struct sgpu_error *error);

/* Fills in run->job, whose options are set. */
SGPU_MUST_CHECK int sgpu_admit(struct sgpu_run *run, struct sgpu_tar_reader *tar,
			       struct sgpu_error *error);
/* Records the batch, or refuses it if it was recorded before. This is the last check: a batch that
 * another check refuses may come again, so it must not be recorded. */
SGPU_MUST_CHECK int sgpu_admit_once(struct sgpu_job *job, struct sgpu_error *error);
void sgpu_job_clear(struct sgpu_job *job);

#endif
