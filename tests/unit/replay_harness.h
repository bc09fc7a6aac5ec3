/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of batches in a folder of its own, for the tests of it.
 */
#ifndef SGPU_REPLAY_HARNESS_H
#define SGPU_REPLAY_HARNESS_H

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch/batch.h"
#include "crypto/crypto.h"
#include "unit.h"

#define SECOND UINT64_C(1000000)
#define WINDOW (100 * SECOND)
#define NOW (UINT64_C(1800000000) * SECOND)
static struct sgpu_error error;
static char folder[64], data[80];
static int failing_sync; /* which of the next ones fails; 0: none */
static int synced_directories;
static bool coarse_times; /* as ext4 with inodes of 128 bytes has them */
static bool far;	  /* no lock of a directory is seen by others, as on two hosts with NFS */
static void (*before_times)(void); /* called once, before the next time is set */

/* In the place of the C library's. */
int fsync(int fd)
{
	struct stat status;

	if (failing_sync && --failing_sync == 0) {
		errno = ENOSPC;
		return -1;
	}
	synced_directories += fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
	return fdatasync(fd);
}

/* In the place of the C library's. */
int futimens(int fd, const struct timespec times[2])
{
	struct timespec set[] = { times[0], times[1] };
	void (*before)(void) = before_times;

	before_times = NULL;
	if (before) {
		before();
	}
	set[1].tv_nsec = coarse_times ? 0 : set[1].tv_nsec;
	return (int)syscall(SYS_utimensat, fd, NULL, set, 0);
}

/* In the place of the C library's. */
int flock(int fd, int operation)
{
	struct stat status;

	return far && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)
		       ? 0
		       : (int)syscall(SYS_flock, fd, operation);
}

static inline void new_folder(void)
{
	strcpy(folder, "/tmp/sgpu-replay-XXXXXX");
	if (!mkdtemp(folder)) {
		abort();
	}
	snprintf(data, sizeof(data), "%s/batches", folder);
}

static inline void remove_folder(void)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	CHECK(system(command) == 0);
}

static inline int take_at(struct sgpu_replay *replay, unsigned id, uint64_t counter, uint64_t now)
{
	const uint8_t identity[SGPU_SHA256_SIZE] = { (uint8_t)id, (uint8_t)(id >> 8),
						     (uint8_t)(id >> 16) };

	return sgpu_replay_take(replay, identity, counter, now, &error);
}

static inline int take(struct sgpu_replay *replay, unsigned id)
{
	return take_at(replay, id, NOW, NOW);
}

/* How many batches are recorded. */
static inline unsigned recorded(void)
{
	DIR *list = opendir(data);
	struct dirent *entry;
	unsigned count = 0;

	while (list && (entry = readdir(list))) {
		count += entry->d_name[0] != '.';
	}
	if (list) {
		closedir(list);
	}
	return count;
}

/* By a cache of its own, as another process has. */
static inline int take_afresh(unsigned id)
{
	struct sgpu_replay *replay = NULL;
	int code = sgpu_replay_create(folder, WINDOW, &replay, &error);

	code = code ? code : take(replay, id);
	sgpu_replay_free(&replay);
	return code;
}

#endif
