/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that close connections for the supervisor of sgpu-run serve.
 */
#include "../../tools/sgpu-run/undertaker.c"

#include <netinet/in.h>
#include <stdio.h>

#include "unit.h"

enum { PEERS = 300, LINGER_S = 1000000 };

static int make_connection(int ends[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

/* Waits until the other end is closed by everybody. */
static bool is_closed(int peer)
{
	char byte;

	return recv(peer, &byte, 1, 0) <= 0;
}

static unsigned count_descriptors(void)
{
	unsigned open = 0;

	for (int fd = 0; fd < 4096; fd++) {
		open += poll(&(struct pollfd){ .fd = fd }, 1, 0) == 0;
	}
	return open;
}

/* A socket whose closing blocks: its peer does not take what was sent. */
static int make_lingering(int *peer)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct linger linger = { 1, LINGER_S };
	socklen_t size = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char full[65536];

	CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	CHECK(connect(fd, (struct sockaddr *)&address, size) == 0);
	*peer = accept(listener, NULL, NULL);
	CHECK(*peer >= 0 && setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	while (send(fd, full, sizeof(full), MSG_DONTWAIT) > 0) {
	}
	close(listener);
	return fd;
}

static void all_are_closed_and_nothing_stays_open(void)
{
	static int peers[PEERS];
	const unsigned before = count_descriptors();

	for (int i = 0; i < PEERS; i++) {
		int ends[2] = { -1, -1 };

		CHECK(make_connection(ends) == 0);
		undertaker_take(ends[0]);
		peers[i] = ends[1];
	}
	CHECK(undertaker_room() == UNDERTAKER_ROOM - PEERS && undertaker_due_ns() != 0);
	CHECK(undertaker_bury(true));
	CHECK(undertaker_room() == UNDERTAKER_ROOM && undertaker_due_ns() == 0);
	for (int i = 0; i < PEERS; i++) {
		CHECK(is_closed(peers[i]));
		close(peers[i]);
	}
	CHECK(count_descriptors() == before);
}

static void few_wait_for_others_until_they_are_due(void)
{
	int ends[2] = { -1, -1 };

	CHECK(make_connection(ends) == 0);
	undertaker_take(ends[0]);
	due_ns = UINT64_MAX;
	CHECK(undertaker_bury(false) && undertaker_room() == UNDERTAKER_ROOM - 1);
	due_ns = 1;
	CHECK(undertaker_bury(false) && undertaker_room() == UNDERTAKER_ROOM);
	CHECK(is_closed(ends[1]));
	close(ends[1]);
}

static void what_cannot_be_closed_at_once_keeps_nothing_waiting(void)
{
	int blocked[2] = { -1, -1 }, other[2] = { -1, -1 }, peer = -1;
	const int lingering = make_lingering(&peer), own = line;

	CHECK(make_connection(blocked) == 0 && make_connection(other) == 0);
	line = blocked[1]; /* as if it were the line: a message with a descriptor, which nobody
			      receives */
	CHECK(send_line(&lingering, 1));
	line = own;
	close(lingering);
	undertaker_take(blocked[0]);
	undertaker_take(other[0]);
	CHECK(undertaker_bury(true));
	CHECK(is_closed(other[1]) && is_closed(blocked[1]));
	close(other[1]);
	close(blocked[1]);
	close(peer);
}

static void one_that_was_killed_is_replaced(void)
{
	char path[64];
	FILE *children;
	int ends[2] = { -1, -1 }, pid = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	children = fopen(path, "re");
	CHECK(children && fscanf(children, "%d", &pid) == 1 && pid > 0);
	fclose(children);
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(poll(&(struct pollfd){ .fd = line, .events = POLLIN }, 1, -1) == 1); /* it is dead */
	CHECK(make_connection(ends) == 0);
	undertaker_take(ends[0]);
	while (!undertaker_bury(true)) {
	}
	CHECK(undertaker_room() == UNDERTAKER_ROOM);
	CHECK(is_closed(ends[1]));
	close(ends[1]);
}

int main(void)
{
	CHECK(undertaker_start());
	UNIT_RUN(all_are_closed_and_nothing_stays_open);
	UNIT_RUN(few_wait_for_others_until_they_are_due);
	UNIT_RUN(what_cannot_be_closed_at_once_keeps_nothing_waiting);
	UNIT_RUN(one_that_was_killed_is_replaced);
	return unit_done();
}
