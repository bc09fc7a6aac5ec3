/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock by its system calls, for which the C library has no functions.
 */
#ifndef SGPU_RUN_LANDLOCK_CALLS_H
#define SGPU_RUN_LANDLOCK_CALLS_H

#include <linux/landlock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The calls' numbers, the same on all architectures. */
enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446 };

/* Rights of later versions, which the build's headers may lack. */
#define LANDLOCK_REFER (1ULL << 13)
#define LANDLOCK_TRUNCATE (1ULL << 14)
#define LANDLOCK_IOCTL_DEV (1ULL << 15)

/* Returns the kernel's version of Landlock; below 1: none. */
static inline int landlock_kernel(void)
{
	return (int)syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* Makes a ruleset that refuses every access to files and TCP that `version` knows and, if `scoped`,
 * signals and abstract sockets to processes outside. *known: the rights to files that `version`
 * knows. -1 with errno. */
static inline int landlock_ruleset(int version, bool scoped, uint64_t *known)
{
	/* The kernel's structure, to which later versions add members at the end. */
	struct {
		uint64_t files, net, scoped;
	} attributes = { .files = (1ULL << 13) - 1 };

	attributes.files |= version >= 2 ? LANDLOCK_REFER : 0;
	attributes.files |= version >= 3 ? LANDLOCK_TRUNCATE : 0;
	attributes.files |= version >= 5 ? LANDLOCK_IOCTL_DEV : 0;
	attributes.net = version >= 4 ? 3 : 0;
	attributes.scoped = scoped && version >= 6 ? 3 : 0;
	*known = attributes.files;
	return (int)syscall(LANDLOCK_CREATE, &attributes,
			    version >= 6   ? sizeof(attributes)
			    : version >= 4 ? 2 * sizeof(uint64_t)
					   : sizeof(uint64_t),
			    0);
}

/* Allows `rights` to the file or directory `fd` and all beneath it. False, with errno: the rule was
 * not added. */
static inline bool landlock_allow(int ruleset, int fd, uint64_t rights)
{
	const struct landlock_path_beneath_attr rule = { .allowed_access = rights,
							 .parent_fd = fd };

	return syscall(LANDLOCK_ADD, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

#endif
