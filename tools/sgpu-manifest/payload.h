/* SPDX-License-Identifier: Apache-2.0
 *
 * The files behind the inputs of a manifest.
 */
#ifndef SGPU_MANIFEST_PAYLOAD_H
#define SGPU_MANIFEST_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <sgpu/batch.h>
#include <sgpu/manifest.h>

#include "base/pool.h"

/* Where locations are relative to, and what the checks are to allow. */
struct payload_folder {
	char *path; /* the real path of the manifest's folder */
	bool allow_outside;
	bool standard_input;	/* taken by the manifest itself */
	const char *output;	/* the batch's path, or NULL */
	struct sgpu_pool *pool; /* cores that digest, once there is something for them, or NULL */
	uint64_t hashed;	/* bytes so far, for the progress */
	int spool;		/* descriptor of what came from standard input, or -1 */
};

/* Sets path from that of the manifest ("-": the current folder). */
SGPU_MUST_CHECK int payload_folder_open(const char *manifest_path, struct payload_folder *folder,
					struct sgpu_error *error);
void payload_folder_close(struct payload_folder *folder);

/* Finds, opens and measures the payload of an input, and fills size, location and, for a LOW one,
 * kt128. Errors: SGPU_ESYSTEM, SGPU_EINVALID (a size that does not fit), SGPU_EPOLICY (outside the
 * folder, HIGH data that would have to travel in the clear). */
SGPU_MUST_CHECK int payload_take(struct payload_folder *folder, const struct sgpu_segment *segment,
				 struct sgpu_batch_segment *entry, struct sgpu_error *error);
/* The measure, sgpu-quote(5), of the module's image that is the payload of this INPUT, which is
 * read for it whatever its sensitivity: what is to run is told by this digest alone. The segment
 * has a location other than "-". */
SGPU_MUST_CHECK int payload_measure(const struct payload_folder *folder,
				    const struct sgpu_segment *segment, uint8_t digest[32],
				    struct sgpu_error *error);
/* Copies so many bytes from one file to another. */
SGPU_MUST_CHECK int payload_copy(int from, const char *from_name, uint64_t size, int to,
				 const char *to_name, struct sgpu_error *error);

#endif
