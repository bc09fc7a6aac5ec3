/* SPDX-License-Identifier: Apache-2.0
 *
 * How the supervisor of sgpu-serve closes connections.
 */
#include "../../tools/sgpu-serve/closing.c"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
		closing_take(ends[0]);
		peers[i] = ends[1];
	}
	CHECK(closing_room() == CLOSING_ROOM - PEERS && closing_due_ns() != 0);
	closing_do(true);
	CHECK(closing_room() == CLOSING_ROOM && closing_due_ns() == 0);
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
	closing_take(ends[0]);
	due_ns = UINT64_MAX;
	closing_do(false);
	CHECK(closing_room() == CLOSING_ROOM - 1);
	due_ns = 1;
	closing_do(false);
	CHECK(closing_room() == CLOSING_ROOM);
	CHECK(is_closed(ends[1]));
	close(ends[1]);
}

static void send_descriptor(int socket, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec part = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	*header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				    .cmsg_type = SCM_RIGHTS,
				    .cmsg_len = CMSG_LEN(sizeof(fd)) };
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	CHECK(sendmsg(socket, &message, 0) == 1);
}

static void what_cannot_be_closed_at_once_keeps_nothing_waiting(void)
{
	int blocked[2] = { -1, -1 }, other[2] = { -1, -1 }, peer = -1;
	const int lingering = make_lingering(&peer);

	CHECK(make_connection(blocked) == 0 && make_connection(other) == 0);
	send_descriptor(blocked[1], lingering); /* a message that nobody receives */
	close(lingering);
	closing_take(blocked[0]);
	closing_take(other[0]);
	taken[count].fd = 0; /* a descriptor of earlier, which is none of these */
	closing_do(true);
	CHECK(closing_room() == CLOSING_ROOM);
	CHECK(is_closed(other[1]) && is_closed(blocked[1]));
	close(other[1]);
	close(blocked[1]);
	close(peer);
}

int main(void)
{
	UNIT_RUN(all_are_closed_and_nothing_stays_open);
	UNIT_RUN(few_wait_for_others_until_they_are_due);
	UNIT_RUN(what_cannot_be_closed_at_once_keeps_nothing_waiting);
	return unit_done();
}
