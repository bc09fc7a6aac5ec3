/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay record: a directory with "batches", which has an empty file for each taken batch,
 * named by its counter and identity. To take a batch is to make this file, which only one process
 * can. The name is on the disk before the batch runs; if that fails, it is removed, so the batch
 * can be sent again.
 *
 * Names older than the window are removed when there are many. Before that, "floor" gets a time of
 * modification: all batches sealed before it are refused from then on, whatever the clock says
 * later.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "batch/batch.h"

enum {
	KEY_SIZE = 16,			 /* bytes of the identity in a name */
	NAME_MAX_SIZE = 16 + 1 + 22 + 1, /* "COUNTER-KEY", in hexadecimal and in base64url */
	DROPPED_MIN = 1024,
	LOOKS_A_WINDOW = 64, /* times that old names are counted in a window */
};
#define UNKNOWN UINT64_MAX /* a time */
static const char floor_name[] = "floor", new_name[] = "floor.new", batches_name[] = "batches";

struct sgpu_replay {
	uint64_t window_us;
	int directory, batches; /* -1: nothing is recorded */
	char *name;		/* of the directory, for messages */
	uint64_t look_us;	/* when to count the old names again */
};

static int cannot_write(const struct sgpu_replay *replay, struct sgpu_error *error)
{
	return sgpu_fail_errno(error, "cannot write '%s/%s'", replay->name, batches_name);
}

/* ---- old names ---- */
/* UNKNOWN, with errno set: it cannot be told. */
static uint64_t time_of(int fd)
{
	struct stat status;

	return fd >= 0 && fstat(fd, &status) == 0 ? (uint64_t)status.st_mtim.tv_sec * 1000000 +
							    (uint64_t)status.st_mtim.tv_nsec / 1000
						  : UNKNOWN;
}

/* The time before which all batches are refused, or UNKNOWN. */
static uint64_t floor_of(const struct sgpu_replay *replay)
{
	/* Opened, since a file system of a network may answer for a path from memory. */
	const int fd = openat(replay->directory, floor_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const uint64_t floor = time_of(fd);

	sgpu_close(fd);
	return floor;
}

/* Needs no space. */
static bool set_time(int fd, uint64_t floor)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT },
					  { .tv_sec = (time_t)(floor / 1000000),
					    .tv_nsec = (long)(floor % 1000000 * 1000) } };

	return futimens(fd, times) == 0 && fsync(fd) == 0;
}

/* Makes the floor, unless it is there. */
static bool make_floor(const struct sgpu_replay *replay)
{
	const int directory = replay->directory;
	bool made = flock(directory, LOCK_EX) == 0;
	int fd;

	if (made && faccessat(directory, floor_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
		fd = openat(directory, new_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		made = fd >= 0 && set_time(fd, 0) &&
		       renameat(directory, new_name, directory, floor_name) == 0;
		sgpu_close(fd);
	}
	(void)flock(directory, LOCK_UN);
	return made;
}

/* Counts, and if `drop` removes, the names of batches sealed before `floor`. */
static size_t old_names(const struct sgpu_replay *replay, uint64_t floor, bool drop)
{
	const int fd = openat(replay->batches, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t count = 0;

	if (!list) {
		sgpu_close(fd);
		return 0;
	}
	while ((entry = readdir(list))) {
		if (entry->d_name[0] != '.' && strtoull(entry->d_name, NULL, 16) < floor) {
			count++;
			(void)(drop && unlinkat(replay->batches, entry->d_name, 0));
		}
	}
	closedir(list);
	return count;
}

/* Raises the floor, unless another process does, and drops what it refuses. Not the directory is
 * locked but the file, open for writing: other hosts see that lock on NFS. */
static void raise_floor(const struct sgpu_replay *replay, uint64_t floor)
{
	const int fd = openat(replay->directory, floor_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	const uint64_t set = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? time_of(fd) : UNKNOWN;

	/* Also if it was set: another process may have failed to have it on the disk. */
	if (set != UNKNOWN && set_time(fd, set < floor ? floor : set)) {
		const uint64_t kept = time_of(fd); /* rounded, where times are coarse */

		(void)old_names(replay, kept == UNKNOWN ? 0 : kept, true);
	}
	sgpu_close(fd);
}

/* Counting visits every name, so a process does it at its first batch, and then only a few times in
 * a window. */
static void drop_old(struct sgpu_replay *replay, uint64_t now_us)
{
	const uint64_t floor = now_us > replay->window_us ? now_us - replay->window_us : 0,
		       pause_us = replay->window_us / LOOKS_A_WINDOW;

	if (now_us < replay->look_us && replay->look_us - now_us <= pause_us) {
		return; /* a clock that was set back delays this by at most a pause */
	}
	replay->look_us = now_us + pause_us;
	if (old_names(replay, floor, false) >= DROPPED_MIN) {
		raise_floor(replay, floor);
	}
}

/* ---- the rules ---- */
static int check_time(uint64_t counter, uint64_t now_us, uint64_t window_us,
		      struct sgpu_error *error)
{
	const uint64_t ahead = (uint64_t)SGPU_REPLAY_AHEAD_SECONDS * 1000000;
	if (counter > now_us && counter - now_us > ahead) {
		sgpu_fail(
			error, SGPU_EPOLICY,
			"the batch is from the future: sealed %llu s ahead of this machine's clock",
			(unsigned long long)((counter - now_us) / 1000000));
		return sgpu_hint(error, "set the clocks of both machines");
	}
	if (counter < now_us && now_us - counter > window_us) {
		sgpu_fail(error, SGPU_ETAKEN,
			  "the batch is too old: it was sealed %llu s ago, and %llu s are allowed",
			  (unsigned long long)((now_us - counter) / 1000000),
			  (unsigned long long)(window_us / 1000000));
		return sgpu_hint(error,
				 "seal it again, or allow more with 'sgpu-run --replay-window'");
	}
	return 0;
}

static int record(const struct sgpu_replay *replay, const char *name, uint64_t counter,
		  struct sgpu_error *error)
{
	const int fd = openat(replay->batches, name,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc = SGPU_OK;

	if (fd < 0 && errno == EEXIST) {
		sgpu_fail(error, SGPU_ETAKEN, "the batch was taken before: each runs once");
		return sgpu_hint(error, "seal it again to have it run again");
	}
	if (fd < 0) {
		return cannot_write(replay, error);
	}
	close(fd);
	/* Looked at when the name is there: another process may have removed it just before. */
	const uint64_t floor = floor_of(replay);
	if (floor == UNKNOWN) {
		rc = sgpu_fail_errno(error, "cannot read '%s/%s'", replay->name, floor_name);
	} else if (counter < floor) {
		sgpu_fail(error, SGPU_ETAKEN,
			  "the batch is too old: it was sealed before the record of taken batches "
			  "begins");
		rc = sgpu_hint(error, "seal it again");
	} else if (fsync(replay->batches) != 0) {
		rc = cannot_write(replay, error);
	}
	if (rc && unlinkat(replay->batches, name, 0) == 0) {
		(void)!fsync(replay->batches);
	}
	return rc;
}

int sgpu_replay_take(struct sgpu_replay *replay, const uint8_t identity[SGPU_SHA256_SIZE],
		     uint64_t counter, uint64_t now_us, struct sgpu_error *error)
{
	char name[NAME_MAX_SIZE];
	const int rc = check_time(counter, now_us, replay->window_us, error);

	if (rc < 0 || replay->directory < 0) {
		return rc;
	}
	drop_old(replay, now_us);
	snprintf(name, sizeof(name), "%016" PRIx64 "-", counter);
	sgpu_base64url_encode(identity, KEY_SIZE, name + strlen(name));
	return record(replay, name, counter, error);
}

/* ---- opening ---- */
/* Opens the directory as outputs are opened: another user's link or directory would let that user
 * delete the record. */
static int open_directory(struct sgpu_replay *replay, struct sgpu_error *error)
{
	struct sgpu_output_directory opened;
	struct stat status;
	int rc = sgpu_output_directory_open(&opened, replay->name, 0700, error);
	if (rc) {
		return rc;
	}
	if (opened.made.count > 1) { /* the path was missing, as when its volume is not mounted */
		sgpu_output_directory_close(&opened, false);
		errno = ENOENT;
		return sgpu_fail_errno(error, "cannot make directory '%s'", replay->name);
	}
	replay->directory = opened.fd;
	opened.fd = -1;
	sgpu_output_directory_close(&opened, true);
	if (fstat(replay->directory, &status)) {
		return sgpu_fail_errno(error, "cannot open directory '%s'", replay->name);
	}
	if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO))) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "directory '%s' does not belong to this user alone (user %lu, mode %04o)",
			  replay->name, (unsigned long)status.st_uid,
			  (unsigned)status.st_mode & 07777u);
		return sgpu_hint(error, "name a directory of your own, with mode 0700");
	}
	if ((mkdirat(replay->directory, batches_name, 0700) != 0 && errno != EEXIST) ||
	    !make_floor(replay) || fsync(replay->directory) != 0) {
		return cannot_write(replay, error);
	}
	replay->batches = openat(replay->directory, batches_name,
				 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (replay->batches < 0 && errno == ENOTDIR) {
		sgpu_fail(error, SGPU_ESYSTEM,
			  "'%s/%s' is of another version: which batches were taken is not known",
			  replay->name, batches_name);
		return sgpu_hint(error, "remove it when no batch of before can come again");
	}
	return replay->batches < 0 ? cannot_write(replay, error) : 0;
}

int sgpu_replay_create(const char *directory, uint64_t window_us, struct sgpu_replay **replay,
		       struct sgpu_error *error)
{
	struct sgpu_replay *made = calloc(1, sizeof(*made));
	int rc = SGPU_OK;

	*replay = NULL;
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	made->window_us = window_us;
	made->directory = made->batches = -1;
	if (directory) {
		made->name = strdup(directory);
		rc = made->name ? open_directory(made, error) : sgpu_fail_nomem(error);
	}
	if (rc < 0) {
		sgpu_replay_free(&made);
		return rc;
	}
	*replay = made;
	return SGPU_OK;
}

void sgpu_replay_free(struct sgpu_replay **replay)
{
	if (!replay || !*replay) {
		return;
	}
	sgpu_close((*replay)->batches);
	sgpu_close((*replay)->directory);
	free((*replay)->name);
	free(*replay);
	*replay = NULL;
}
