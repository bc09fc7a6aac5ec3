/* SPDX-License-Identifier: Apache-2.0
 *
 * See enclave.h. */
#include "enclave.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "harden.h"

/* Returns the descriptor that names a key; -1: the key is named by a path. */
static int descriptor_of(const char *key)
{
	uint64_t number;

	if (strcmp(key, "-") == 0) {
		return STDIN_FILENO;
	}
	return strncmp(key, "fd:", 3) == 0 && sgpu_parse_u64(key + 3, "descriptor", 0, INT_MAX,
							     &number, NULL) == SGPU_OK
		       ? (int)number
		       : -1;
}

int key_files_note(struct key_files *keys, const char *key, struct sgpu_files *files,
		   const char *state, struct sgpu_error *error)
{
	const int fd = descriptor_of(key);
	const char *above;
	struct stat status;

	if ((fd >= 0 ? fstat(fd, &status) : stat(key, &status)) != 0) {
		return SGPU_OK; /* the key's loader reports it */
	}
	if (keys->count == KEY_FILES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d keys", KEY_FILES_MAX);
	}
	above = fd < 0 && S_ISREG(status.st_mode) && landlock_version() ? landlock_above(key, state)
									: NULL;
	if (above) {
		sgpu_fail(error, SGPU_EPOLICY,
			  "key '%s' lies in '%s', which a run must be able to read", key, above);
		return sgpu_hint(error, "move the key to a directory of its own");
	}
	above = files && fd < 0 && S_ISREG(status.st_mode) ? sgpu_files_above(files, key) : NULL;
	if (above) {
		sgpu_fail(error, SGPU_EUSAGE, "key '%s' lies in '%s', from which batches fetch",
			  key, above);
		return sgpu_hint(error, "move the key, or name another directory with --files");
	}
	keys->files[keys->count++] = status;
	return files && S_ISREG(status.st_mode) ? sgpu_files_except(files, &status, error)
						: SGPU_OK;
}

static bool key_files_have(const struct key_files *keys, const struct stat *status)
{
	for (int i = 0; i < keys->count; i++) {
		if (status->st_dev == keys->files[i].st_dev &&
		    status->st_ino == keys->files[i].st_ino) {
			return true;
		}
	}
	return false;
}

static void close_noted(const struct key_files *keys, int fd)
{
	struct stat status;
	int nothing;

	if (fstat(fd, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) ||
	    !key_files_have(keys, &status)) {
		return;
	}
	if (fd > STDERR_FILENO) {
		close(fd);
		return;
	}
	/* The next file that is opened must not get this number. */
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0 || dup2(nothing, fd) < 0) {
		cli_warning("descriptor %d, which a key came by, stays open", fd);
	}
	if (nothing > STDERR_FILENO) {
		close(nothing);
	}
}

void key_files_close(const struct key_files *keys, int kept)
{
	DIR *open_ones = opendir("/proc/self/fd");
	struct rlimit limit;
	struct dirent *entry;
	uint64_t fd;
	int end;

	if (open_ones) {
		while ((entry = readdir(open_ones))) {
			if (sgpu_parse_u64(entry->d_name, "descriptor", 0, INT_MAX, &fd, NULL) ==
				    SGPU_OK &&
			    (int)fd != kept) {
				close_noted(keys, (int)fd);
			}
		}
		closedir(open_ones);
		return;
	}
	/* Without /proc all numbers are tried, up to the current limit. */
	end = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? (int)limit.rlim_cur
									      : 65536;
	for (int i = 0; i < end; i++) {
		if (i != kept) {
			close_noted(keys, i);
		}
	}
}
