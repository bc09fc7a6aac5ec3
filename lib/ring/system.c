/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls themselves, the same for every way.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/rpc.h>

#include "ring/outside.h"

enum { SPIN_NS = 20000 };

struct sgpu_ring_wait sgpu_rpc_spinning(void)
{
	return (struct sgpu_ring_wait){ .spin_least_ns = SPIN_NS,
					.spin_most_ns = SPIN_NS,
					.never_spin = sgpu_cpu_count() == 1 };
}

#if defined(__SANITIZE_THREAD__)
#define SHOWS_ORDER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHOWS_ORDER 1
#endif
#endif

void sgpu_rpc_show_order(void)
{
#ifdef SHOWS_ORDER
	static _Atomic uint64_t order;

	atomic_fetch_add(&order, 1);
#endif
}

/* One more entry shows the end of the queue. What lies in shared memory is copied first: the other
 * side may change it. */
static int64_t perform_poll(const struct sgpu_rpc_request *request, int stop)
{
	const size_t count = request->size / sizeof(struct pollfd);
	struct pollfd *shared = request->data, fds[SGPU_RPC_POLL_MAX + 1];
	int ready;

	if (count > SGPU_RPC_POLL_MAX) {
		return -EINVAL;
	}
	if (count) {
		memcpy(fds, shared, count * sizeof(*fds));
	}
	fds[count] = (struct pollfd){ .fd = stop, .events = POLLRDHUP };
	ready = poll(fds, count + 1, (int)(int64_t)request->argument);
	if (ready < 0) {
		return -errno;
	}
	if (fds[count].revents) {
		return -ECANCELED;
	}
	for (size_t i = 0; i < count; i++) {
		shared[i].revents = fds[i].revents;
	}
	return ready;
}

int64_t sgpu_rpc_perform(const struct sgpu_rpc_request *request, int stop)
{
	ssize_t done;

	switch (request->operation) {
	case SGPU_RPC_PREAD:
		done = pread(request->fd, request->data, request->size, (off_t)request->argument);
		break;
	case SGPU_RPC_PWRITE:
		done = pwrite(request->fd, request->data, request->size, (off_t)request->argument);
		break;
	case SGPU_RPC_RECV:
		done = recv(request->fd, request->data, request->size, MSG_DONTWAIT);
		break;
	case SGPU_RPC_SEND:
		done = send(request->fd, request->data, request->size, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case SGPU_RPC_POLL:
		return perform_poll(request, stop);
	case SGPU_RPC_EMPTY:
		(void)syscall(SYS_getppid);
		return 0;
	default:
		return -ENOSYS;
	}
	return done < 0 ? -errno : done;
}
