/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock by its system calls: the C library has no functions for them.
 */
#include "host.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same on all architectures. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446 };

/* Rights of later versions, which the headers that this is built with may not have. */
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)
#define IOCTL_DEV (1ULL << 15)

/* As the structure was made; later versions add to its end, where `attributes` has room. */
struct attributes {
	uint64_t files, net, scoped;
};

static size_t attributes_for(int version, struct attributes *attributes)
{
	*attributes = (struct attributes){ .files = (1ULL << 13) - 1 };
	if (version >= 2) {
		attributes->files |= REFER;
	}
	if (version >= 3) {
		attributes->files |= TRUNCATE;
	}
	if (version >= 5) {
		attributes->files |= IOCTL_DEV;
	}
	if (version >= 4) {
		attributes->net = 3; /* bind, connect */
	}
	if (version >= 6) {
		attributes->scoped = 3; /* abstract sockets, signals */
	}
	return version >= 6   ? sizeof(*attributes)
	       : version >= 4 ? offsetof(struct attributes, scoped)
			      : offsetof(struct attributes, net);
}

static bool allow(int ruleset, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights };
	bool good;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0) {
		return true; /* not on this machine */
	}
	good = syscall(ADD_RULE, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
	close(rule.parent_fd);
	return good;
}

int landlock_libraries(const char *image)
{
	static const char *const folders[] = { "/lib",	   "/lib64",	 "/lib32",	  "/libx32",
					       "/usr/lib", "/usr/lib64", "/usr/local/lib" };
	int version = (int)syscall(CREATE_RULESET, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct attributes attributes;
	size_t size;
	int ruleset;
	bool good = true;

	if (version < 1) {
		return 0;
	}
	size = attributes_for(version, &attributes);
	ruleset = (int)syscall(CREATE_RULESET, &attributes, size, 0);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		good = good && allow(ruleset, folders[i], LANDLOCK_ACCESS_FS_READ_FILE);
	}
	good = good && allow(ruleset, "/etc/ld.so.cache", LANDLOCK_ACCESS_FS_READ_FILE);
	good = good && (!image || allow(ruleset, image, LANDLOCK_ACCESS_FS_READ_FILE));
	good = ruleset >= 0 && good && syscall(RESTRICT_SELF, ruleset, 0) == 0;
	if (ruleset >= 0) {
		close(ruleset);
	}
	return good ? version : 0;
}
