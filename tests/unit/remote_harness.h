/* SPDX-License-Identifier: Apache-2.0
 *
 * A session over a ring, both sides in this process: the worker's is a thread.
 */
#ifndef REMOTE_HARNESS_H
#define REMOTE_HARNESS_H

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/session.h>
#include "channel/channel.h"

#include "device_harness.h"
#include "hello_harness.h"
#include "remote/client.h"
#include "remote/carrier.h"

enum { LIMIT = 32 << 20 };

static struct sgpu_error error;
static struct sgpu_device *device;
static struct sgpu_secure *context;

struct worker {
	struct sgpu_remote_ring near, far; /* the program's descriptors, and the worker's */
	struct sgpu_remote_service *service;
	pthread_t thread;
	void (*begin)(void); /* what the thread does first, or NULL */
	struct sgpu_error error;
	int rc;
	uint64_t used; /* bytes of the context before */
};

static inline uint64_t used_bytes(void)
{
	struct sgpu_secure_stats stats;

	sgpu_secure_get_stats(context, &stats);
	return stats.used_bytes;
}

static void *run_service(void *argument)
{
	struct worker *w = argument;

	if (w->begin) {
		w->begin();
	}
	w->rc = sgpu_remote_service_run(w->service, &w->error);
	return NULL;
}

/* The two files and the bell. */
static inline void make_ends(struct worker *w)
{
	int bells[2];

	*w = (struct worker){ .used = used_bytes() };
	if (sgpu_link_create(&w->near.memory, &w->near.area, &error) != SGPU_OK ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, bells) != 0) {
		abort();
	}
	w->far = w->near;
	w->near.bell = bells[0];
	w->far.bell = bells[1];
}

static inline bool start_service(struct worker *w)
{
	if (sgpu_remote_service_create(context, LIMIT, &anybody, &w->far, &w->service, &error) !=
	    SGPU_OK) {
		printf("# %s\n", error.text);
		return false;
	}
	return pthread_create(&w->thread, NULL, run_service, w) == 0;
}

static inline void start_worker(struct worker *w)
{
	make_ends(w);
	if (!start_service(w)) {
		abort();
	}
}

/* The program has gone; what serving ended with. */
static inline int end_worker(struct worker *w)
{
	close(w->near.bell);
	if (w->service) {
		pthread_join(w->thread, NULL);
		sgpu_remote_service_free(&w->service);
	}
	close(w->far.bell);
	close(w->far.memory);
	close(w->far.area);
	CHECK(used_bytes() == w->used); /* nothing is left of the session */
	return w->rc;
}

static inline int open_ring(const struct sgpu_remote_ring *ring, uint64_t patience_ns,
			    struct sgpu_remote **remote)
{
	struct sgpu_carrier *carrier;
	const int rc = sgpu_carrier_ring(ring, &carrier, &error);

	*remote = NULL;
	if (rc < 0) {
		return rc;
	}
	carrier->patience_ns = patience_ns;
	return sgpu_remote_open_carrier(carrier, NULL, &runner_key, remote, &error);
}

static inline struct sgpu_remote *open_remote(const struct worker *w)
{
	struct sgpu_remote *remote = NULL;

	if (open_ring(&w->near, 0, &remote) != SGPU_OK) {
		printf("# %s\n", error.text);
	}
	return remote;
}

static inline void fill(uint8_t *data, size_t size, unsigned seed)
{
	for (size_t i = 0; i < size; i++) {
		data[i] = (uint8_t)(i * 31 + i / 253 + i / 65521 + seed);
	}
}

static inline bool open_all(void)
{
	signal(SIGPIPE, SIG_IGN);
	device = open_test_device(2, 0);
	return device && make_keys() &&
	       sgpu_secure_create(device, NULL, &context, &error) == SGPU_OK;
}

static inline void close_all(void)
{
	sgpu_secure_destroy(&context);
	sgpu_device_close(&device);
}

/* ---- jobs ---- */
#define SEGMENT(id, direction, shape)                                                          \
	"{\"segment_id\":\"" id "\",\"sensitivity_level\":\"HIGH\",\"direction\":\"" direction \
	"\",\"data_location_client\":\"" id                                                    \
	"\",\"data_type_info\":{\"dtype\":\"f32\",\"shape\":[" shape "]}}"
#define OPERATION(id, kernel, arguments)                                                           \
	"{\"gpu_operation_id\":\"" id "\",\"kernel\":\"" kernel "\",\"arguments\":{" arguments "}" \
	"}"
/* sum = x + y, twice = sum + sum, of 1000 numbers each */
#define ADDING                                                                                                 \
	"{\"version\":1,\"manifest_id\":\"t\",\"segments\":[" SEGMENT("x", "INPUT", "1000") "," SEGMENT(       \
		"y", "INPUT",                                                                                  \
		"1000") "," SEGMENT("sum", "OUTPUT",                                                           \
				    "1000") "," SEGMENT("twice", "OUTPUT",                                     \
							"1000") "],\"operations\":"                            \
								"[" OPERATION(                                 \
									"ADD",                                 \
									"vector_"                              \
									"add",                                 \
									"\"a\":"                               \
									"\"x\","                               \
									"\"b\":"                               \
									"\"y\","                               \
									"\"output"                             \
									"\":"                                  \
									"\"sum\"") "," OPERATION("DOUBLE",     \
												 "vector_add", \
												 "\"a\":\"sum\",\"b\":\"sum\",\"output\":\"twice\"") "]}"

enum { N = 1000, BYTES = 4 * N };

/* The job and its memory: four ranges of one buffer. */
struct adding {
	uint32_t job, buffer;
	struct sgpu_remote_range ranges[4];
	float x[N], y[N], sum[N], twice[N];
};

static inline int load_adding(struct sgpu_remote *remote, struct adding *a)
{
	int rc = sgpu_remote_load(remote, ADDING, strlen(ADDING), &a->job, &error);

	rc = rc == SGPU_OK ? sgpu_remote_alloc(remote, 4 * 4096, &a->buffer, &error) : rc;
	for (uint64_t i = 0; i < 4; i++) {
		a->ranges[i] = (struct sgpu_remote_range){ a->buffer, 4096 * i, BYTES };
	}
	return rc;
}

/* Copies in, runs and copies out. */
static inline int add_once(struct sgpu_remote *remote, struct adding *a, int round)
{
	int rc;

	for (int i = 0; i < N; i++) {
		a->x[i] = (float)(i + round);
		a->y[i] = (float)round;
	}
	rc = sgpu_remote_copy_in(remote, a->buffer, 0, a->x, BYTES, &error);
	rc = rc == SGPU_OK ? sgpu_remote_copy_in(remote, a->buffer, 4096, a->y, BYTES, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_run(remote, a->job, a->ranges, 4, &error) : rc;
	rc = rc == SGPU_OK ? sgpu_remote_seal_out(remote, (uint8_t *)a->sum, a->buffer, 8192, BYTES,
						  &error)
			   : rc;
	rc = rc == SGPU_OK ? sgpu_remote_seal_out(remote, (uint8_t *)a->twice, a->buffer, 12288,
						  BYTES, &error)
			   : rc;
	return rc == SGPU_OK ? sgpu_remote_flush(remote, &error) : rc;
}

static inline bool is_added(const struct adding *a, int round)
{
	bool right = true;

	for (int i = 0; i < N; i++) {
		right = right && a->sum[i] == (float)(i + 2 * round) &&
			a->twice[i] == (float)(2 * (i + 2 * round));
	}
	return right;
}

#endif
