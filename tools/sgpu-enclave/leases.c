/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases of a worker process: its pool, and the requests for them. A client holds a lease while it
 * fills or reads it, at most as long as its connection is open. */
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#include <sgpu/base.h>

#include "stage/lease.h"
#include "base/base.h"
#include "serving.h"

#define HOLD_NS UINT64_C(600000000000) /* for a client to fill or read a lease */
enum { LOOK_MS = 250, POOL_PAGE = 2 << 20, UNTAKEN_MAX = 64 };

static struct {
	/* clients that left the pool's descriptor: it counts until they close */
	atomic_uint untaken;
	struct sgpu_lease_pool *pool; /* NULL: none was asked for */
	struct sgpu_lease_pool_info info;
	struct sgpu_device *device; /* where the pool is registered, or NULL */
} l;

static void count_leases(unsigned leases, uint64_t bytes)
{
	atomic_store(&serving.counters->leases, leases);
	atomic_store(&serving.counters->leased_bytes, bytes);
}

int serve_lease_open(uint64_t size, struct sgpu_error *error)
{
	const struct sgpu_lease_pool_config config = { .size = size,
						       .life_ns = serving.begin.lease_ns,
						       .changed = count_leases };
	struct sgpu_device *device = serving.enclave->devices[0].device;
	struct sgpu_error why = { 0 };
	int rc = sgpu_lease_pool_create(&config, &l.pool, error);

	if (rc < 0) {
		return rc;
	}
	sgpu_lease_pool_get_info(l.pool, &l.info);
	rc = sgpu_limit_take(SGPU_HOST_MEMORY, l.info.size, error);
	if (rc < 0) {
		sgpu_lease_pool_free(&l.pool);
		return rc;
	}
	atomic_store(&serving.counters->pool_bytes, l.info.size);
	if (sgpu_host_register(device, l.info.memory, l.info.size, &why) == SGPU_OK) {
		l.device = device;
	}
	cli_detail("a pool of %llu MiB for leases, %s", (unsigned long long)(l.info.size >> 20),
		   l.device ? "registered with the device" : why.text);
	return SGPU_OK;
}

void serve_lease_close(void)
{
	if (l.device) {
		sgpu_host_unregister(l.device, l.info.memory);
		l.device = NULL;
	}
	if (l.pool) {
		sgpu_limit_give(SGPU_HOST_MEMORY, l.info.size);
		atomic_store(&serving.counters->pool_bytes, 0);
	}
	sgpu_lease_pool_free(&l.pool);
}

/* Clients may keep a pool's file open for as long as they like, so a pool is replaced, not
 * shrunk. */
void serve_lease_shrink(uint64_t most)
{
	const uint64_t size = most / POOL_PAGE * POOL_PAGE;
	struct sgpu_error error = { 0 };

	if (!l.pool || serving.used || l.info.size <= most) {
		return;
	}
	serve_lease_close();
	if (size > 0 && serve_lease_open(size, &error) != SGPU_OK) {
		cli_warning("no pool for leases: %s", error.text);
	}
}

static int fail_without_pool(struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EUNAVAILABLE, "this server gives no leases");
	return sgpu_hint(error, "'sgpu-serve --leases SIZE' has memory for them");
}

int serve_lease_options(bool results, struct sgpu_run_options *options, struct sgpu_error *error)
{
	if (results && !l.pool) {
		return fail_without_pool(error);
	}
	options->leases = l.pool;
	options->leases_registered = l.device != NULL;
	options->lease_results = results;
	return SGPU_OK;
}

/* False: the client has gone, or takes too long. */
static bool wait_for_client(int connection)
{
	struct pollfd client = { .fd = connection, .events = POLLIN };
	const uint64_t begin = sgpu_now_ns();
	int rc = SGPU_ETIMEOUT;

	while (rc == SGPU_ETIMEOUT) {
		const uint64_t held = sgpu_now_ns() - begin;

		if (held > HOLD_NS || (held > serving.begin.stall_ns &&
				       sgpu_now_ns() < atomic_load(&serving.press_ns))) {
			return false;
		}
		if (poll(&client, 1, LOOK_MS) > 0) {
			rc = wire_hear(connection, WIRE_LEASE_DONE, NULL);
		}
	}
	return rc == SGPU_OK;
}

int serve_lease(int connection, struct sgpu_error *error)
{
	struct wire_lease_is answer;
	struct wire_lease asked;
	int rc = wire_receive(connection, WIRE_LEASE, &asked, sizeof(asked), NULL, 0, error);
	bool results, is_done;
	int unread = 0;

	memset(&answer, 0, sizeof(answer));
	if (rc == SGPU_OK && !l.pool) {
		rc = fail_without_pool(error);
	} else if (rc == SGPU_OK && atomic_load(&l.untaken) >= UNTAKEN_MAX) {
		rc = sgpu_fail(error, SGPU_ERETRY,
			       "%d clients of this user have not taken their leases", UNTAKEN_MAX);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	asked.id[SGPU_REGION_ID_TEXT] = '\0';
	results = asked.id[0] != '\0';
	rc = results ? sgpu_lease_take(l.pool, asked.id, asked.batch_id, true, &answer.lease, error)
		     : sgpu_lease_create(l.pool, asked.batch_id, false, asked.size, &answer.lease,
					 error);
	if (rc != SGPU_OK) {
		return rc;
	}
	answer.pool_size = l.info.size;
	is_done =
		sgpu_wire_send(connection, WIRE_LEASE_IS, &answer, sizeof(answer), &l.info.fd, 1) &&
		wait_for_client(connection);
	if (!is_done && (ioctl(connection, TIOCOUTQ, &unread) != 0 || unread > 0)) {
		atomic_fetch_add(&l.untaken, 1);
	}
	/* A lease not filled to the end is dropped; one not read can be read again. */
	if (results == is_done) {
		sgpu_lease_end(l.pool, answer.lease.id);
	} else {
		sgpu_lease_offer(l.pool, answer.lease.id);
	}
	if (is_done) {
		(void)wire_say(connection, WIRE_LEASE_DONE);
	}
	return SGPU_OK;
}
