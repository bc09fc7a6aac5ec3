/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers of a directory: DIR/.claimed/HOST.BOOT.PID.RANDOM is what one of them has claimed,
 * and the lock on the file of that name and ".lock" says that it lives. BOOT tells one run of a
 * kernel from another: locks of this one can be believed. Whether those of other hosts get here is
 * not known, on NFS and Lustre it depends on the mount.
 */
#ifndef SGPU_RUN_CLAIMS_H
#define SGPU_RUN_CLAIMS_H

#include <limits.h>
#include <stdbool.h>

#include <sgpu/error.h>

#define CLAIMS_DIRECTORY ".claimed"

/* One worker's. */
struct claims {
	char name[NAME_MAX + 1];
	int directory, lock; /* -1 when they are not open */
};
#define CLAIMS_NONE                         \
	{                                   \
		.directory = -1, .lock = -1 \
	}

/* Makes the claims of this worker in `root`, DIR/.claimed. Without locks on the file system it
 * warns. */
SGPU_MUST_CHECK int claims_make(int root, struct claims *claims, struct sgpu_error *error);
/* Opens those of a worker that is dead: its lock is held until they are closed. Returns false when
 * it is not known to be dead, or somebody else has them. guess: also when nobody can tell. */
bool claims_take(int root, const char *name, bool guess, struct claims *claims);
/* Closes them, and removes them if they are empty. */
void claims_close(int root, struct claims *claims);

enum claims_life { CLAIMS_ALIVE, CLAIMS_DEAD, CLAIMS_UNKNOWN };
/* Changes nothing. */
enum claims_life claims_look(int root, const char *name);
/* The name of the claims that an entry of `root` belongs to, be it their directory or their lock.
 * Returns false for others. */
bool claims_of(const char *entry, char name[NAME_MAX + 1]);

#endif
