/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded, it makes the CPU device of the sgpu-enclave fail that starts first in this directory:
 * once it has said that it is ready, it maps no more. See spool-devices.bats.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int chosen;
static atomic_int ready;

__attribute__((constructor)) static void choose(void)
{
	chosen = strcmp(program_invocation_short_name, "sgpu-enclave") == 0 &&
		 open("failing", O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	atomic_store(&ready, 1);
	return syscall(SYS_sendmsg, socket, message, flags);
}

int madvise(void *at, size_t size, int advice)
{
	if (advice == MADV_DONTDUMP && chosen && atomic_load(&ready)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_madvise, at, size, advice);
}
