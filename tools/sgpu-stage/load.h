/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and functions for the files of sgpu-stage load.
 */
#ifndef SGPU_STAGE_LOAD_H
#define SGPU_STAGE_LOAD_H

#include <sgpu/base.h>
#include <sgpu/batch.h>
#include <sgpu/manifest.h>

#include "base/io.h"
#include "base/pool.h"
#include "stage/stage.h"

/* How one segment of the batch is staged. */
struct load_slice {
	bool staged;	       /* it has a place in the region */
	uint64_t offset, size; /* of that place */
};

struct load {
	struct sgpu_region_options options;
	const char *out_path;
	unsigned node; /* UINT_MAX: none */
	bool export, published;
	struct sgpu_output out;
	unsigned jobs;
	struct sgpu_files *files;   /* folders whose files batches may name; NULL: none */
	struct sgpu_leases *leases; /* opens payloads in `files` */
	const char *in_name;
	struct sgpu_tar_reader *reader;
	struct sgpu_batch *batch;
	struct load_slice *slices; /* by segment of the batch */
	uint64_t total;		   /* bytes of the region */
	uint64_t payload;	   /* bytes to copy */
	int staged, outputs, left; /* numbers of segments; left: in their files */
	struct sgpu_region region;
	struct sgpu_pool *pool;
	struct sgpu_dsa *dsa; /* reads payloads in files, or NULL */
	uint64_t done;	      /* bytes copied, for the progress line */
};

/* load_fill.c: copies the payloads into the region; reads the batch to its end. */
SGPU_MUST_CHECK int load_fill(struct load *load, struct sgpu_error *error);

#endif
