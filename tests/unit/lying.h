/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of sgpu-serve's two sides share: messages as a liar sends them, and
 * descriptors that nobody should wait for. It speaks the messages of wire.h and knows nothing of
 * who receives them.
 */
#ifndef LYING_H
#define LYING_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../tools/runner/wire.h"
#include "world_random.h"

enum { MESSAGE_MAX = 1 << 14, SENT_FDS_MAX = 4, LYING_SEED = 2026 };

static inline uint32_t drawn(struct world_random *random, uint32_t bound)
{
	return world_below(random, bound);
}

/* The one of the environment, or a new one in each run, which is told, so that a failure can be had
 * again. */
static inline uint64_t fresh_seed(void)
{
	const char *text = getenv("SGPU_TEST_SEED");
	const uint64_t seed = text ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);

	printf("# SGPU_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline size_t message_size(enum wire_kind kind)
{
	static const size_t sizes[WIRE_KINDS] = {
		[WIRE_SUBMIT] = sizeof(struct wire_submit),
		[WIRE_ANSWER] = sizeof(struct wire_answer),
		[WIRE_PROGRESS_IS] = sizeof(struct wire_progress),
		[WIRE_READY] = sizeof(struct wire_ready),
		[WIRE_TAKE] = sizeof(struct wire_take),
		[WIRE_QUOTE] = sizeof(struct wire_quote),
		[WIRE_LEASE] = sizeof(struct wire_lease),
		[WIRE_LEASE_IS] = sizeof(struct wire_lease_is),
		[WIRE_LIMITS] = sizeof(struct wire_limits),
		[WIRE_BEGIN] = sizeof(struct wire_begin),
	};

	return sizes[kind] ? sizes[kind] : sizeof(struct sgpu_greeting);
}

/* Sent as it is, and not if that would block. */
static inline void send_bytes(int socket, const void *bytes, size_t size, const int *fds, int count)
{
	struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	union {
		struct cmsghdr header;
		char data[CMSG_SPACE(SENT_FDS_MAX * sizeof(int))];
	} control = { .data = { 0 } };

	if (count > 0) {
		packet.msg_control = control.data;
		packet.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		control.header =
			(struct cmsghdr){ .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS,
					  .cmsg_len = CMSG_LEN((size_t)count * sizeof(int)) };
		memcpy(CMSG_DATA(&control.header), fds, (size_t)count * sizeof(int));
	}
	(void)!sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

enum odd {
	ODD_PATH,
	ODD_FIFO,
	ODD_UNSEALED,
	ODD_DIRECTORY,
	ODD_SOCKET,
	ODD_DEVICE,
	ODD_PROC,
	ODD_WRITE_ONLY,
	ODD_EPOLL,
	ODD_PIPE,
	ODDS
};

/* None of them is a batch; most may not be read or written at all. */
static inline int odd_descriptor(enum odd odd)
{
	int ends[2] = { -1, -1 }, fd;
	char name[32];

	switch (odd) {
	case ODD_PATH:
		return open("/proc/self/exe", O_PATH | O_CLOEXEC);
	case ODD_FIFO:
		snprintf(name, sizeof(name), "/tmp/fifo.%d", (int)getpid());
		fd = mkfifo(name, 0600) == 0 ? open(name, O_RDWR | O_CLOEXEC) : -1;
		unlink(name);
		return fd;
	case ODD_UNSEALED:
		return memfd_create("odd", MFD_CLOEXEC);
	case ODD_DIRECTORY:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case ODD_SOCKET:
		(void)!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
		break;
	case ODD_DEVICE:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case ODD_PROC:
		return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	case ODD_WRITE_ONLY:
		return open("/dev/null", O_WRONLY | O_CLOEXEC);
	case ODD_EPOLL:
		return epoll_create1(EPOLL_CLOEXEC);
	default:
		(void)!pipe2(ends, O_CLOEXEC);
	}
	close(ends[1]);
	return ends[0];
}

/* A message of `kind`, mostly: as it should be but for what it says, cut, too long, of another
 * version, of no kind, no message at all, or twice; with descriptors that nobody asked for. */
static inline void lie(struct world_random *random, int socket, enum wire_kind kind)
{
	static uint8_t bytes[MESSAGE_MAX];
	struct sgpu_greeting header = { .magic = 0x53475055,
					.version = SGPU_GREETING_VERSION,
					.kind = (uint16_t)kind };
	size_t size = message_size(kind);
	const int count = drawn(random, 2) ? 0 : (int)drawn(random, SENT_FDS_MAX + 1);
	const uint32_t way = drawn(random, 12), twice = drawn(random, 4);
	int fds[SENT_FDS_MAX];

	for (size_t i = 0; i < size; i++) {
		bytes[i] = drawn(random, 3) ? (uint8_t)drawn(random, 256) : 0;
	}
	size = way == 0	  ? drawn(random, (uint32_t)size + 1)
	       : way == 1 ? size + 1 + drawn(random, 64)
			  : size;
	header.version = (uint16_t)(header.version + (way == 2));
	header.kind = way == 3 ? (uint16_t)(WIRE_KINDS + drawn(random, 100)) : header.kind;
	header.zero = way == 4;
	header.size = (uint32_t)size + (way == 5);
	if (way != 6 && size >= sizeof(header)) {
		memcpy(bytes, &header, sizeof(header));
	}
	for (int i = 0; i < count; i++) {
		fds[i] = odd_descriptor(drawn(random, ODDS));
	}
	send_bytes(socket, bytes, size, fds, count);
	if (twice == 0) {
		send_bytes(socket, bytes, size, fds, count);
	}
	for (int i = 0; i < count; i++) {
		close(fds[i]);
	}
}

/* Descriptors that are open: what was left open makes it more. */
static inline unsigned count_open(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	while (directory && readdir(directory)) {
		count++;
	}
	if (directory) {
		closedir(directory);
	}
	return count;
}

#endif
