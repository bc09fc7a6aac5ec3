/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch's leases: those that it names for inputs, and one for its results if the options ask for
 * that. The client may change a lease's bytes at any time, so the engine opens or digests a copy.
 * Only a sealed payload's header is read in the lease itself, once.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/private.h"

static const struct sgpu_lease *find_lease(const struct sgpu_run *run, const char *id)
{
	const struct sgpu_leases *leases = &run->leases;

	for (int i = leases->input_count; i-- > 0;) { /* most segments name the one taken last */
		if (strcmp(leases->inputs[i].id, id) == 0) {
			return &leases->inputs[i];
		}
	}
	return strcmp(leases->results.id, id) == 0 ? &leases->results : NULL;
}

static int take_input(struct sgpu_run *run, int i, struct sgpu_error *error)
{
	struct sgpu_leases *leases = &run->leases;
	const struct sgpu_batch *batch = run->job.batch;
	const struct sgpu_batch_segment *segment = &batch->segments[i];
	const struct sgpu_lease *lease = find_lease(run, segment->location.region);
	const uint64_t size = sgpu_batch_payload_size(batch, i);
	uint64_t end;
	int rc;

	if (!lease) {
		rc = sgpu_lease_take(run->job.options->leases, segment->location.region, batch->id,
				     false, &leases->inputs[leases->input_count], error);
		if (rc < 0) {
			return rc;
		}
		lease = &leases->inputs[leases->input_count++];
	}
	if (!sgpu_add_u64(segment->location.offset, size, &end) || end > lease->size) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"segment '%s': %llu bytes at %llu are not in lease '%s', which has %llu",
			segment->id, (unsigned long long)size,
			(unsigned long long)segment->location.offset, lease->id,
			(unsigned long long)lease->size);
	}
	return SGPU_OK;
}

int sgpu_leases_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	struct sgpu_location at = { .kind = SGPU_LOCATION_LEASE };
	uint64_t total;
	int rc = SGPU_OK;

	if (!job->options->leases) {
		return SGPU_OK; /* check_places has refused a batch that names any */
	}
	run->leases.inputs =
		calloc((size_t)job->batch->segment_count + 1, sizeof(*run->leases.inputs));
	if (!run->leases.inputs) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		if (job->batch->segments[i].location.kind == SGPU_LOCATION_LEASE) {
			rc = take_input(run, i, error);
		}
	}
	/* Results of which all may have to be withheld wait in the runner's memory. */
	if (rc != SGPU_OK || !job->options->lease_results || job->manifest->all_or_nothing ||
	    !sgpu_results_size(job, 0, &total) || total == 0 || total > SGPU_LEASE_POOL_MAX) {
		return rc;
	}
	if (sgpu_lease_create(job->options->leases, job->batch->id, true, total,
			      &run->leases.results, NULL) != SGPU_OK) {
		run->leases.results.id[0] = '\0'; /* there is no room for it */
		return SGPU_OK;
	}
	memcpy(at.region, run->leases.results.id, sizeof(at.region));
	return sgpu_results_place(job, at, total, error);
}

void sgpu_leases_free(struct sgpu_run *run)
{
	struct sgpu_leases *leases = &run->leases;

	for (int i = 0; i < leases->input_count; i++) {
		sgpu_lease_end(run->job.options->leases, leases->inputs[i].id);
	}
	if (leases->results.id[0] && !leases->offered) {
		sgpu_lease_end(run->job.options->leases, leases->results.id);
	}
	free(leases->inputs);
}

uint8_t *sgpu_leases_at(const struct sgpu_run *run, const struct sgpu_location *location)
{
	struct sgpu_lease_pool_info pool;

	sgpu_lease_pool_get_info(run->job.options->leases, &pool);
	return pool.memory + find_lease(run, location->region)->offset + location->offset;
}

void sgpu_leases_offer(struct sgpu_run *run)
{
	if (run->leases.results.id[0]) {
		sgpu_lease_offer(run->job.options->leases, run->leases.results.id);
		run->leases.offered = true;
	}
}

void sgpu_leases_withdraw(struct sgpu_run *run)
{
	struct sgpu_lease_pool *pool = run->job.options->leases;
	struct sgpu_lease lease;

	/* If somebody has taken the lease meanwhile, they end it. */
	if (run->leases.offered && sgpu_lease_take(pool, run->leases.results.id, run->job.batch->id,
						   true, &lease, NULL) == SGPU_OK) {
		sgpu_lease_end(pool, run->leases.results.id);
	}
}
