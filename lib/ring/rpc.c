/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls of an enclave: the inside, which makes them, and the thread outside that performs
 * those of the queue, in their order.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "ring/private.h"

enum { ERRNO_MAX = 4095 };

/* How long both sides spin. A call that does not wait ends within microseconds, so longer spinning
 * saves no sleep and takes the processor from the other side. The time does not adapt: a call for
 * which both sides sleep outlasts it, so a time that has shrunk would stay short. */
static uint64_t spin_ns(void)
{
	return sgpu_cpu_count() == 1 ? 1 : 20000;
}

#if defined(__SANITIZE_THREAD__)
#define SHOWS_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOWS_ORDER 1
#endif
#endif

/* Shows ThreadSanitizer, to which the ring's two mappings are different memory, that a call through
 * the ring is in order with what its caller does before and after. */
static void show_order(void)
{
#ifdef SHOWS_ORDER
	static _Atomic uint64_t order;

	atomic_fetch_add(&order, 1);
#endif
}

/* ---- system calls, the same for every way of calling ---- */
/* Copies the shared array first, since the other side may change it. */
static int64_t perform_poll(struct pollfd *shared, size_t count, int timeout_ms)
{
	struct pollfd fds[SGPU_RPC_POLL_MAX];
	int ready;

	if (count > SGPU_RPC_POLL_MAX) {
		return -EINVAL;
	}
	if (count) {
		memcpy(fds, shared, count * sizeof(*fds));
	}
	ready = poll(fds, count, timeout_ms);
	if (ready < 0) {
		return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		shared[i].revents = fds[i].revents;
	}
	return ready;
}

/* base: where the area is; NULL for a direct call. */
static int64_t perform(const char *base, const struct sgpu_ring_descriptor *call)
{
	const int fd = (int)call->handle;
	void *data = (void *)((uintptr_t)base + call->offset);
	ssize_t done;

	switch (call->opcode) {
	case SGPU_RPC_RECV:
		done = recv(fd, data, call->length, MSG_DONTWAIT);
		break;
	case SGPU_RPC_SEND:
		done = send(fd, data, call->length, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case SGPU_RPC_POLL:
		return perform_poll(data, call->length / sizeof(struct pollfd),
				    (int)(int64_t)call->argument);
	default: /* SGPU_RPC_EMPTY */
		(void)syscall(SYS_getppid);
		return 0;
	}
	return done < 0 ? -errno : done;
}

/* ---- exits ---- */

#if defined(__x86_64__)
static const bool has_cycles = true;

/* Spins for `cycles` of the time-stamp counter, whose rate is constant. Where SGPU_RPC_EXIT_CYCLES
 * was measured, the processor's clock had nearly the same rate. */
static void lose(uint64_t cycles)
{
	const uint64_t begin = __builtin_ia32_rdtsc();

	while (__builtin_ia32_rdtsc() - begin < cycles) {
	}
}
#else
static const bool has_cycles = false;

static void lose(uint64_t cycles)
{
	(void)cycles;
}
#endif

/* ---- the thread outside ---- */
/* The descriptor is a copy; its range must be in the area. */
static int make_call(struct sgpu_rpc *rpc, const struct sgpu_ring_descriptor *d,
		     struct sgpu_error *error)
{
	const bool good = d->handle <= INT32_MAX && d->length <= SGPU_RPC_AREA_SIZE &&
			  d->offset <= SGPU_RPC_AREA_SIZE - d->length &&
			  d->offset % _Alignof(struct pollfd) == 0;
	int64_t value = 0;

	if (good) {
		show_order();
		value = perform(rpc->data, d);
		show_order();
	}
	return sgpu_ring_finish(rpc->worker, good ? SGPU_OK : SGPU_EUSAGE, (uint64_t)value, error);
}

static void *serve(void *argument)
{
	struct sgpu_rpc *rpc = argument;
	struct sgpu_ring_descriptor descriptor;
	struct sgpu_error error;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = sgpu_ring_next(rpc->worker, &descriptor, &error);
		if (rc == SGPU_OK) {
			rc = make_call(rpc, &descriptor, &error);
		} else if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_await(rpc->worker, 0, &error);
		}
	}
	/* Tells the inside, which may wait, that nobody serves it any more. */
	(void)shutdown(rpc->outside, SHUT_RDWR);
	return NULL;
}

int sgpu_rpc_serve(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	enum { DATA = SGPU_RING_KNOWN | SGPU_RING_HANDLE | SGPU_RING_OFFSET | SGPU_RING_LENGTH };
	static const uint8_t members[SGPU_RING_OPCODES] = {
		[SGPU_RPC_RECV] = DATA,
		[SGPU_RPC_SEND] = DATA,
		[SGPU_RPC_POLL] = DATA | SGPU_RING_ARGUMENT,
		[SGPU_RPC_EMPTY] = DATA,
	};
	const struct sgpu_ring_config config = { .doorbell = rpc->outside,
						 .spin_ns = spin_ns(),
						 .members = members };
	int rc = sgpu_ring_open(rpc->ring, &config, &rpc->worker, error);

	rc = rc ? rc : sgpu_thread_start(&rpc->thread, serve, rpc, error);
	rpc->runs = rc == SGPU_OK;
	return rc;
}

/* ---- opening and closing ---- */
/* The ring has as many entries as places for calls, so it is never full. */
static int open_queue(struct sgpu_rpc *rpc, struct sgpu_error *error)
{
	struct sgpu_ring_config config = { .spin_ns = spin_ns() };
	int ends[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		return sgpu_fail_errno(error, "cannot make the sockets of a queue");
	}
	config.doorbell = rpc->inside = ends[0];
	rpc->outside = ends[1];
	rc = sgpu_ring_memory_create(SGPU_RPC_CALLS_MAX, SGPU_RPC_CALLS_MAX, &rpc->ring, error);
	return rc ? rc : sgpu_ring_open(rpc->ring, &config, &rpc->client, error);
}

int sgpu_rpc_open_inside(enum sgpu_rpc_way way, uint64_t exit_cycles, struct sgpu_rpc **rpc,
			 struct sgpu_error *error)
{
	struct sgpu_rpc *r = *rpc = calloc(1, sizeof(*r));
	void *memory = NULL;
	uint64_t size;
	int rc = SGPU_OK;

	if (!r) {
		return sgpu_fail_nomem(error);
	}
	r->way = way;
	r->exit_cycles = exit_cycles;
	r->ring = r->area = r->inside = r->outside = -1;
	if (way == SGPU_RPC_EXIT && !has_cycles) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE,
			       "an exit cannot be emulated: there is no time-stamp counter");
	} else if (way != SGPU_RPC_DIRECT) {
		rc = sgpu_memory_file_create("sgpu-rpc", SGPU_RPC_AREA_SIZE, true, &r->area, error);
		rc = rc ? rc
			: sgpu_memory_file_map(r->area, "the data of calls", SGPU_RPC_AREA_SIZE,
					       SGPU_RPC_AREA_SIZE, &memory, &size, error);
		r->data = memory;
	}
	if (rc == SGPU_OK && way == SGPU_RPC_QUEUE) {
		rc = open_queue(r, error);
	}
	if (rc < 0) {
		sgpu_rpc_close(rpc);
	}
	return rc;
}

int sgpu_rpc_open(enum sgpu_rpc_way way, uint64_t exit_cycles, struct sgpu_rpc **rpc,
		  struct sgpu_error *error)
{
	int rc = sgpu_rpc_open_inside(way, exit_cycles, rpc, error);

	if (rc == SGPU_OK && way == SGPU_RPC_QUEUE) {
		rc = sgpu_rpc_serve(*rpc, error);
		if (rc < 0) {
			sgpu_rpc_close(rpc);
		}
	}
	return rc;
}

void sgpu_rpc_close(struct sgpu_rpc **rpc)
{
	struct sgpu_rpc *r = *rpc;

	if (!r) {
		return;
	}
	if (r->runs) {
		(void)shutdown(r->inside, SHUT_RDWR);
		pthread_join(r->thread, NULL);
	}
	sgpu_ring_close(&r->worker);
	sgpu_ring_close(&r->client);
	if (r->data) {
		munmap(r->data, SGPU_RPC_AREA_SIZE);
	}
	sgpu_close(r->ring);
	sgpu_close(r->area);
	sgpu_close(r->inside);
	sgpu_close(r->outside);
	free(r);
	*rpc = NULL;
}

uint64_t sgpu_rpc_count(const struct sgpu_rpc *rpc)
{
	return rpc->count;
}

/* ---- calls ---- */

static int await_results(struct sgpu_rpc *rpc, size_t count, int64_t *values,
			 struct sgpu_error *error)
{
	struct sgpu_ring_result results[SGPU_RPC_CALLS_MAX];
	size_t got = 0, some;

	while (got < count) {
		int rc = sgpu_ring_await(rpc->client, 0, error);

		rc = rc ? rc
			: sgpu_ring_reap(rpc->client, results, SGPU_RPC_CALLS_MAX, &some, error);
		if (rc < 0) {
			return rc;
		}
		for (size_t i = 0; i < some; i++) {
			if (results[i].status != SGPU_OK) {
				return sgpu_fail(error, SGPU_EINVALID,
						 "the outside has refused a call, with status %d",
						 results[i].status);
			}
			values[results[i].cookie] = (int64_t)results[i].value;
		}
		got += some;
	}
	return SGPU_OK;
}

/* The values are as the outside gave them, unchecked. */
static int queue_calls(struct sgpu_rpc *rpc, const struct sgpu_ring_descriptor *requests,
		       size_t count, int64_t *values, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	show_order();
	for (size_t i = 0; rc == SGPU_OK && i < count; i++) {
		rc = sgpu_ring_submit(rpc->client, &requests[i], error);
	}
	if (rc == SGPU_ERETRY) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the queue to the outside is full, though it has nothing to do");
	}
	rc = rc ? rc : await_results(rpc, count, values, error);
	show_order();
	return rc;
}

static int carry(struct sgpu_rpc *rpc, const struct sgpu_ring_descriptor *requests, size_t count,
		 int64_t *values, struct sgpu_error *error)
{
	const bool exits = rpc->way == SGPU_RPC_EXIT;
	struct sgpu_error found;

	if (sgpu_ring_fault_check(&rpc->why, error) < 0) {
		return rpc->why.code;
	}
	rpc->count += count;
	if (rpc->way == SGPU_RPC_QUEUE) {
		return queue_calls(rpc, requests, count, values, &found) < 0
			       ? sgpu_ring_fault_set(&rpc->why, &found, error)
			       : SGPU_OK;
	}
	for (size_t i = 0; i < count; i++) {
		if (exits) {
			lose(rpc->exit_cycles / 2);
		}
		values[i] = perform(rpc->data, &requests[i]);
		if (exits) {
			lose(rpc->exit_cycles - rpc->exit_cycles / 2);
		}
	}
	return SGPU_OK;
}

/* A call's result must be at most `most`, or minus an errno. */
static int judge(struct sgpu_rpc *rpc, int64_t value, size_t most, size_t *done,
		 struct sgpu_error *error)
{
	struct sgpu_error found;

	if (value < -ERRNO_MAX || (value > 0 && (uint64_t)value > most)) {
		(void)sgpu_fail(&found, SGPU_EINVALID,
				"the outside says that a call for %zu has returned %lld", most,
				(long long)value);
		return sgpu_ring_fault_set(&rpc->why, &found, error);
	}
	*done = value > 0 ? (size_t)value : 0;
	if (value == -EAGAIN || value == -EINTR) {
		return SGPU_ERETRY;
	}
	if (value < 0) {
		errno = (int)-value;
		return sgpu_fail_errno(error, "a call outside has failed");
	}
	return SGPU_OK;
}

/* Makes at most SGPU_RPC_CALLS_MAX calls. Each gets its own code, even after a result that breaks
 * the protocol. */
static int make_some(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		     struct sgpu_rpc_io *ios, size_t count, struct sgpu_error *error)
{
	const bool direct = rpc->way == SGPU_RPC_DIRECT;
	struct sgpu_ring_descriptor requests[SGPU_RPC_CALLS_MAX];
	int64_t values[SGPU_RPC_CALLS_MAX];
	int rc;

	for (size_t i = 0; i < count; i++) {
		requests[i] = (struct sgpu_ring_descriptor){
			.opcode = operation,
			.cookie = i,
			.handle = (uint64_t)ios[i].fd,
			.offset = direct ? (uintptr_t)ios[i].data : i * SGPU_RPC_BYTES_MAX,
			.length = sgpu_min_u64(ios[i].size, SGPU_RPC_BYTES_MAX),
		};
		if (!direct && operation == SGPU_RPC_SEND) {
			memcpy(rpc->data + requests[i].offset, ios[i].data, requests[i].length);
		}
	}
	rc = carry(rpc, requests, count, values, error);
	for (size_t i = 0; i < count && rc == SGPU_OK; i++) {
		ios[i].code = judge(rpc, values[i], requests[i].length, &ios[i].done, error);
		if (!direct && operation == SGPU_RPC_RECV && ios[i].done) {
			memcpy(ios[i].data, rpc->data + requests[i].offset, ios[i].done);
		}
	}
	return rc < 0 ? rc : sgpu_ring_fault_check(&rpc->why, error);
}

int sgpu_rpc_call_all(struct sgpu_rpc *rpc, enum sgpu_rpc_operation operation,
		      struct sgpu_rpc_io *ios, size_t count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (size_t i = 0; i < count; i++) {
		ios[i].done = 0;
		ios[i].code = SGPU_ECANCELED; /* the call was not made */
		if (ios[i].fd < 0) {
			return sgpu_fail(error, SGPU_EUSAGE, "%d is not a descriptor", ios[i].fd);
		}
	}
	for (size_t i = 0, some; i < count && rc == SGPU_OK; i += some) {
		some = count - i < SGPU_RPC_CALLS_MAX ? count - i : SGPU_RPC_CALLS_MAX;
		rc = make_some(rpc, operation, &ios[i], some, error);
	}
	return rc;
}

/* ---- poll ---- */

static void take_events(const volatile struct pollfd *from, struct pollfd *to, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to[i].revents = from[i].revents;
	}
}

/* Checks a copy of poll's events. */
static int check_events(const struct pollfd *fds, size_t count, size_t ready,
			struct sgpu_error *error)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		if (fds[i].revents & ~(fds[i].events | POLLERR | POLLHUP | POLLNVAL)) {
			return sgpu_fail(error, SGPU_EINVALID,
					 "the outside says that poll has found events 0x%x of 0x%x",
					 (unsigned)(unsigned short)fds[i].revents,
					 (unsigned)(unsigned short)fds[i].events);
		}
		found += fds[i].revents != 0;
	}
	if (found != ready) {
		return sgpu_fail(
			error, SGPU_EINVALID,
			"the outside says that poll has found %zu events, and %zu are there", ready,
			found);
	}
	return SGPU_OK;
}

int sgpu_rpc_poll(struct sgpu_rpc *rpc, struct pollfd *fds, size_t count, int timeout_ms,
		  size_t *done, struct sgpu_error *error)
{
	const bool direct = rpc->way == SGPU_RPC_DIRECT;
	const struct sgpu_ring_descriptor request = { .opcode = SGPU_RPC_POLL,
						      .offset = direct ? (uintptr_t)fds : 0,
						      .length = count * sizeof(*fds),
						      .argument = (uint64_t)(int64_t)timeout_ms };
	struct sgpu_error found;
	int64_t value = 0;
	int rc;

	*done = 0;
	if (count > SGPU_RPC_POLL_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a poll of %zu descriptors", count);
	}
	if (!direct && count) {
		for (size_t i = 0; i < count; i++) {
			fds[i].revents = 0;
		}
		memcpy(rpc->data, fds, request.length);
	}
	rc = carry(rpc, &request, 1, &value, error);
	rc = rc ? rc : judge(rpc, value, count, done, error);
	if (rc == SGPU_OK && !direct) {
		take_events((const struct pollfd *)(void *)rpc->data, fds, count);
		if (check_events(fds, count, *done, &found) < 0) {
			rc = sgpu_ring_fault_set(&rpc->why, &found, error);
		}
	}
	return rc;
}
