/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between a process with a CPU device and the host, the process that runs its modules:
 * messages of fixed size over sockets that keep message boundaries, and memory files.
 *
 *   control   first the host says how it is confined: a struct sgpu_module_confinement. The device
 *             asks for a worker: one byte, with the image. The host answers with an errno, an
 *             int32_t, or 0, and then with the worker's channel and report.
 *   channel   one per worker. The device asks the worker to run a function and passes the launch's
 *             memory: a head, then the bytes that the function works on. The worker answers.
 *   report    one per worker, which has no access to it. The host says how the worker ended. If
 *             the device closes it, the host ends the worker.
 *
 * A worker runs foreign code, so the device trusts nothing that comes over a channel: an answer
 * only ends the launch, and the device reads only those bytes of the shared memory that the
 * function was to write.
 */
#ifndef SGPU_DEVICE_CPU_MODULE_WIRE_H
#define SGPU_DEVICE_CPU_MODULE_WIRE_H

#include <stdint.h>
#include <unistd.h>

#include <sgpu/device.h>

#include "base/descriptors.h"

#define SGPU_HOST_PROGRAM "sgpu-module-host" /* name under which a program runs as the host */

enum {
	SGPU_HOST_CONTROL = 3,	 /* descriptor of the control socket in the host */
	SGPU_HOST_WORKERS = 256, /* modules at once; one more is answered with EUSERS */
	SGPU_HOST_TEXT = 240,
	SGPU_HOST_ARGUMENTS = 256,
	SGPU_HOST_VALUE = 16, /* bytes of an argument, at most */
	SGPU_HOST_FUNCTION = 256,
	SGPU_HOST_ALIGN = 4096, /* alignment of what an argument points at */
};

/* What the host's answer comes with. */
enum { SGPU_HOST_CHANNEL, SGPU_HOST_REPORT, SGPU_HOST_DESCRIPTORS };

enum sgpu_host_kind { SGPU_HOST_LOADED = 1, SGPU_HOST_RAN, SGPU_HOST_NO_FUNCTION, SGPU_HOST_ENDED };

/* From a worker over its channel; ENDED: from the host over the report. */
struct sgpu_host_answer {
	uint32_t kind;
	int32_t code;	/* LOADED: 0 if loaded; RAN: the function's return value */
	int32_t status; /* ENDED: as waitpid() gives it */
	int32_t call;	/* ENDED: the number of the system call that was refused, or -1 */
	char text[SGPU_HOST_TEXT]; /* LOADED: the loader's error; ENDED: name of `call`, or "" */
};

/* ---- channel ---- */
/* From the device: run the launch in this memory, whose descriptor comes along. */
struct sgpu_host_call {
	uint64_t size;
};

struct sgpu_host_argument {
	uint32_t size;
	uint32_t points; /* the value is the shared memory's address plus `at` */
	uint64_t at;
	uint8_t value[SGPU_HOST_VALUE];
};

struct sgpu_host_launch {
	char function[SGPU_HOST_FUNCTION];
	struct sgpu_module_shape shape;
	uint32_t argument_count;
	struct sgpu_host_argument arguments[SGPU_HOST_ARGUMENTS];
};

/* ---- messages ---- */
static inline bool sgpu_host_send(int socket, const void *data, size_t size, int fd)
{
	return sgpu_send_descriptors(socket, data, size, &fd, fd >= 0, 0);
}

/* Receives a message with `count` descriptors; unless all came, fds[0] becomes -1. False: the
 * message has another size, or the other end is closed. */
static inline bool sgpu_host_receive(int socket, void *data, size_t size, int *fds, size_t count)
{
	struct iovec part = { data, size };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(SGPU_HOST_DESCRIPTORS * sizeof(int))];
	} ancillary;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = count ? &ancillary : NULL,
				  /* room for so many, and not for one more */
				  .msg_controllen = count ? CMSG_LEN(count * sizeof(int)) : 0 };
	const struct cmsghdr *head;
	size_t came = 0;
	ssize_t got;
	bool good;

	do {
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	head = fds && got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
		came = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(head), came * sizeof(int));
	}
	good = got == (ssize_t)size && !(message.msg_flags & MSG_TRUNC);
	if (fds && (!good || came < count)) {
		while (came > 0) {
			close(fds[--came]);
		}
		fds[0] = -1;
	}
	return good;
}

#endif
