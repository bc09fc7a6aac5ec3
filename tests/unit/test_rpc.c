/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls by each of the three ways, with an honest outside.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "ring/inside.h"
#include "unit.h"

enum { WAYS = 3, SIZE = 1024, THREADS = 8, CALLS = 200 };

static _Thread_local struct sgpu_error error;
static struct sgpu_rpc *rpc;
static size_t done;

static bool open_rpc(const struct sgpu_rpc_config *config)
{
	int rc;

	memset(&error, 0, sizeof(error));
	rc = sgpu_rpc_open(config, &rpc, &error);
	CHECK(rc == SGPU_OK);
	return rc == SGPU_OK;
}

/* The ways that this machine has. */
static bool open_way(int way)
{
	return (way != SGPU_RPC_EXIT || sgpu_rpc_has_cycles()) &&
	       open_rpc(&(struct sgpu_rpc_config){
		       .way = (enum sgpu_rpc_way)way, .exit_cycles = 1000, .bytes = SIZE });
}

UNIT_TEST(each_way_writes_and_reads_files)
{
	char out[3 * SIZE], in[3 * SIZE];
	int fd;

	memset(out, 'x', sizeof(out));
	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		fd = memfd_create("test", MFD_CLOEXEC);
		REQUIRE(fd >= 0);
		CHECK(sgpu_rpc_pwrite(rpc, fd, "sealed", 6, 100, &done, &error) == SGPU_OK);
		CHECK(done == 6 && lseek(fd, 0, SEEK_END) == 106);
		memset(in, 0, sizeof(in));
		CHECK(sgpu_rpc_pread(rpc, fd, in, sizeof(in), 98, &done, &error) == SGPU_OK);
		CHECK(done == 8 && memcmp(in, "\0\0sealed\0", 9) == 0);
		CHECK(sgpu_rpc_pread(rpc, fd, in, 1, 106, &done, &error) == SGPU_OK && done == 0);
		/* At most what one call may move, the same in every way. */
		CHECK(sgpu_rpc_pwrite(rpc, fd, out, sizeof(out), 0, &done, &error) == SGPU_OK);
		CHECK(done == SIZE);
		CHECK(sgpu_rpc_pread(rpc, fd, in, sizeof(in), 0, &done, &error) == SGPU_OK);
		CHECK(done == SIZE && memcmp(in, out, SIZE) == 0);
		CHECK(sgpu_rpc_count(rpc) == 5);
		close(fd);
		sgpu_rpc_close(&rpc);
	}
}

UNIT_TEST(each_way_tells_the_errors_of_the_system)
{
	int ends[2];
	char byte;

	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		CHECK(sgpu_rpc_pread(rpc, ends[0], &byte, 1, 0, &done, &error) == SGPU_ESYSTEM);
		CHECK(strstr(error.text, strerror(ESPIPE)) && done == 0);
		CHECK(sgpu_rpc_pread(rpc, -1, &byte, 1, 0, &done, &error) == SGPU_EUSAGE);
		/* A call that would wait. */
		CHECK(sgpu_rpc_recv(rpc, ends[0], &byte, 1, &done, &error) == SGPU_ERETRY);
		close(ends[1]);
		CHECK(sgpu_rpc_recv(rpc, ends[0], &byte, 1, &done, &error) == SGPU_OK && !done);
		/* Without a signal. */
		CHECK(sgpu_rpc_send(rpc, ends[0], &byte, 1, &done, &error) == SGPU_ESYSTEM);
		CHECK(strstr(error.text, strerror(EPIPE)));
		close(ends[0]);
		CHECK(sgpu_rpc_empty(rpc, &error) == SGPU_OK);
		sgpu_rpc_close(&rpc);
	}
}

UNIT_TEST(each_way_sends_polls_and_receives)
{
	struct pollfd fds[3];
	struct pollfd many[SGPU_RPC_POLL_MAX + 1] = { 0 };
	int ends[2];
	char in[8];

	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		fds[0] = (struct pollfd){ .fd = ends[0], .events = POLLIN, .revents = POLLOUT };
		fds[1] = (struct pollfd){ .fd = ends[0], .events = POLLIN | POLLOUT };
		fds[2] = (struct pollfd){ .fd = -1, .events = POLLIN, .revents = POLLIN };
		CHECK(sgpu_rpc_poll(rpc, fds, 1, 0, &done, &error) == SGPU_OK && done == 0);
		CHECK(fds[0].revents == 0);
		CHECK(sgpu_rpc_poll(rpc, fds, 3, -1, &done, &error) == SGPU_OK && done == 1);
		CHECK(!fds[0].revents && fds[1].revents == POLLOUT && !fds[2].revents);
		CHECK(sgpu_rpc_send(rpc, ends[1], "hello", 5, &done, &error) == SGPU_OK);
		CHECK(done == 5);
		CHECK(sgpu_rpc_poll(rpc, fds, 3, -1, &done, &error) == SGPU_OK && done == 2);
		CHECK(fds[0].revents == POLLIN && fds[1].revents == (POLLIN | POLLOUT));
		CHECK(sgpu_rpc_recv(rpc, ends[0], in, 8, &done, &error) == SGPU_OK && done == 5);
		CHECK(memcmp(in, "hello", 5) == 0);
		CHECK(sgpu_rpc_poll(rpc, NULL, 0, 1, &done, &error) == SGPU_OK && done == 0);
		CHECK(sgpu_rpc_poll(rpc, many, SGPU_RPC_POLL_MAX + 1, 0, &done, &error) ==
		      SGPU_EUSAGE);
		close(ends[0]);
		close(ends[1]);
		sgpu_rpc_close(&rpc);
	}
}

/* More than there are places for at once, and more than go through the ring at once. */
UNIT_TEST(each_way_makes_several_calls_in_order)
{
	enum { COUNT = 100 };
	struct sgpu_rpc_io ios[COUNT];
	unsigned char bytes[COUNT];
	int ends[2], closed[2];

	for (int way = 0; way < WAYS; way++) {
		const struct sgpu_rpc_config config = { .way = (enum sgpu_rpc_way)way,
							.bytes = 64,
							.calls = way == SGPU_RPC_QUEUE ? 8 : 0 };

		if ((way == SGPU_RPC_EXIT && !sgpu_rpc_has_cycles()) || !open_rpc(&config)) {
			continue;
		}
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, closed) == 0);
		close(closed[1]);
		for (int i = 0; i < COUNT; i++) {
			bytes[i] = (unsigned char)i;
			ios[i] =
				(struct sgpu_rpc_io){ .fd = ends[0], .data = &bytes[i], .size = 1 };
		}
		CHECK(sgpu_rpc_send_all(rpc, ios, COUNT, &error) == SGPU_OK);
		CHECK(sgpu_rpc_count(rpc) == COUNT);
		memset(bytes, 0xff, sizeof(bytes));
		for (int i = 0; i < COUNT; i++) {
			CHECK(ios[i].code == SGPU_OK && ios[i].done == 1);
			ios[i].fd = ends[1];
		}
		CHECK(sgpu_rpc_recv_all(rpc, ios, COUNT, &error) == SGPU_OK);
		for (int i = 0; i < COUNT; i++) {
			CHECK(ios[i].code == SGPU_OK && ios[i].done == 1 && bytes[i] == i);
		}
		/* Each has its own end. */
		ios[1].fd = closed[0];
		CHECK(sgpu_rpc_send_all(rpc, ios, 3, &error) == SGPU_OK);
		CHECK(!ios[0].code && ios[1].code == SGPU_ESYSTEM && !ios[1].done && !ios[2].code);
		CHECK(strstr(error.text, strerror(EPIPE)));
		ios[0].fd = ios[2].fd = ends[0];
		CHECK(sgpu_rpc_recv_all(rpc, ios, 3, &error) == SGPU_OK);
		CHECK(ios[0].done == 1 && !ios[1].code && !ios[1].done && ios[2].done == 1);
		CHECK(sgpu_rpc_recv_all(rpc, ios, 3, &error) == SGPU_OK);
		CHECK(ios[0].code == SGPU_ERETRY && ios[2].code == SGPU_ERETRY);
		CHECK(sgpu_rpc_recv_all(rpc, ios, 0, &error) == SGPU_OK);
		ios[2].fd = -1;
		CHECK(sgpu_rpc_recv_all(rpc, ios, 3, &error) == SGPU_EUSAGE);
		sgpu_rpc_stop(rpc);
		CHECK(sgpu_rpc_recv_all(rpc, ios, 2, &error) == SGPU_ECANCELED);
		CHECK(ios[0].code != SGPU_OK);
		close(ends[0]);
		close(ends[1]);
		close(closed[0]);
		sgpu_rpc_close(&rpc);
	}
}

/* ---- stopping ---- */

static void *poll_for_ever(void *code)
{
	size_t ready;

	*(int *)code = sgpu_rpc_poll(rpc, NULL, 0, -1, &ready, &error);
	return NULL;
}

UNIT_TEST(a_stop_ends_what_waits_and_what_comes_later)
{
	pthread_t thread;
	int code;
	char byte;

	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		code = SGPU_OK;
		REQUIRE(pthread_create(&thread, NULL, poll_for_ever, &code) == 0);
		while (sgpu_rpc_count(rpc) == 0) {
			usleep(1000);
		}
		sgpu_rpc_stop(rpc);
		CHECK(pthread_join(thread, NULL) == 0 && code == SGPU_ECANCELED);
		CHECK(sgpu_rpc_recv(rpc, 0, &byte, 1, &done, &error) == SGPU_ECANCELED);
		CHECK(strstr(error.text, "stopped"));
		sgpu_rpc_close(&rpc);
	}
}

/* ---- many threads ---- */

static int shared_file;

static void *add_often(void *argument)
{
	const uint64_t offset = (uintptr_t)argument * sizeof(uint64_t);
	uint64_t number;
	size_t moved;

	for (int i = 0; i < CALLS; i++) {
		if (sgpu_rpc_pread(rpc, shared_file, &number, 8, offset, &moved, &error) ||
		    moved != 8) {
			return &shared_file;
		}
		number++;
		if (sgpu_rpc_pwrite(rpc, shared_file, &number, 8, offset, &moved, &error) ||
		    moved != 8) {
			return &shared_file;
		}
	}
	return NULL;
}

/* The queue has two places: most threads wait for one. */
UNIT_TEST(more_threads_than_places_wait_for_their_turn)
{
	const struct sgpu_rpc_config config = { .way = SGPU_RPC_QUEUE, .calls = 2, .bytes = 64 };
	const uint64_t zeros[THREADS] = { 0 };
	uint64_t sums[THREADS];
	pthread_t threads[THREADS];
	void *bad;

	REQUIRE(open_rpc(&config));
	shared_file = memfd_create("test", MFD_CLOEXEC);
	REQUIRE(pwrite(shared_file, zeros, sizeof(zeros), 0) == sizeof(zeros));
	for (uintptr_t i = 0; i < THREADS; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, add_often, (void *)i) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		CHECK(pthread_join(threads[i], &bad) == 0 && !bad);
	}
	REQUIRE(pread(shared_file, sums, sizeof(sums), 0) == sizeof(sums));
	for (int i = 0; i < THREADS; i++) {
		CHECK(sums[i] == CALLS);
	}
	CHECK(sgpu_rpc_count(rpc) == (uint64_t)2 * THREADS * CALLS);
	close(shared_file);
	sgpu_rpc_close(&rpc);
}

UNIT_TEST(a_poll_that_waits_holds_up_nobody_if_another_thread_is_outside)
{
	const struct sgpu_rpc_config config = { .way = SGPU_RPC_QUEUE, .threads = 2 };
	pthread_t thread;
	int code = SGPU_OK;

	REQUIRE(open_rpc(&config));
	REQUIRE(pthread_create(&thread, NULL, poll_for_ever, &code) == 0);
	while (sgpu_rpc_count(rpc) == 0) {
		usleep(1000);
	}
	for (int i = 0; i < CALLS; i++) {
		CHECK(sgpu_rpc_empty(rpc, &error) == SGPU_OK);
	}
	sgpu_rpc_stop(rpc);
	CHECK(pthread_join(thread, NULL) == 0 && code == SGPU_ECANCELED);
	sgpu_rpc_close(&rpc);
}

/* ---- costs ---- */

UNIT_TEST(an_emulated_exit_takes_the_cycles_that_were_asked_for)
{
	struct sgpu_rpc_config config = { .way = SGPU_RPC_EXIT };
	struct sgpu_rpc_costs costs;
	uint64_t begin, ns;

	if (!sgpu_rpc_has_cycles()) {
		SKIP("no time-stamp counter");
	}
	REQUIRE(sgpu_rpc_measure(&costs, &error) == SGPU_OK);
	CHECK(costs.cycles_per_second > 100000000);
	config.exit_cycles = costs.cycles_per_second / 50; /* 20 ms */
	REQUIRE(open_rpc(&config));
	begin = sgpu_now_ns();
	CHECK(sgpu_rpc_empty(rpc, &error) == SGPU_OK);
	ns = sgpu_now_ns() - begin;
	CHECK(ns >= 19000000); /* the two clocks agree within a few parts in a thousand */
	sgpu_rpc_close(&rpc);
}

UNIT_TEST(what_cannot_be_is_refused)
{
	const struct sgpu_rpc_config bad[] = {
		{ .way = (enum sgpu_rpc_way)3 },
		{ .threads = SGPU_RPC_THREADS_MAX + 1 },
		{ .calls = 1 },
		{ .calls = 3 },
		{ .calls = 2 * SGPU_RPC_CALLS_MAX },
		{ .bytes = 65 },
		{ .bytes = 2 * SGPU_RPC_BYTES_MAX },
	};

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(bad); i++) {
		CHECK(sgpu_rpc_open(&bad[i], &rpc, &error) == SGPU_EUSAGE && !rpc);
	}
	sgpu_rpc_close(&rpc);
}

int main(void)
{
	UNIT_RUN(each_way_writes_and_reads_files);
	UNIT_RUN(each_way_tells_the_errors_of_the_system);
	UNIT_RUN(each_way_sends_polls_and_receives);
	UNIT_RUN(each_way_makes_several_calls_in_order);
	UNIT_RUN(a_stop_ends_what_waits_and_what_comes_later);
	UNIT_RUN(more_threads_than_places_wait_for_their_turn);
	UNIT_RUN(a_poll_that_waits_holds_up_nobody_if_another_thread_is_outside);
	UNIT_RUN(an_emulated_exit_takes_the_cycles_that_were_asked_for);
	UNIT_RUN(what_cannot_be_is_refused);
	return unit_done();
}
