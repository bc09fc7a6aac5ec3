/* SPDX-License-Identifier: Apache-2.0
 *
 * Payloads of a job in a staged region, and room there for what comes out, as sgpu-stage load --keep has it.
 */
#include <sgpu/seal.h>
#include <sgpu/stage.h>

#include "job.h"

/* A sealed payload starts at 8 modulo 16, so that its chunks are aligned, as sgpu-stage has it. */
enum { PAGE = 4096, SEALED_SHIFT = 8 };

/* Where each payload and the largest result of each output is, and the size of the region. */
static uint64_t place_all(struct job *job)
{
	uint64_t total = 0;

	for (int i = 0; i < job->batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &job->batch->segments[i];
		uint64_t room = s->size;

		if (job->sealed && !sgpu_sealed_size(s->size, &room)) {
			return 0; /* too large for any region */
		}
		s->location.offset = total + (job->sealed ? SEALED_SHIFT : 0);
		total = (s->location.offset + room + PAGE - 1) / PAGE * PAGE;
	}
	return total;
}

static int fill(struct job *job, struct sgpu_region *region, struct sgpu_error *error)
{
	int rc = sgpu_region_back(region, 0, region->size, error);

	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		struct sgpu_batch_segment *s = &job->batch->segments[i];

		if (s->location.kind == SGPU_LOCATION_INLINE) {
			rc = job_payload(job, i, region->data + s->location.offset, error);
		}
		s->location.kind = SGPU_LOCATION_REGION;
		snprintf(s->location.region, sizeof(s->location.region), "%s", region->id);
	}
	return rc;
}

int job_stage(struct job *job, struct sgpu_error *error)
{
	const struct sgpu_region_options options = { .numa_node = -1, .keep = true };
	struct sgpu_region region;
	int rc = sgpu_region_create(place_all(job), &options, &region, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	rc = fill(job, &region, error);
	rc = rc ? rc : sgpu_region_publish(&region, error);
	if (rc == SGPU_OK) {
		snprintf(job->region, sizeof(job->region), "%s", region.id);
	}
	sgpu_region_close(&region);
	return rc;
}
