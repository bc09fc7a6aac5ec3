/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs below a directory, at paths that somebody else may have chosen: no link is followed and
 * nothing leads out, since every step is taken from the descriptor of the one before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "output_place.h"

/* Opens a directory beneath `directory`. Before Linux 5.6, and if a filter hides openat2, only a
 * path of one component. */
static int open_directory(int directory, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
					   RESOLVE_NO_MAGICLINKS };
	long fd = -1;

	/* EAGAIN: something else was renamed meanwhile, so that the kernel cannot be sure. */
	for (int attempt = 0; attempt < 100; attempt++) {
		fd = syscall(SYS_openat2, directory, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN) {
			break;
		}
	}
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && !strchr(path, '/') &&
	    strcmp(path, "..") != 0) {
		fd = openat(directory, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return (int)fd;
}

static int go_to(struct output_place *place, int fd, const char *shown, struct sgpu_error *error)
{
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "the output '%s' leads through a link or a file", shown);
	}
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open the directory of '%s'", shown);
	}
	close(place->directory);
	place->directory = fd;
	return 0;
}

/* `path` is changed on the way, and whole again at the end. */
static int descend(struct output_place *place, char *path, mode_t directory_mode, const char *shown,
		   struct sgpu_error *error)
{
	int code = 0;

	for (char *part = path, *slash; !code && *part;
	     part = slash ? slash + 1 : part + strlen(part)) {
		slash = strchr(part, '/');
		if (slash) {
			*slash = '\0';
		}
		int fd = open_directory(place->directory, part);
		if (fd < 0 && errno == ENOENT) {
			code = sgpu_output_place_make(place, part, directory_mode, shown, error);
			fd = code ? -1 : open_directory(place->directory, part);
		}
		code = code ? code : go_to(place, fd, shown, error);
		if (slash) {
			*slash = '/';
		}
	}
	return code;
}

static int reach(struct output_place *place, char *directories, mode_t directory_mode,
		 const char *shown, struct sgpu_error *error)
{
	const int fd = *directories ? open_directory(place->directory, directories) : -1;

	if (!*directories) {
		return 0;
	}
	return fd >= 0 ? go_to(place, fd, shown, error)
		       : descend(place, directories, directory_mode, shown, error);
}

int sgpu_output_place_beneath(int root, const char *path, const char *shown, mode_t directory_mode,
			      struct output_place *place, struct sgpu_error *error)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *directories = strndup(path, slash ? (size_t)(slash - path) : 0);

	*place = (struct output_place)OUTPUT_PLACE_INIT;
	place->name = strdup(name);
	place->directory = fcntl(root, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int code = 0;
	if (!directories || !place->name) {
		code = sgpu_fail_nomem(error);
	} else if (path[0] == '/' || !*name || !strcmp(name, ".") || !strcmp(name, "..")) {
		code = sgpu_fail(error, SGPU_EPOLICY,
				 "'%s' is no path of a file beneath a directory", shown);
	} else if (place->directory < 0) {
		code = sgpu_fail_errno(error, "cannot create '%s'", shown);
	} else {
		code = reach(place, directories, directory_mode, shown, error);
	}
	free(directories);
	if (code) {
		return code;
	}
	place->found = openat(place->directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (place->found < 0 ? errno != ENOENT : fstat(place->found, &place->status) != 0) {
		return sgpu_fail_errno(error, "cannot create '%s'", shown);
	}
	return 0;
}

int sgpu_output_directory_open(struct sgpu_output_directory *directory, const char *path,
			       mode_t mode, struct sgpu_error *error)
{
	struct output_place place = OUTPUT_PLACE_INIT;
	int code = sgpu_output_place_directory(path, mode, &place, error);

	*directory = (struct sgpu_output_directory)SGPU_OUTPUT_DIRECTORY_INIT;
	directory->made = place.made;
	directory->made_count = place.made_count;
	place.made = NULL;
	place.made_count = 0;
	if (!code) {
		directory->fd = openat(place.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		code = directory->fd < 0
			       ? sgpu_fail_errno(error, "cannot open directory '%s'", path)
			       : 0;
	}
	sgpu_output_place_clear(&place);
	if (code) {
		sgpu_output_directory_close(directory, false);
	}
	return code;
}

void sgpu_output_directory_close(struct sgpu_output_directory *directory, bool keep)
{
	sgpu_output_made_clear(&directory->made, &directory->made_count, keep);
	if (directory->fd >= 0) {
		close(directory->fd);
	}
	*directory = (struct sgpu_output_directory)SGPU_OUTPUT_DIRECTORY_INIT;
}
