/* SPDX-License-Identifier: Apache-2.0
 *
 * The leases that one batch holds.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "stage/lease.h"

static const struct sgpu_lease *find_lease(const struct sgpu_leases *leases, const char *id)
{
	for (int i = leases->input_count; i-- > 0;) { /* most segments name the one taken last */
		if (strcmp(leases->inputs[i].id, id) == 0) {
			return &leases->inputs[i];
		}
	}
	return strcmp(leases->results.id, id) == 0 ? &leases->results : NULL;
}

int sgpu_leases_take(struct sgpu_leases *leases, const struct sgpu_batch_segment *segment,
		     uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_lease *lease = find_lease(leases, segment->location.region);
	uint64_t end;

	if (!lease) {
		const size_t count = (size_t)leases->input_count;
		struct sgpu_lease *more = realloc(leases->inputs, (count + 1) * sizeof(*more));
		int rc;

		if (!more) {
			return sgpu_fail_nomem(error);
		}
		leases->inputs = more;
		rc = sgpu_lease_take(leases->pool, segment->location.region, leases->batch_id,
				     false, &more[count], error);
		if (rc < 0) {
			return rc;
		}
		leases->input_count++;
		lease = &more[count];
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

bool sgpu_leases_results(struct sgpu_leases *leases, uint64_t size, struct sgpu_location *location)
{
	if (sgpu_lease_create(leases->pool, leases->batch_id, true, size, &leases->results, NULL) !=
	    SGPU_OK) {
		leases->results.id[0] = '\0';
		return false;
	}
	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_LEASE };
	memcpy(location->region, leases->results.id, sizeof(location->region));
	return true;
}

uint8_t *sgpu_leases_at(const struct sgpu_leases *leases, const struct sgpu_location *location)
{
	struct sgpu_lease_pool_info pool;

	sgpu_lease_pool_get_info(leases->pool, &pool);
	return pool.memory + find_lease(leases, location->region)->offset + location->offset;
}

void sgpu_leases_offer(struct sgpu_leases *leases)
{
	if (leases->results.id[0]) {
		sgpu_lease_offer(leases->pool, leases->results.id);
		leases->offered = true;
	}
}

void sgpu_leases_withdraw(struct sgpu_leases *leases)
{
	struct sgpu_lease lease;

	/* If somebody has taken the lease meanwhile, they end it. */
	if (leases->offered && sgpu_lease_take(leases->pool, leases->results.id, leases->batch_id,
					       true, &lease, NULL) == SGPU_OK) {
		sgpu_lease_end(leases->pool, leases->results.id);
	}
}

void sgpu_leases_free(struct sgpu_leases *leases)
{
	for (int i = 0; i < leases->input_count; i++) {
		sgpu_lease_end(leases->pool, leases->inputs[i].id);
	}
	if (leases->results.id[0] && !leases->offered) {
		sgpu_lease_end(leases->pool, leases->results.id);
	}
	free(leases->inputs);
}
