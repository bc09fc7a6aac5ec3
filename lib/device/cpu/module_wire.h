/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between a process with a CPU device and the host, sgpu-module-host, the process that
 * runs its modules: messages of fixed size over sockets that keep message boundaries, and memory
 * files.
 *
 *   control   the device asks for a worker and passes the image; the host answers twice, with
 *             that worker's channel and with its report. Before all that, unasked, the host says
 *             how it is confined.
 *   channel   one per worker. The device asks the worker to run a function and passes the launch's
 *             memory: a head, then the bytes that the function works on. The worker answers.
 *   report    one per worker, which has no access to it. The host says how the worker ended. If
 *             the device closes it, the host ends the worker.
 *
 * A worker runs foreign code, so the device trusts nothing that comes over a channel: an answer
 * ends the launch and does nothing else, and the device reads only those bytes of the shared memory
 * that the function was to write.
 */
#ifndef SGPU_DEVICE_CPU_MODULE_WIRE_H
#define SGPU_DEVICE_CPU_MODULE_WIRE_H

#include <stdint.h>
#include <unistd.h>

#include <sgpu/device.h>

#include "base/descriptors.h"

#define SGPU_HOST_PROGRAM "sgpu-module-host"

enum {
	SGPU_HOST_CONTROL = 3, /* descriptor of the control socket in the host */
	SGPU_HOST_VERSION = 1,
	SGPU_HOST_WORKERS = 256, /* modules at once; one more is answered with EUSERS */
	SGPU_HOST_TEXT = 240,
	SGPU_HOST_ARGUMENTS = 256,
	SGPU_HOST_VALUE = 16, /* bytes of an argument, at most */
	SGPU_HOST_FUNCTION = 256,
	SGPU_HOST_ALIGN = 4096, /* alignment of what an argument points at */
};

/* ---- control ---- */
enum sgpu_host_kind {
	SGPU_HOST_HELLO = 1,
	SGPU_HOST_STARTED,
	SGPU_HOST_LOADED,
	SGPU_HOST_RAN,
	SGPU_HOST_NO_FUNCTION,
	SGPU_HOST_ENDED
};

/* From the device: load this image, whose descriptor comes along. */
struct sgpu_host_request {
	uint32_t version, reserved;
	uint64_t size;
};

/* From the host, or from a worker. */
struct sgpu_host_answer {
	uint32_t kind;
	int32_t code; /* STARTED: an errno; LOADED: 0 if loaded; RAN: the function's return value */
	int32_t status; /* ENDED: as waitpid() gives it */
	int32_t call;	/* ENDED: the number of the system call that was refused, or -1 */
	struct sgpu_module_confinement confinement; /* HELLO */
	char text[SGPU_HOST_TEXT]; /* LOADED: the loader's error; ENDED: the name of `call`, or ""
				    */
};

/* ---- channel ---- */
/* From the device: run the launch in this memory, whose descriptor comes along. */
struct sgpu_host_call {
	uint64_t size; /* of the memory */
};

struct sgpu_host_argument {
	uint32_t size;	 /* of the value */
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
/* Sends one message with at most one descriptor; -1: none. */
static inline bool sgpu_host_send(int socket, const void *data, size_t size, int fd)
{
	return sgpu_send_descriptors(socket, data, size, &fd, fd >= 0, 0);
}

/* Receives one message. False: it has another size, or the other end is closed. If `fd` is NULL,
 * received descriptors are dropped. */
static inline bool sgpu_host_receive(int socket, void *data, size_t size, int *fd)
{
	struct iovec part = { data, size };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} ancillary;
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = fd ? &ancillary : NULL,
				  .msg_controllen = fd ? sizeof(ancillary) : 0 };
	const struct cmsghdr *head;
	ssize_t got;

	do {
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (fd) {
		head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
		*fd = -1;
		if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
		    head->cmsg_len == CMSG_LEN(sizeof(*fd))) {
			memcpy(fd, CMSG_DATA(head), sizeof(*fd));
		}
	}
	if (got == (ssize_t)size && !(message.msg_flags & (MSG_TRUNC | (fd ? MSG_CTRUNC : 0)))) {
		return true;
	}
	if (fd && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return false;
}

#endif
