/* SPDX-License-Identifier: Apache-2.0
 *
 * See spool.h. The lock file is made and locked before the claims' directory, and removed after
 * it. */
#include "base/base.h"
#include "host/host.h"
#include "spool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

enum { BOOT_SIZE = 8, HOST_MAX = 64, NAMES_TRIED = 100 };
static const char lock_suffix[] = ".lock";

/* Returns the first digits of the kernel's boot id, or "unknown", never taken for the same boot. */
static const char *boot_id(void)
{
	static char id[64];

	if (!id[0]) {
		if (sgpu_peek_line("/proc/sys/kernel/random/boot_id", id, sizeof(id)) &&
		    strlen(id) >= BOOT_SIZE) {
			id[BOOT_SIZE] = '\0';
		} else {
			snprintf(id, sizeof(id), "unknown");
		}
	}
	return id;
}

static void host_name(char host[HOST_MAX + 1])
{
	memset(host, 0, HOST_MAX + 1);
	if (gethostname(host, HOST_MAX) != 0 || !host[0]) {
		snprintf(host, HOST_MAX, "host");
	}
	host[strcspn(host, ".")] = '\0';
	for (char *c = host; *c; c++) {
		*c = isalnum((unsigned char)*c) || *c == '-' ? *c : '_';
	}
}

static bool lock_name(const char *name, char lock[NAME_MAX + 1])
{
	return snprintf(lock, NAME_MAX + 1, "%s%s", name, lock_suffix) <= NAME_MAX;
}

static bool is_same(int root, const char *name, int fd)
{
	struct stat here, there;

	return fstat(fd, &here) == 0 && fstatat(root, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(here.st_mode) && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

bool claims_of(const char *entry, char name[NAME_MAX + 1])
{
	const size_t suffix = sizeof(lock_suffix) - 1;
	size_t length = strlen(entry);

	if (entry[0] == '.' || length > NAME_MAX) {
		return false;
	}
	length -= length > suffix && strcmp(entry + length - suffix, lock_suffix) == 0 ? suffix : 0;
	memcpy(name, entry, length);
	name[length] = '\0';
	return true;
}

static bool is_of_this_boot(const char *name)
{
	const char *boot = strchr(name, '.');

	return boot && strncmp(boot + 1, boot_id(), BOOT_SIZE) == 0 &&
	       boot[1 + strlen(boot_id())] == '.' && strcmp(boot_id(), "unknown") != 0;
}

/* -1 with errno; EWOULDBLOCK: another process holds the lock. */
static int open_lock(int root, const char *lock, int flags)
{
	/* For writing, as locks on NFS need that. */
	const int fd = openat(
		root, lock, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0600);
	int saved;

	if (fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_same(root, lock, fd))) {
		return fd;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int claims_make(int root, struct claims *claims, struct sgpu_error *error)
{
	char host[HOST_MAX + 1], lock[NAME_MAX + 1];
	uint64_t random = 0;
	int rc, why = 0;

	*claims = (struct claims){ .directory = -1, .lock = -1 };
	host_name(host);
	for (int attempt = 0; attempt < NAMES_TRIED && claims->lock < 0; attempt++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
			return sgpu_fail_errno(error, "cannot get random bytes");
		}
		snprintf(claims->name, sizeof(claims->name), "%s.%s.%ld.%08llx", host, boot_id(),
			 (long)getpid(), (unsigned long long)random & 0xffffffff);
		if (!lock_name(claims->name, lock)) {
			return sgpu_fail(error, SGPU_ESYSTEM, "the host's name is too long");
		}
		claims->lock = open_lock(root, lock, O_CREAT | O_EXCL);
		why = errno;
		if (claims->lock < 0 && why != EEXIST && why != EWOULDBLOCK &&
		    faccessat(root, lock, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			cli_warning("no locks here: %s; what this worker has claimed if it is "
				    "killed, only --reclaim takes back",
				    strerror(why));
			claims->lock = openat(root, lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
			why = errno;
		}
		if (why != EEXIST && why != EWOULDBLOCK) {
			break;
		}
	}
	if (claims->lock < 0) {
		errno = why;
		return sgpu_fail_errno(error, "cannot make '" CLAIMS_DIRECTORY "/%s'", lock);
	}
	if (mkdirat(root, claims->name, 0777) == 0) {
		claims->directory =
			openat(root, claims->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (claims->directory < 0) {
		rc = sgpu_fail_errno(error, "cannot make '" CLAIMS_DIRECTORY "/%s'", claims->name);
		claims_close(root, claims);
		return rc;
	}
	return SGPU_OK;
}

bool claims_take(int root, const char *name, bool guess, struct claims *claims)
{
	char lock[NAME_MAX + 1];

	*claims = (struct claims){ .directory = -1, .lock = -1 };
	if (!lock_name(name, lock) || (!guess && !is_of_this_boot(name))) {
		return false;
	}
	memcpy(claims->name, name, strlen(name) + 1);
	claims->lock = open_lock(root, lock, O_CREAT);
	if (claims->lock < 0 && (!guess || errno == EWOULDBLOCK || errno == EACCES)) {
		return false;
	}
	claims->directory = openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (claims->directory < 0) {
		claims_close(root, claims);
		return false;
	}
	return true;
}

void claims_close(int root, struct claims *claims)
{
	char lock[NAME_MAX + 1];
	bool removed = claims->directory < 0;

	if (claims->directory >= 0) {
		removed = unlinkat(root, claims->name, AT_REMOVEDIR) == 0 || errno == ENOENT;
		close(claims->directory);
	}
	if (claims->lock >= 0) {
		if (removed && lock_name(claims->name, lock) && is_same(root, lock, claims->lock)) {
			unlinkat(root, lock, 0);
		}
		close(claims->lock);
	}
	*claims = (struct claims){ .directory = -1, .lock = -1 };
}
