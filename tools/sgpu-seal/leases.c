/* SPDX-License-Identifier: Apache-2.0
 *
 * See leases.h. Other processes of this user may write to a lease at any time. What is sealed into
 * one is written and never read again; what is opened from one is copied first.
 */
#include "leases.h"

#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

#include "cli.h"

enum { LINE = 64 }; /* payloads begin at multiples of it */

/* ---- sealing into one ---- */
int seal_lease_place(struct seal_lease *lease, uint64_t size, struct sgpu_location *location,
		     struct sgpu_error *error)
{
	uint64_t end;

	*location = (struct sgpu_location){ .kind = SGPU_LOCATION_LEASE, .offset = lease->size };
	if (!sgpu_add_u64(lease->size, size, &end) || end > SGPU_LEASE_POOL_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "the payloads are too large for a lease");
	}
	lease->size = (end + LINE - 1) / LINE * LINE;
	return 0;
}

int seal_lease_open(struct seal_lease *lease, struct sgpu_batch *batch, struct sgpu_error *error)
{
	const uint64_t size = lease->size ? lease->size : LINE; /* all payloads may be empty */
	int code = lease_client_open(lease->socket, batch->id, NULL, size, &lease->client, error);

	if (code) {
		return code;
	}
	for (int i = 0; i < batch->segment_count; i++) {
		struct sgpu_location *location = &batch->segments[i].location;
		if (location->kind == SGPU_LOCATION_LEASE) {
			memcpy(location->region, lease->client.lease.id, sizeof(location->region));
		}
	}
	return sgpu_lease_map(lease->client.pool, &lease->client.lease, &lease->mapping, error);
}

static int write_leased(void *context, uint64_t position, const void *data, size_t size,
			struct sgpu_error *error)
{
	const struct seal_lease *lease = context;

	(void)error;
	memcpy(lease->mapping.memory + position, data, size);
	return 0;
}

void seal_lease_sink(struct seal_lease *lease, const struct sgpu_location *location,
		     struct sgpu_host_part *part)
{
	part->sink = (struct sgpu_transfer_sink){ .write = write_leased,
						  .parallel = true,
						  .context = lease };
	part->to = location->offset;
}

int seal_lease_filled(struct seal_lease *lease, struct sgpu_error *error)
{
	return lease_client_done(&lease->client, error);
}

void seal_lease_close(struct seal_lease *lease)
{
	sgpu_lease_unmap(&lease->mapping);
	lease_client_close(&lease->client);
}

/* ---- opening from one ---- */
static const struct lease_client *find_lease(const struct open_leases *leases, const char *id)
{
	for (int i = 0; i < leases->count; i++) {
		if (!strcmp(leases->list[i].lease.id, id)) {
			return &leases->list[i];
		}
	}
	return NULL;
}

static int get_one(struct open_leases *leases, const struct sgpu_batch *response, int i,
		   struct sgpu_error *error)
{
	const struct sgpu_batch_segment *s = &response->segments[i];
	const struct lease_client *client = find_lease(leases, s->location.region);
	uint64_t end;
	int code;

	if (!client && leases->count == OPEN_LEASES_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "the response names more than %d leases",
				 OPEN_LEASES_MAX);
	}
	if (!client) {
		code = lease_client_open(leases->socket, response->id, s->location.region, 0,
					 &leases->list[leases->count], error);
		if (code) {
			return code;
		}
		client = &leases->list[leases->count++];
	}
	if (!sgpu_add_u64(s->location.offset, sgpu_batch_payload_size(response, i), &end) ||
	    end > client->lease.size) {
		return sgpu_fail(error, SGPU_EINVALID, "output '%s' does not lie in lease '%s'",
				 s->id, client->lease.id);
	}
	return 0;
}

int open_leases_get(struct open_leases *leases, const struct sgpu_batch *response,
		    bool (*is_wanted)(const void *argument, int segment), const void *argument,
		    struct sgpu_error *error)
{
	int code = 0;

	leases->read_all = true;
	for (int i = 0; !code && i < response->segment_count; i++) {
		if (response->segments[i].location.kind != SGPU_LOCATION_LEASE) {
			continue;
		}
		if (is_wanted(argument, i)) {
			code = get_one(leases, response, i, error);
		} else {
			leases->read_all = false;
		}
	}
	return code;
}

void open_leases_source(const struct open_leases *leases, const struct sgpu_batch *response,
			int segment, struct sgpu_source *source)
{
	const struct sgpu_location *location = &response->segments[segment].location;
	const struct lease_client *client = find_lease(leases, location->region);

	*source = (struct sgpu_source){ .fd = client->pool,
					.offset = client->lease.offset + location->offset,
					.size = sgpu_batch_payload_size(response, segment) };
	snprintf(source->name, sizeof(source->name), "lease %s", client->lease.id);
}

void open_leases_release(struct open_leases *leases)
{
	struct sgpu_error error = { 0 };

	for (int i = 0; leases->read_all && i < leases->count; i++) {
		if (lease_client_done(&leases->list[i], &error)) {
			cli_detail("a lease was not given back: %s",
				   error.text); /* its time will be over */
		}
	}
}

void open_leases_close(struct open_leases *leases)
{
	for (int i = 0; i < leases->count; i++) {
		lease_client_close(&leases->list[i]);
	}
	leases->count = 0;
}
