/* SPDX-License-Identifier: Apache-2.0
 *
 * See inputs.h. The client may change the bytes in a lease at any time. So the engine copies them,
 * and opens or digests its own copy. Only the header of a sealed payload is read in the lease
 * itself, once.
 */
#include "run/inputs.h"

#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "run/job.h"
#include "run/private.h"

enum { LINE = 64 }; /* bytes; results begin at multiples of it */

struct sgpu_lent {
	const struct sgpu_job *job;
	struct sgpu_lease_pool *pool;
	uint8_t *memory; /* of the pool */
	struct sgpu_lease *inputs;
	int input_count;
	struct sgpu_lease results; /* id "": there is none */
	uint64_t *places;	   /* offsets in the results' lease, by segment of the batch */
	bool offered;
};

static const struct sgpu_lease *find_lease(const struct sgpu_lent *lent, const char *id)
{
	for (int i = lent->input_count; i-- > 0;) { /* most segments name the one taken last */
		if (strcmp(lent->inputs[i].id, id) == 0) {
			return &lent->inputs[i];
		}
	}
	return NULL;
}

static int take_input(struct sgpu_lent *lent, int i, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = lent->job->batch;
	const struct sgpu_batch_segment *segment = &batch->segments[i];
	const struct sgpu_lease *lease = find_lease(lent, segment->location.region);
	const uint64_t size = sgpu_batch_payload_size(batch, i);
	uint64_t end;
	int rc;

	if (!lease) { /* there is room: a pool has at most SGPU_LEASES_MAX */
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

/* Computes the size of all results together, and the place of each. Returns false if there are
 * none, or more than a lease can hold. */
static bool lay_out(struct sgpu_lent *lent, uint64_t *total)
{
	const struct sgpu_job *job = lent->job;

	*total = 0;
	for (int i = 0; i < job->batch->segment_count; i++) {
		const struct sgpu_batch_segment *segment = &job->batch->segments[i];
		uint64_t size = segment->size;

		if (!sgpu_segment_is_output(&job->manifest->segments[job->to_manifest[i]]) ||
		    segment->place) {
			continue;
		}
		lent->places[i] = *total;
		if ((segment->masking == SGPU_MASKING_AES_GCM && !sgpu_sealed_size(size, &size)) ||
		    !sgpu_add_u64(*total, size, total) || *total > SGPU_LEASE_POOL_MAX) {
			return false;
		}
		*total = (*total + LINE - 1) / LINE * LINE;
	}
	return *total > 0;
}

/* Makes the results' lease. If there is no room for it, the results go with the response. */
static int make_results(struct sgpu_lent *lent, struct sgpu_error *error)
{
	const struct sgpu_batch *batch = lent->job->batch;
	uint64_t total;

	lent->places = calloc((size_t)batch->segment_count + 1, sizeof(*lent->places));
	if (!lent->places) {
		return sgpu_fail_nomem(error);
	}
	if (!lay_out(lent, &total) || sgpu_lease_create(lent->pool, batch->id, true, total,
							&lent->results, NULL) != SGPU_OK) {
		lent->results.id[0] = '\0';
	}
	return SGPU_OK;
}

int sgpu_lent_create(const struct sgpu_run_base *base, struct sgpu_lent **lent,
		     struct sgpu_error *error)
{
	const struct sgpu_job *job = base->job;
	struct sgpu_lease_pool_info info;
	struct sgpu_lent *made;
	int named = 0, rc = SGPU_OK;

	*lent = NULL;
	for (int i = 0; i < job->batch->segment_count; i++) {
		named += job->batch->segments[i].location.kind == SGPU_LOCATION_LEASE;
	}
	if (!job->options->leases || (named == 0 && !job->options->lease_results)) {
		return SGPU_OK; /* check_policy has refused a batch that names any */
	}
	made = calloc(1, sizeof(*made));
	*lent = made;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	sgpu_lease_pool_get_info(job->options->leases, &info);
	made->job = job;
	made->pool = job->options->leases;
	made->memory = info.memory;
	named = named < SGPU_LEASES_MAX ? named : SGPU_LEASES_MAX;
	made->inputs = calloc((size_t)named + 1, sizeof(*made->inputs));
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
	free(made->places);
	free(made);
}

const uint8_t *sgpu_lent_input(const struct sgpu_lent *lent, const struct sgpu_location *location)
{
	return lent->memory + find_lease(lent, location->region)->offset + location->offset;
}

uint8_t *sgpu_lent_output(const struct sgpu_lent *lent, int in_batch,
			  struct sgpu_location *location)
{
	if (!lent || !lent->results.id[0]) {
		return NULL;
	}
	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_LEASE,
					    .offset = lent->places[in_batch] };
	memcpy(location->region, lent->results.id, sizeof(location->region));
	return lent->memory + lent->results.offset + lent->places[in_batch];
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
