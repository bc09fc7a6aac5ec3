/* SPDX-License-Identifier: Apache-2.0
 *
 * The leases of a batch: those that it names for its inputs, and one for its results if the options
 * ask for that. The client may change the bytes in a lease at any time. So the engine copies them,
 * and opens or digests its own copy. Only the header of a sealed payload is read in the lease
 * itself, once.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/private.h"

struct sgpu_lent {
	const struct sgpu_job *job;
	struct sgpu_lease_pool *pool;
	uint8_t *memory; /* of the pool */
	struct sgpu_lease *inputs;
	int input_count;
	struct sgpu_lease results; /* id "": there is none */
	bool offered;
};

static const struct sgpu_lease *find_lease(const struct sgpu_lent *lent, const char *id)
{
	for (int i = lent->input_count; i-- > 0;) { /* most segments name the one taken last */
		if (strcmp(lent->inputs[i].id, id) == 0) {
			return &lent->inputs[i];
		}
	}
	return strcmp(lent->results.id, id) == 0 ? &lent->results : NULL;
}

static int take_input(struct sgpu_lent *lent, int i, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = lent->job->batch;
	const struct sgpu_batch_segment *segment = &batch->segments[i];
	const struct sgpu_lease *lease = find_lease(lent, segment->location.region);
	const uint64_t size = sgpu_batch_payload_size(batch, i);
	uint64_t end;
	int rc;

	if (!lease) {
		rc = sgpu_lease_take(lent->pool, segment->location.region, batch->id, false,
				     &lent->inputs[lent->input_count], error);
		if (rc < 0) {
			return rc;
		}
		lease = &lent->inputs[lent->input_count++];
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

/* Makes the results' lease. If there is no room for it, the results go with the response. */
static int make_results(struct sgpu_lent *lent, struct sgpu_error *error)
{
	const struct sgpu_job *job = lent->job;
	struct sgpu_location at = { .kind = SGPU_LOCATION_LEASE };
	uint64_t total;

	if (!sgpu_results_size(job, 0, &total) || total == 0 || total > SGPU_LEASE_POOL_MAX ||
	    sgpu_lease_create(lent->pool, job->batch->id, true, total, &lent->results, NULL) !=
		    SGPU_OK) {
		lent->results.id[0] = '\0';
		return SGPU_OK;
	}
	memcpy(at.region, lent->results.id, sizeof(at.region));
	return sgpu_results_place(job, at, total, error);
}

int sgpu_lent_create(struct sgpu_run *run, struct sgpu_error *error)
{
	const struct sgpu_job *job = &run->job;
	struct sgpu_lease_pool_info info;
	struct sgpu_lent *made;
	int rc = SGPU_OK;

	if (!job->options->leases) {
		return SGPU_OK; /* check_places has refused a batch that names any */
	}
	made = calloc(1, sizeof(*made));
	run->lent = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	sgpu_lease_pool_get_info(job->options->leases, &info);
	made->job = job;
	made->pool = job->options->leases;
	made->memory = info.memory;
	made->inputs = calloc((size_t)job->batch->segment_count + 1, sizeof(*made->inputs));
	if (!made->inputs) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; rc == SGPU_OK && i < job->batch->segment_count; i++) {
		if (job->batch->segments[i].location.kind == SGPU_LOCATION_LEASE) {
			rc = take_input(made, i, error);
		}
	}
	/* Results of which all may have to be withheld wait in the runner's memory. */
	return rc == SGPU_OK && job->options->lease_results && !job->manifest->all_or_nothing
		       ? make_results(made, error)
		       : rc;
}

void sgpu_lent_free(struct sgpu_lent **lent)
{
	struct sgpu_lent *made = *lent;

	*lent = NULL;
	if (!made) {
		return;
	}
	for (int i = 0; i < made->input_count; i++) {
		sgpu_lease_end(made->pool, made->inputs[i].id);
	}
	if (made->results.id[0] && !made->offered) {
		sgpu_lease_end(made->pool, made->results.id);
	}
	free(made->inputs);
	free(made);
}

uint8_t *sgpu_lent_at(const struct sgpu_lent *lent, const struct sgpu_location *location)
{
	return lent->memory + find_lease(lent, location->region)->offset + location->offset;
}

void sgpu_lent_offer(struct sgpu_lent *lent)
{
	if (lent && lent->results.id[0]) {
		sgpu_lease_offer(lent->pool, lent->results.id);
		lent->offered = true;
	}
}

void sgpu_lent_withdraw(struct sgpu_lent *lent)
{
	struct sgpu_lease lease;

	/* If somebody has taken the lease meanwhile, they end it. */
	if (lent && lent->offered &&
	    sgpu_lease_take(lent->pool, lent->results.id, lent->job->batch->id, true, &lease,
			    NULL) == SGPU_OK) {
		sgpu_lease_end(lent->pool, lent->results.id);
	}
}
