/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of sgpu-serve as hostile peers send them, with descriptors: what is taken is what
 * was expected, what is not leaves no descriptor open, and an answer can be printed.
 *
 * Input: packets of a byte for the kind that is expected, one for the number of descriptors that
 * come and of those that are expected, two for the packet's size, and the packet. A kind of 255
 * says nothing of it: the packet is a whole message.
 */
#include "../../tools/runner/wire.c"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "shown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SENT_MAX = 32, HEAD = 4 };

static const size_t sizes[WIRE_KINDS] = {
	[WIRE_SUBMIT] = sizeof(struct wire_submit),
	[WIRE_ANSWER] = sizeof(struct wire_answer),
	[WIRE_PROGRESS_IS] = sizeof(struct wire_progress),
	[WIRE_TAKE] = sizeof(struct wire_take),
	[WIRE_QUOTE] = sizeof(struct wire_quote),
	[WIRE_LEASE] = sizeof(struct wire_lease),
	[WIRE_LEASE_IS] = sizeof(struct wire_lease_is),
	[WIRE_BEGIN] = sizeof(struct wire_begin),
};

static union {
	struct sgpu_greeting header;
	struct wire_submit submit;
	struct wire_answer answer;
	uint8_t bytes[1 << 16];
} received, sent;

static void expect(bool holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "%s\n", what);
		abort();
	}
}

/* The lowest number that is free: what was left open moves it. */
static int free_number(int any)
{
	const int fd = dup(any);

	close(fd);
	return fd;
}

static void send_raw(int socket, const void *bytes, size_t size, int any, int count)
{
	struct iovec part = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	union {
		struct cmsghdr header;
		char data[CMSG_SPACE(SENT_MAX * sizeof(int))];
	} control = { .data = { 0 } };

	if (count > 0) {
		packet.msg_control = control.data;
		packet.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		for (int i = 0; i < count; i++) {
			memcpy(CMSG_DATA(&control.header) + (size_t)i * sizeof(int), &any,
			       sizeof(any));
		}
	}
	(void)!sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static bool is_text(const char *text, size_t size)
{
	const char *end = memchr(text, '\0', size);

	return end && is_shown(text, (size_t)(end - text));
}

static void hear(int socket, enum wire_kind kind, int wanted, int came)
{
	const size_t size = sizes[kind] ? sizes[kind] : sizeof(struct sgpu_greeting);
	enum wire_kind seen = WIRE_KINDS;
	int fds[SENT_MAX], peeked, rc;

	peeked = wire_peek(socket, &seen, NULL);
	rc = wire_receive(socket, kind, received.bytes, size, fds, wanted, NULL);
	expect((peeked == SGPU_OK) == (seen != WIRE_KINDS), "a kind without a message");
	if (rc != SGPU_OK) {
		return;
	}
	expect(peeked == SGPU_OK && seen == kind && received.header.kind == kind &&
		       received.header.size == size && wanted == came,
	       "it is not what was expected");
	for (int i = 0; i < wanted; i++) {
		expect(fcntl(fds[i], F_GETFD) == FD_CLOEXEC,
		       "a descriptor that programs would inherit");
		close(fds[i]);
	}
	if (kind == WIRE_ANSWER) {
		wire_clean(&received.answer);
		expect(is_text(received.answer.error.text, sizeof(received.answer.error.text)) &&
			       is_text(received.answer.report.batch_id,
				       sizeof(received.answer.report.batch_id)) &&
			       received.answer.error.code <= 0,
		       "an answer that cannot be printed");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int any = -1;
	int ends[2], first;

	any = any < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : any;
	first = free_number(any);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		return 0;
	}
	while (size >= HEAD) {
		const int came = data[1] % SENT_MAX, wanted = data[1] / SENT_MAX;
		size_t length = data[2] | (size_t)data[3] << 8;
		enum wire_kind kind = data[0] % (WIRE_KINDS - 1) + 1;
		const bool whole = data[0] == 255;

		data += HEAD;
		size -= HEAD;
		length = length < size ? length : size;
		memset(&sent, 0, sizeof(sent));
		memcpy(sent.bytes, data, length);
		if (whole) { /* good but for its content and its descriptors */
			const size_t all =
				sizes[kind = length ? data[0] % (WIRE_KINDS - 1) + 1 : 1];

			sent.header = (struct sgpu_greeting){
				.magic = SGPU_GREETING_MAGIC,
				.version = SGPU_GREETING_VERSION,
				.kind = (uint16_t)kind,
				.size = (uint32_t)(all ? all : sizeof(struct sgpu_greeting))
			};
			send_raw(ends[0], sent.bytes, sent.header.size, any, came);
		} else {
			send_raw(ends[0], sent.bytes, length, any, came);
		}
		hear(ends[1], kind, wanted, came);
		data += length;
		size -= length;
	}
	close(ends[0]);
	close(ends[1]);
	expect(free_number(any) == first, "a descriptor is left open");
	return 0;
}
