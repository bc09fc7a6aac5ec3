/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner's steps in memory: a batch of arrays is sealed, and its response opened.
 */
#ifndef SGPU_JOB_H
#define SGPU_JOB_H

#include <sgpu/batch.h>

struct job_array {
	uint8_t *data; /* from malloc */
	uint64_t size;
};

/* One batch. */
struct job {
	const struct sgpu_manifest *manifest; /* checked; borrowed */
	struct job_array *arrays; /* by segment of the manifest: inputs before, outputs after */
	uint8_t batch_key[SGPU_KEY_SIZE];
	uint8_t identity[SGPU_SHA256_SIZE];
	struct sgpu_batch *batch, *response;
};

SGPU_MUST_CHECK int job_create(const struct sgpu_manifest *manifest, struct job *job,
			       struct sgpu_error *error);
/* Wipes the key and the arrays. */
void job_free(struct job *job);
/* Seals the inputs to the runner's key, and writes the batch into a file. signer: NULL, or the
 * owner's key. */
SGPU_MUST_CHECK int job_seal(struct job *job, const struct sgpu_key *runner,
			     const struct sgpu_key *signer, int fd, struct sgpu_error *error);
/* Verifies that the file is the response to the batch, and opens its outputs. Errors also:
 * SGPU_ESEGMENTS: an output has failed; SGPU_EREFUSED: the runner's side refused the batch. */
SGPU_MUST_CHECK int job_open(struct job *job, int fd, struct sgpu_error *error);

#endif
