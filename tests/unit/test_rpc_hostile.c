/* SPDX-License-Identifier: Apache-2.0
 *
 * What the outside can do to an enclave's calls: refuse them. And what the inside can do to the
 * threads outside.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "read_once.h"
#include "ring/private.h"
#include "unit.h"

enum { SIZE = 64, ROUNDS = 2000, LAST = SGPU_RPC_AREA_SIZE };

static _Thread_local struct sgpu_error error;

/* One call of several that are made together. */
static int one(enum sgpu_rpc_operation operation, struct sgpu_rpc *rpc, void *data, size_t size,
	       size_t *done)
{
	struct sgpu_rpc_io io = { .data = data, .size = size };
	const int rc = sgpu_rpc_call_all(rpc, operation, &io, 1, &error);

	*done = io.done;
	return rc < 0 ? rc : io.code;
}

static int empty(struct sgpu_rpc *rpc)
{
	size_t done;

	return one(SGPU_RPC_EMPTY, rpc, NULL, 0, &done);
}

/* ---- an outside that answers as it is told ---- */

struct outside {
	struct sgpu_rpc *rpc;
	struct sgpu_ring *worker;
	volatile char *area;
	pthread_t thread;
	/* What it answers. */
	int64_t value;
	int64_t second; /* the second call's; 0: as the others */
	int status;
	short revents[2];   /* of a poll */
	unsigned leaves_at; /* the call at which it goes away; 0: never */
	/* Called before a poll is answered, or NULL. */
	void (*watch)(struct outside *o, const struct sgpu_ring_descriptor *d);
};

static void write_events(struct outside *o, const struct sgpu_ring_descriptor *d)
{
	for (uint64_t i = 0; d->opcode == SGPU_RPC_POLL && i < d->length / 8 && i < 2; i++) {
		((volatile struct pollfd *)(o->area + d->offset))[i].revents = o->revents[i];
	}
}

static void *answer(void *argument)
{
	struct outside *o = argument;
	struct sgpu_ring_descriptor operation;
	unsigned count = 0;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = sgpu_ring_next(o->worker, &operation, &error);
		if (rc == SGPU_ERETRY) {
			rc = sgpu_ring_await(o->worker, 0, &error);
		} else if (rc == SGPU_OK && ++count == o->leaves_at) {
			break;
		} else if (rc == SGPU_OK) {
			write_events(o, &operation);
			if (o->watch) {
				o->watch(o, &operation);
			}
			rc = sgpu_ring_finish(
				o->worker, o->status,
				(uint64_t)(count == 2 && o->second ? o->second : o->value), &error);
		}
	}
	(void)shutdown(o->rpc->outside, SHUT_RDWR);
	return NULL;
}

static bool open_outside(struct outside *o)
{
	static uint8_t members[SGPU_RING_OPCODES];
	struct sgpu_ring_config worker = { .members = members };
	bool good = sgpu_rpc_open_inside(SGPU_RPC_QUEUE, 0, &o->rpc, &error) == SGPU_OK;

	if (good) {
		worker.doorbell = o->rpc->outside;
		memset(members, 0xff, sizeof(members));
		o->area = mmap(NULL, SGPU_RPC_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
			       o->rpc->area, 0);
		good = o->area != MAP_FAILED &&
		       sgpu_ring_open(o->rpc->ring, &worker, &o->worker, &error) == SGPU_OK &&
		       pthread_create(&o->thread, NULL, answer, o) == 0;
	}
	CHECK(good);
	return good;
}

static void close_outside(struct outside *o)
{
	(void)shutdown(o->rpc->inside, SHUT_RDWR);
	CHECK(pthread_join(o->thread, NULL) == 0);
	sgpu_ring_close(&o->worker);
	sgpu_rpc_close(&o->rpc);
	munmap((void *)(uintptr_t)o->area, SGPU_RPC_AREA_SIZE);
}

static void check_ended(struct outside *o, const char *text)
{
	char data[SIZE];
	size_t done;

	CHECK(strstr(error.text, text));
	memset(&error, 0, sizeof(error));
	CHECK(one(SGPU_RPC_RECV, o->rpc, data, 1, &done) == SGPU_EINVALID);
	CHECK(strstr(error.text, text));
}

UNIT_TEST(a_length_that_was_not_asked_for_ends_the_queue_and_copies_nothing)
{
	static const int64_t values[] = {
		17, SIZE, SGPU_RPC_BYTES_MAX, INT64_MAX, INT64_MIN, -4096
	};
	char data[SIZE + 16], canary[SIZE + 16];
	size_t done;

	memset(canary, 0x5a, sizeof(canary));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(values); i++) {
		struct outside o = { .value = values[i] };

		REQUIRE(open_outside(&o));
		memcpy(data, canary, sizeof(data));
		CHECK(one(SGPU_RPC_RECV, o.rpc, data, 16, &done) == SGPU_EINVALID && !done);
		CHECK(memcmp(data, canary, sizeof(data)) == 0);
		check_ended(&o, "says that a call for 16 has returned");
		close_outside(&o);
	}
}

UNIT_TEST(a_shorter_length_is_one_and_no_more_is_copied)
{
	struct outside o = { .value = 5 };
	char data[SIZE];
	size_t done;

	memset(data, 0x5a, sizeof(data));
	REQUIRE(open_outside(&o));
	CHECK(one(SGPU_RPC_RECV, o.rpc, data, 16, &done) == SGPU_OK && done == 5);
	CHECK(data[4] == 0 && data[5] == 0x5a);
	CHECK(one(SGPU_RPC_SEND, o.rpc, data, 16, &done) == SGPU_OK && done == 5);
	close_outside(&o);
}

/* Each of several calls has its own result, whatever the one before it has. */
static void check_others(int64_t second, int code, int group)
{
	struct outside o = { .value = 4, .second = second };
	char data[4][SIZE];
	struct sgpu_rpc_io ios[4];
	size_t done;

	memset(data, 0x5a, sizeof(data));
	for (int i = 0; i < 4; i++) {
		ios[i] = (struct sgpu_rpc_io){ .fd = i, .data = data[i], .size = 16 };
	}
	REQUIRE(open_outside(&o));
	memset(&error, 0, sizeof(error));
	CHECK(sgpu_rpc_call_all(o.rpc, SGPU_RPC_RECV, ios, 4, &error) == group);
	for (int i = 0; i < 4; i++) {
		CHECK(ios[i].code == (i == 1 ? code : SGPU_OK) && ios[i].done == (i == 1 ? 0 : 4));
		CHECK(data[i][0] == (i == 1 ? 0x5a : 0) && data[i][4] == 0x5a);
	}
	if (group < 0) {
		check_ended(&o, "has returned 17");
	} else {
		CHECK(strstr(error.text, strerror((int)-second)));
		CHECK(one(SGPU_RPC_RECV, o.rpc, data[1], 16, &done) == SGPU_OK && done == 4);
	}
	close_outside(&o);
}

UNIT_TEST(an_error_of_one_of_several_takes_no_result_from_the_others)
{
	check_others(-ECONNRESET, SGPU_ESYSTEM, SGPU_OK);
	check_others(-ENOSPC, SGPU_ENOSPACE, SGPU_OK);
	check_others(-EDQUOT, SGPU_ENOSPACE, SGPU_OK);
	check_others(-ENOMEM, SGPU_ENOMEM, SGPU_OK);
	check_others(-ECANCELED, SGPU_ESYSTEM, SGPU_OK);
	check_others(17, SGPU_EINVALID, SGPU_EINVALID);
}

UNIT_TEST(a_status_that_no_call_has_ends_the_queue)
{
	struct outside o = { .status = SGPU_ESYSTEM };
	char byte;
	size_t done;

	REQUIRE(open_outside(&o));
	CHECK(one(SGPU_RPC_RECV, o.rpc, &byte, 1, &done) == SGPU_EINVALID);
	check_ended(&o, "has refused a call, with status -4");
	close_outside(&o);
}

UNIT_TEST(events_that_were_not_asked_for_end_the_queue)
{
	static const struct {
		int64_t value;
		short revents[2];
		const char *text;
	} bad[] = {
		{ 1, { POLLOUT, 0 }, "events 0x4 of 0x1" },
		{ 1, { 0, POLLPRI }, "events 0x2 of 0x1" },
		{ 1, { INT16_MIN, 0 }, "events 0x8000 of 0x1" },
		{ 2, { POLLIN, 0 }, "2 events, and 1 are there" },
		{ 0, { POLLIN, 0 }, "0 events, and 1 are there" },
		{ 1, { 0, 0 }, "1 events, and 0 are there" },
		{ 3, { POLLIN, POLLIN }, "a call for 2 has returned 3" },
	};
	size_t done;

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		struct outside o = { .value = bad[i].value };
		struct pollfd fds[2] = { { .fd = 0, .events = POLLIN },
					 { .fd = 1, .events = POLLIN } };

		memcpy(o.revents, bad[i].revents, sizeof(o.revents));
		REQUIRE(open_outside(&o));
		CHECK(sgpu_rpc_poll(o.rpc, fds, 2, -1, &done, &error) == SGPU_EINVALID);
		CHECK(fds[0].fd == 0 && fds[1].fd == 1 && fds[0].events == POLLIN);
		check_ended(&o, bad[i].text);
		close_outside(&o);
	}
}

/* ---- shared memory that changes all the time ---- */

static atomic_bool changing;

static void *change(void *argument)
{
	const struct outside *o = argument;
	const size_t size = 64;
	volatile char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, o->rpc->area, 0);

	for (size_t i = 0; atomic_load_explicit(&changing, memory_order_relaxed); i += 2) {
		area[i % size] ^= POLLIN;
	}
	munmap((void *)(uintptr_t)area, size);
	return NULL;
}

UNIT_TEST(events_that_change_while_they_are_taken_are_looked_at_once)
{
	struct outside o = { .value = 1, .revents = { POLLIN, 0 } };
	pthread_t changer;
	size_t done;
	int rc = SGPU_OK;

	REQUIRE(open_outside(&o));
	atomic_store(&changing, true);
	REQUIRE(pthread_create(&changer, NULL, change, &o) == 0);
	for (int i = 0; i < ROUNDS && rc == SGPU_OK; i++) {
		struct pollfd fds[2] = { { .fd = 0, .events = POLLIN },
					 { .fd = 1, .events = POLLIN } };

		rc = sgpu_rpc_poll(o.rpc, fds, 2, -1, &done, &error);
		CHECK(fds[0].fd == 0 && fds[1].fd == 1 && fds[1].events == POLLIN);
		/* What was counted is what the caller has. */
		CHECK(rc == SGPU_EINVALID ||
		      (rc == SGPU_OK && done == 1 && !fds[0].revents != !fds[1].revents));
	}
	atomic_store(&changing, false);
	CHECK(pthread_join(changer, NULL) == 0);
	close_outside(&o);
}

/* ---- shared memory that changes once it was read ---- */

#ifdef __x86_64__
static volatile struct pollfd *watched; /* where the outside writes them */

static void change_events(void)
{
	watched[0].revents = POLLPRI;
	watched[1].revents = POLLPRI;
}

static void watch(struct outside *o, const struct sgpu_ring_descriptor *d)
{
	watched = (volatile struct pollfd *)(o->area + d->offset);
	read_once_begin(o->rpc->data, SGPU_RPC_AREA_SIZE, 2, change_events);
}

UNIT_TEST(events_are_read_once)
{
	struct outside o = { .value = 1, .revents = { POLLIN, 0 }, .watch = watch };
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .fd = 1, .events = POLLIN } };
	size_t done;

#if defined(__SANITIZE_THREAD__)
	SKIP("the thread sanitizer does not see that protection orders memory");
#endif
	REQUIRE(open_outside(&o));
	CHECK(sgpu_rpc_poll(o.rpc, fds, 2, -1, &done, &error) == SGPU_OK && done == 1);
	CHECK(read_once_end() == 0 && fds[0].revents == POLLIN && !fds[1].revents);
	close_outside(&o);
}
#endif

/* ---- an outside that goes away ---- */

UNIT_TEST(a_thread_outside_that_dies_ends_the_calls)
{
	struct outside o = { .leaves_at = 1000 };
	int rc = SGPU_OK;

	REQUIRE(open_outside(&o));
	while (rc == SGPU_OK) {
		rc = empty(o.rpc);
	}
	CHECK(rc == SGPU_ESYSTEM && strstr(error.text, "has gone"));
	CHECK(sgpu_rpc_count(o.rpc) == 1000 && empty(o.rpc) == SGPU_ESYSTEM);
	close_outside(&o);
}

/* ---- completions that nobody is owed ---- */

UNIT_TEST(a_foreign_or_second_completion_ends_the_queue)
{
	for (uint64_t cookie = 0; cookie < 3; cookie++) {
		struct outside o = { .leaves_at = 2 }; /* and so does not write there itself */
		struct sgpu_ring_memory raw;

		REQUIRE(open_outside(&o));
		REQUIRE(sgpu_ring_map(o.rpc->ring, &raw, &error) == SGPU_OK);
		CHECK(empty(o.rpc) == SGPU_OK);
		/* At position 1: nothing's, a foreign one's, and that of the call that has been. */
		atomic_store(&raw.completions.entries[4],
			     cookie < 2 ? cookie * 0x700000003
					: atomic_load(&raw.completions.entries[0]));
		atomic_store(&raw.completions.entries[7], (uint64_t)1 << 32);
		CHECK(empty(o.rpc) == SGPU_EINVALID);
		check_ended(&o, "which is not open");
		sgpu_ring_unmap(&raw);
		close_outside(&o);
	}
}

/* ---- an inside that asks for what may not be ---- */

struct inside {
	struct sgpu_rpc *rpc;
	struct sgpu_ring *client;
};

/* The threads outside are real, and the client of the ring is the test's. */
static bool open_inside(struct inside *in)
{
	struct sgpu_ring_config client = { 0 };
	bool good = sgpu_rpc_open_inside(SGPU_RPC_QUEUE, 0, &in->rpc, &error) == SGPU_OK;

	if (good) {
		client.doorbell = in->rpc->inside;
		good = sgpu_ring_open(in->rpc->ring, &client, &in->client, &error) == SGPU_OK &&
		       sgpu_rpc_serve(in->rpc, &error) == SGPU_OK;
	}
	CHECK(good);
	return good;
}

static void close_inside(struct inside *in)
{
	sgpu_ring_close(&in->client);
	sgpu_rpc_close(&in->rpc);
}

static struct sgpu_ring_result ask(struct inside *in, const struct sgpu_ring_descriptor *descriptor)
{
	struct sgpu_ring_result result = { .status = SGPU_EDIFFERS };
	size_t count = 0;

	CHECK(sgpu_ring_submit(in->client, descriptor, &error) == SGPU_OK);
	while (!count && sgpu_ring_await(in->client, 0, &error) == SGPU_OK &&
	       sgpu_ring_reap(in->client, &result, 1, &count, &error) == SGPU_OK) {
	}
	return result;
}

UNIT_TEST(data_outside_of_the_area_are_refused)
{
	static const struct sgpu_ring_descriptor bad[] = {
		{ .opcode = SGPU_RPC_RECV, .length = LAST + 1 },
		{ .opcode = SGPU_RPC_RECV, .offset = LAST - 7, .length = 8 },
		{ .opcode = SGPU_RPC_RECV, .offset = UINT64_MAX - 8, .length = 8 },
		{ .opcode = SGPU_RPC_POLL, .offset = LAST, .length = 8 },
		{ .opcode = SGPU_RPC_POLL, .offset = 1, .length = 8 },
		{ .opcode = SGPU_RPC_SEND, .handle = UINT32_MAX, .length = 8 },
		{ .opcode = SGPU_RPC_SEND, .handle = UINT64_MAX, .length = 8 },
	};
	const struct sgpu_ring_descriptor good = { .opcode = SGPU_RPC_EMPTY };
	struct inside in = { 0 };

	REQUIRE(open_inside(&in));
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(ask(&in, &bad[i]).status == SGPU_EUSAGE);
	}
	CHECK(ask(&in, &good).status == SGPU_OK);
	close_inside(&in);
}

UNIT_TEST(a_descriptor_that_may_not_be_ends_the_threads_outside)
{
	const struct sgpu_ring_descriptor bad = { .opcode = SGPU_RPC_OPERATIONS };
	struct inside in = { 0 };

	REQUIRE(open_inside(&in));
	CHECK(ask(&in, &bad).status == SGPU_EDIFFERS);
	CHECK(strstr(error.text, "has gone"));
	close_inside(&in);
}

int main(void)
{
	UNIT_RUN(a_length_that_was_not_asked_for_ends_the_queue_and_copies_nothing);
	UNIT_RUN(a_shorter_length_is_one_and_no_more_is_copied);
	UNIT_RUN(an_error_of_one_of_several_takes_no_result_from_the_others);
	UNIT_RUN(a_status_that_no_call_has_ends_the_queue);
	UNIT_RUN(events_that_were_not_asked_for_end_the_queue);
	UNIT_RUN(events_that_change_while_they_are_taken_are_looked_at_once);
#ifdef __x86_64__
	UNIT_RUN(events_are_read_once);
#endif
	UNIT_RUN(a_thread_outside_that_dies_ends_the_calls);
	UNIT_RUN(a_foreign_or_second_completion_ends_the_queue);
	UNIT_RUN(data_outside_of_the_area_are_refused);
	UNIT_RUN(a_descriptor_that_may_not_be_ends_the_threads_outside);
	return unit_done();
}
