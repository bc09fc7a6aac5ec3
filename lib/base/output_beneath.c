/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs below a folder, at paths that somebody else may have chosen: no link is followed and nothing leads out,
 * since every step is taken from the descriptor of the one before.
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

/* Opens a directory beneath `folder`. Before Linux 5.6, and if a filter hides openat2, only a path of one
 * component. */
static int open_folder(int folder, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	long fd = -1;

	/* EAGAIN: something else was renamed meanwhile, so that the kernel cannot be sure. */
	for (int attempt = 0; attempt < 100; attempt++) {
		fd = syscall(SYS_openat2, folder, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN) {
			break;
		}
	}
	if (fd < 0 && (errno == ENOSYS || errno == EPERM) && !strchr(path, '/') && strcmp(path, "..") != 0) {
		fd = openat(folder, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return (int)fd;
}

static int go_to(struct output_place *place, int fd, const char *shown, struct sgpu_error *error)
{
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)) {
		return sgpu_fail(error, SGPU_EPOLICY, "the output '%s' leads through a link or a file", shown);
	}
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open the directory of '%s'", shown);
	}
	close(place->folder);
	place->folder = fd;
	return 0;
}

/* `path` is changed on the way, and whole again at the end. */
static int descend(struct output_place *place, char *path, mode_t folder_mode, const char *shown,
		   struct sgpu_error *error)
{
	int code = 0;

	for (char *part = path, *slash; !code && *part; part = slash ? slash + 1 : part + strlen(part)) {
		slash = strchr(part, '/');
		if (slash) {
			*slash = '\0';
		}
		int fd = open_folder(place->folder, part);
		if (fd < 0 && errno == ENOENT) {
			code = sgpu_output_place_make(place, part, folder_mode, shown, error);
			fd = code ? -1 : open_folder(place->folder, part);
		}
		code = code ? code : go_to(place, fd, shown, error);
		if (slash) {
			*slash = '/';
		}
	}
	return code;
}

static int reach(struct output_place *place, char *folders, mode_t folder_mode, const char *shown,
		 struct sgpu_error *error)
{
	const int fd = *folders ? open_folder(place->folder, folders) : -1;

	if (!*folders) {
		return 0;
	}
	return fd >= 0 ? go_to(place, fd, shown, error) : descend(place, folders, folder_mode, shown, error);
}

int sgpu_output_place_beneath(int root, const char *path, const char *shown, mode_t folder_mode, struct output_place *place,
			 struct sgpu_error *error)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *folders = strndup(path, slash ? (size_t)(slash - path) : 0);

	*place = (struct output_place)OUTPUT_PLACE_INIT;
	place->name = strdup(name);
	place->folder = fcntl(root, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int code = 0;
	if (!folders || !place->name) {
		code = sgpu_fail_nomem(error);
	} else if (path[0] == '/' || !*name || !strcmp(name, ".") || !strcmp(name, "..")) {
		code = sgpu_fail(error, SGPU_EPOLICY, "'%s' is no path of a file beneath a directory", shown);
	} else if (place->folder < 0) {
		code = sgpu_fail_errno(error, "cannot create '%s'", shown);
	} else {
		code = reach(place, folders, folder_mode, shown, error);
	}
	free(folders);
	if (code) {
		return code;
	}
	place->found = openat(place->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (place->found < 0 ? errno != ENOENT : fstat(place->found, &place->status) != 0) {
		return sgpu_fail_errno(error, "cannot create '%s'", shown);
	}
	return 0;
}

int sgpu_output_folder_open(struct sgpu_output_folder *folder, const char *path, mode_t mode, struct sgpu_error *error)
{
	struct output_place place = OUTPUT_PLACE_INIT;
	int code = sgpu_output_place_folder(path, mode, &place, error);

	*folder = (struct sgpu_output_folder)SGPU_OUTPUT_FOLDER_INIT;
	folder->made = place.made;
	folder->made_count = place.made_count;
	place.made = NULL;
	place.made_count = 0;
	if (!code) {
		folder->fd = openat(place.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		code = folder->fd < 0 ? sgpu_fail_errno(error, "cannot open directory '%s'", path) : 0;
	}
	sgpu_output_place_clear(&place);
	if (code) {
		sgpu_output_folder_close(folder, false);
	}
	return code;
}

void sgpu_output_folder_close(struct sgpu_output_folder *folder, bool keep)
{
	sgpu_output_made_clear(&folder->made, &folder->made_count, keep);
	if (folder->fd >= 0) {
		close(folder->fd);
	}
	*folder = (struct sgpu_output_folder)SGPU_OUTPUT_FOLDER_INIT;
}
