/* SPDX-License-Identifier: Apache-2.0
 *
 * The begin and the end of the enclave's side.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/memory_file.h"
#include "ring/inside.h"

enum { CALLS = 64, BYTES = 64 << 10, BYTES_UNIT = 64 };

/* ---- opening ---- */

static int open_area(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	int rc;

	rpc->shared.area_size = rpc->config.calls * rpc->config.bytes;
	rc = sgpu_memory_file_create("sgpu-rpc", rpc->shared.area_size, true, false,
				     &rpc->shared.area, error);
	if (rc < 0) {
		return rc;
	}
	rpc->area = mmap(NULL, rpc->shared.area_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 rpc->shared.area, 0);
	if (rpc->area == MAP_FAILED) {
		rpc->area = NULL;
		return sgpu_fail_errno(error, "cannot map the data of calls");
	}
	while (rpc->free_count < rpc->config.calls) {
		rpc->free[rpc->free_count] = rpc->free_count;
		rpc->free_count++;
	}
	return SGPU_OK;
}

/* Each call has a place of its own, and as many are in the ring: it is never full. */
static int open_queue(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	const struct sgpu_ring_client_config config = { .doorbell = rpc->shared.inside,
							.shared = true,
							.wait = sgpu_rpc_spinning() };
	int rc = sgpu_ring_memory_create(rpc->config.calls, rpc->config.calls, &rpc->shared.ring,
					 error);

	if (rc == SGPU_OK) {
		rc = sgpu_ring_client_open(rpc->shared.ring, &config, &rpc->client, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_ring_calls_open(rpc->client, rpc->shared.inside, &rpc->calls, error);
	}
	return rc;
}

static int check_config(struct sgpu_rpc_config *config, struct sgpu_error *error)
{
	config->threads = config->threads ? config->threads : 1;
	config->calls = config->calls ? config->calls : CALLS;
	config->bytes = config->bytes ? config->bytes : BYTES;
	if (config->way > SGPU_RPC_QUEUE || config->threads > SGPU_RPC_THREADS_MAX ||
	    config->calls < SGPU_RING_ENTRIES_MIN || config->calls > SGPU_RPC_CALLS_MAX ||
	    (config->calls & (config->calls - 1)) || config->bytes > SGPU_RPC_BYTES_MAX ||
	    config->bytes % BYTES_UNIT) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "calls by way %d, with %u threads, %u calls at once of %zu bytes",
				 (int)config->way, config->threads, config->calls, config->bytes);
	}
	if (config->way == SGPU_RPC_EXIT && !sgpu_rpc_has_cycles()) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE,
				 "an exit cannot be emulated: there is no time-stamp counter");
	}
	return SGPU_OK;
}

int sgpu_rpc_open_inside(const struct sgpu_rpc_config *config, struct sgpu_rpc **rpc,
			 const struct sgpu_rpc_shared **shared, struct sgpu_error *error)
{
	struct sgpu_rpc *r = calloc(1, sizeof(*r));
	int ends[2], rc;

	*rpc = NULL;
	if (!r) {
		return sgpu_fail_nomem(error);
	}
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->freed, NULL);
	r->config = *config;
	r->shared = (struct sgpu_rpc_shared){ .ring = -1, .area = -1, .inside = -1, .outside = -1 };
	rc = check_config(&r->config, error);
	if (rc < 0) {
		goto out;
	}
	r->shared.threads = r->config.threads;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		rc = sgpu_fail_errno(error, "cannot make the sockets of a queue");
		goto out;
	}
	r->shared.inside = ends[0];
	r->shared.outside = ends[1];
	if (r->config.way != SGPU_RPC_DIRECT) {
		rc = open_area(r, error);
	}
	if (rc == SGPU_OK && r->config.way == SGPU_RPC_QUEUE) {
		rc = open_queue(r, error);
	}
	if (rc < 0) {
		goto out;
	}
	*shared = &r->shared;
	*rpc = r;
	r = NULL;
out:
	sgpu_rpc_close(&r);
	return rc;
}

int sgpu_rpc_open(const struct sgpu_rpc_config *config, struct sgpu_rpc **rpc,
		  struct sgpu_error *error)
{
	const struct sgpu_rpc_shared *shared;
	int rc = sgpu_rpc_open_inside(config, rpc, &shared, error);

	if (rc == SGPU_OK && config->way == SGPU_RPC_QUEUE) {
		rc = sgpu_rpc_server_start(shared, &(*rpc)->server, error);
	}
	if (rc < 0) {
		sgpu_rpc_close(rpc);
	}
	return rc;
}

static void close_fd(int fd)
{
	if (fd >= 0) {
		close(fd);
	}
}

void sgpu_rpc_close(struct sgpu_rpc **rpc)
{
	struct sgpu_rpc *r = *rpc;

	if (!r) {
		return;
	}
	sgpu_rpc_stop(r);
	sgpu_rpc_server_end(&r->server);
	sgpu_ring_calls_close(&r->calls);
	sgpu_ring_client_close(&r->client);
	if (r->area) {
		munmap(r->area, r->shared.area_size);
	}
	close_fd(r->shared.ring);
	close_fd(r->shared.area);
	close_fd(r->shared.inside);
	close_fd(r->shared.outside);
	pthread_cond_destroy(&r->freed);
	pthread_mutex_destroy(&r->lock);
	free(r);
	*rpc = NULL;
}

/* ---- the end ---- */

int sgpu_rpc_end_calls(struct sgpu_rpc *rpc, const struct sgpu_error *why, struct sgpu_error *error)
{
	pthread_mutex_lock(&rpc->lock);
	if (!rpc->ended) {
		rpc->ended = true;
		rpc->why = *why;
	}
	pthread_cond_broadcast(&rpc->freed);
	pthread_mutex_unlock(&rpc->lock);
	if (rpc->calls) {
		sgpu_ring_calls_end(rpc->calls, &rpc->why);
	} else if (rpc->shared.inside >= 0) {
		(void)shutdown(rpc->shared.inside, SHUT_RDWR);
	}
	if (error) {
		*error = rpc->why;
	}
	return rpc->why.code;
}

void sgpu_rpc_stop(struct sgpu_rpc *rpc)
{
	struct sgpu_error why;

	(void)sgpu_fail(&why, SGPU_ECANCELED, "calls to the outside were stopped");
	(void)sgpu_rpc_end_calls(rpc, &why, NULL);
}
