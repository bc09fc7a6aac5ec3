/* SPDX-License-Identifier: Apache-2.0
 *
 * See enclave.h. */
#include "enclave.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"

int key_files_note(struct enclave *w, const char *key, struct sgpu_error *error)
{
	struct key_files *keys = &w->key_files;
	struct stat *file = &keys->files[keys->count];

	if (!cli_input_stat(key, file)) {
		return SGPU_OK; /* the loader reports it */
	}
	keys->names[keys->count++] = key;
	return w->files && S_ISREG(file->st_mode) ? sgpu_files_except(w->files, file, error)
						  : SGPU_OK;
}

int key_files_refuse(const struct enclave *w, struct sgpu_error *error)
{
	const struct key_files *keys = &w->key_files;

	for (int i = 0; i < keys->count; i++) {
		int fd;

		if (!S_ISREG(keys->files[i].st_mode) || keys->files[i].st_nlink == 0) {
			continue; /* it has no name: key_files_close() is enough */
		}
		fd = open(keys->names[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		sgpu_close(fd);
		if (fd >= 0 || (errno != EACCES && errno != ENOENT)) {
			sgpu_fail(error, SGPU_EPOLICY, "a run can read the key '%s' again",
				  keys->names[i]);
			return sgpu_hint(error, "move the key to a directory of its own");
		}
	}
	return SGPU_OK;
}

/* Terminals, and pipes that were read to their ends, stay open. */
static bool is_noted(const struct key_files *keys, int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		return false;
	}
	for (int i = 0; i < keys->count; i++) {
		if (status.st_dev == keys->files[i].st_dev &&
		    status.st_ino == keys->files[i].st_ino) {
			return true;
		}
	}
	return false;
}

int key_files_close(const struct enclave *w, int kept, struct sgpu_error *error)
{
	DIR *open_ones = opendir("/proc/self/fd");
	/* In their places, so that no later file gets number 0, 1 or 2. */
	const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	bool closed = open_ones && nothing >= 0;
	struct dirent *entry;
	uint64_t fd;

	while (closed && (entry = readdir(open_ones))) {
		if (sgpu_parse_u64(entry->d_name, "descriptor", 0, INT_MAX, &fd, NULL) == SGPU_OK &&
		    (int)fd != kept && is_noted(&w->key_files, (int)fd)) {
			closed = dup2(nothing, (int)fd) >= 0;
		}
	}
	if (!closed) {
		(void)sgpu_fail_errno(error,
				      "cannot close the descriptors of keys, by /proc/self/fd");
	}
	if (open_ones) {
		closedir(open_ones);
	}
	sgpu_close(nothing);
	return closed ? SGPU_OK : error->code;
}
