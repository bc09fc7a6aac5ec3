/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls by each of the three ways, with an honest outside.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sgpu/base.h>
#include "bench/bench.h"

#include <sgpu/ring.h>
#include "unit.h"

enum { WAYS = 3 };

static struct sgpu_error error;
static struct sgpu_rpc *rpc;
static size_t done;

#if defined(__x86_64__)
static const bool has_cycles = true;
#else
static const bool has_cycles = false;
#endif

/* The ways that this machine has. */
static bool open_way(int way)
{
	memset(&error, 0, sizeof(error));
	return (way != SGPU_RPC_EXIT || has_cycles) &&
	       sgpu_rpc_open((enum sgpu_rpc_way)way, 1000, &rpc, &error) == SGPU_OK;
}

/* One call of several that are made together. */
static int one(enum sgpu_rpc_operation operation, int fd, void *data, size_t size)
{
	struct sgpu_rpc_io io = { .fd = fd, .data = data, .size = size };
	const int rc = sgpu_rpc_call_all(rpc, operation, &io, 1, &error);

	done = io.done;
	return rc < 0 ? rc : io.code;
}

UNIT_TEST(a_way_that_is_closed_leaves_no_descriptor)
{
	for (int way = 0; way < WAYS; way++) {
		const int next = dup(STDIN_FILENO); /* the lowest that is free */

		close(next);
		if (!open_way(way)) {
			continue;
		}
		sgpu_rpc_close(&rpc);
		CHECK(dup(STDIN_FILENO) == next);
		close(next);
	}
}

/* At most what one call may move, the same in every way. */
UNIT_TEST(each_way_moves_as_much_at_once)
{
	static char out[2 * SGPU_RPC_BYTES_MAX], in[2 * SGPU_RPC_BYTES_MAX];
	const int room = 8 * SGPU_RPC_BYTES_MAX;
	int ends[2];

	memset(out, 'x', sizeof(out));
	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		REQUIRE(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
		memset(in, 0, sizeof(in));
		CHECK(one(SGPU_RPC_SEND, ends[1], out, sizeof(out)) == SGPU_OK);
		CHECK(done == SGPU_RPC_BYTES_MAX);
		CHECK(one(SGPU_RPC_RECV, ends[0], in, sizeof(in)) == SGPU_OK);
		CHECK(done == SGPU_RPC_BYTES_MAX && memcmp(in, out, done) == 0 && !in[done]);
		CHECK(sgpu_rpc_count(rpc) == 2);
		close(ends[0]);
		close(ends[1]);
		sgpu_rpc_close(&rpc);
	}
}

UNIT_TEST(each_way_tells_the_errors_of_the_system)
{
	int ends[2], file;
	char byte;

	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
			continue;
		}
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
		file = memfd_create("test", MFD_CLOEXEC);
		CHECK(one(SGPU_RPC_RECV, file, &byte, 1) == SGPU_ESYSTEM);
		CHECK(strstr(error.text, strerror(ENOTSOCK)) && done == 0);
		close(file);
		CHECK(one(SGPU_RPC_RECV, -1, &byte, 1) == SGPU_EUSAGE);
		/* A call that would wait. */
		CHECK(one(SGPU_RPC_RECV, ends[0], &byte, 1) == SGPU_ERETRY);
		close(ends[1]);
		CHECK(one(SGPU_RPC_RECV, ends[0], &byte, 1) == SGPU_OK && !done);
		/* Without a signal. */
		CHECK(one(SGPU_RPC_SEND, ends[0], &byte, 1) == SGPU_ESYSTEM);
		CHECK(strstr(error.text, strerror(EPIPE)));
		close(ends[0]);
		CHECK(one(SGPU_RPC_EMPTY, 0, NULL, 0) == SGPU_OK);
		sgpu_rpc_close(&rpc);
	}
}

UNIT_TEST(each_way_sends_polls_and_receives)
{
	struct pollfd fds[3];
	struct pollfd many[SGPU_RPC_POLL_MAX + 1] = { 0 };
	char in[8], hello[] = "hello";
	int ends[2];

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
		CHECK(one(SGPU_RPC_SEND, ends[1], hello, 5) == SGPU_OK);
		CHECK(done == 5);
		CHECK(sgpu_rpc_poll(rpc, fds, 3, -1, &done, &error) == SGPU_OK && done == 2);
		CHECK(fds[0].revents == POLLIN && fds[1].revents == (POLLIN | POLLOUT));
		CHECK(one(SGPU_RPC_RECV, ends[0], in, 8) == SGPU_OK && done == 5);
		CHECK(memcmp(in, "hello", 5) == 0);
		CHECK(sgpu_rpc_poll(rpc, NULL, 0, 1, &done, &error) == SGPU_OK && done == 0);
		CHECK(sgpu_rpc_poll(rpc, many, SGPU_RPC_POLL_MAX + 1, 0, &done, &error) ==
		      SGPU_EUSAGE);
		close(ends[0]);
		close(ends[1]);
		sgpu_rpc_close(&rpc);
	}
}

/* More than there are places for at once. */
UNIT_TEST(each_way_makes_several_calls_in_order)
{
	enum { COUNT = 100 };
	struct sgpu_rpc_io ios[COUNT];
	unsigned char bytes[COUNT];
	int ends[2], closed[2];

	for (int way = 0; way < WAYS; way++) {
		if (!open_way(way)) {
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
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_SEND, ios, COUNT, &error) == SGPU_OK);
		CHECK(sgpu_rpc_count(rpc) == COUNT);
		memset(bytes, 0xff, sizeof(bytes));
		for (int i = 0; i < COUNT; i++) {
			CHECK(ios[i].code == SGPU_OK && ios[i].done == 1);
			ios[i].fd = ends[1];
		}
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_RECV, ios, COUNT, &error) == SGPU_OK);
		for (int i = 0; i < COUNT; i++) {
			CHECK(ios[i].code == SGPU_OK && ios[i].done == 1 && bytes[i] == i);
		}
		/* Each has its own end. */
		ios[1].fd = closed[0];
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_SEND, ios, 3, &error) == SGPU_OK);
		CHECK(!ios[0].code && ios[1].code == SGPU_ESYSTEM && !ios[1].done && !ios[2].code);
		CHECK(strstr(error.text, strerror(EPIPE)));
		ios[0].fd = ios[2].fd = ends[0];
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_RECV, ios, 3, &error) == SGPU_OK);
		CHECK(ios[0].done == 1 && !ios[1].code && !ios[1].done && ios[2].done == 1);
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_RECV, ios, 3, &error) == SGPU_OK);
		CHECK(ios[0].code == SGPU_ERETRY && ios[2].code == SGPU_ERETRY);
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_RECV, ios, 0, &error) == SGPU_OK);
		ios[2].fd = -1;
		CHECK(sgpu_rpc_call_all(rpc, SGPU_RPC_RECV, ios, 3, &error) == SGPU_EUSAGE);
		close(ends[0]);
		close(ends[1]);
		close(closed[0]);
		sgpu_rpc_close(&rpc);
	}
}

UNIT_TEST(an_emulated_exit_takes_the_cycles_that_were_asked_for)
{
	const struct sgpu_bench_exit costs = sgpu_bench_measure_exit();
	uint64_t begin, ns;

	CHECK(costs.cycles_per_second > 100000000);
	REQUIRE(sgpu_rpc_open(SGPU_RPC_EXIT, costs.cycles_per_second / 50 /* 20 ms */, &rpc,
			      &error) == SGPU_OK);
	begin = sgpu_now_ns();
	CHECK(one(SGPU_RPC_EMPTY, 0, NULL, 0) == SGPU_OK);
	ns = sgpu_now_ns() - begin;
	CHECK(ns >= 19000000); /* the two clocks agree within a few parts in a thousand */
	sgpu_rpc_close(&rpc);
}

int main(void)
{
	UNIT_RUN(a_way_that_is_closed_leaves_no_descriptor);
	UNIT_RUN(each_way_moves_as_much_at_once);
	UNIT_RUN(each_way_tells_the_errors_of_the_system);
	UNIT_RUN(each_way_sends_polls_and_receives);
	UNIT_RUN(each_way_makes_several_calls_in_order);
	UNIT_RUN(an_emulated_exit_takes_the_cycles_that_were_asked_for);
	return unit_done();
}
