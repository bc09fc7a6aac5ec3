/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the directory and name of an output, by the rules in io.h; root's files count as the
 * user's. Each component of the path is opened and judged by its descriptor, so that the file
 * judged is the file used.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "base/base.h"

enum { LINKS_MAX = 40 };

void sgpu_output_made_clear(struct sgpu_output_made *made, bool keep)
{
	for (int i = made->count; i-- > 0;) {
		if (!keep) {
			unlinkat(made->list[i].directory, made->list[i].name, AT_REMOVEDIR);
		}
		close(made->list[i].directory);
		free(made->list[i].name);
	}
	free(made->list);
	*made = (struct sgpu_output_made){ .list = NULL };
}

static bool is_trusted(const struct stat *status)
{
	return status->st_uid == geteuid() || status->st_uid == 0;
}

/* Whether everybody (or the group, under a sticky bit) can put files in it. */
static bool is_shared(const struct stat *directory)
{
	return (directory->st_mode & S_IWOTH) ||
	       ((directory->st_mode & S_ISVTX) && (directory->st_mode & S_IWGRP));
}

/* Whether this is /dev/null, zero or full, of any owner: only root makes devices, but a container
 * may show another owner. */
static bool is_plain_device(const struct stat *status)
{
	const unsigned number = minor(status->st_rdev);

	return S_ISCHR(status->st_mode) && major(status->st_rdev) == 1 &&
	       (number == 3 || number == 5 || number == 7);
}

static int judge(const struct sgpu_walk *walk, const char *name, const struct stat *status,
		 struct sgpu_error *error)
{
	const bool special = !S_ISDIR(status->st_mode) && !S_ISREG(status->st_mode);
	struct stat directory;

	if (walk->is_beneath || !strcmp(name, ".") || !strcmp(name, "..")) {
		return 0;
	}
	if (fstat(walk->directory, &directory)) {
		return sgpu_fail_errno(error, "cannot inspect '%s'", walk->shown);
	}
	if (!is_trusted(status) && (special || is_shared(&directory)) && !is_plain_device(status)) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "cannot write '%s': '%s' is the property of another user",
				 walk->shown, name);
	}
	if (S_ISLNK(status->st_mode) && (is_shared(&directory) || !is_trusted(&directory))) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "cannot write '%s': '%s' is a link in a directory that others can "
				 "write to",
				 walk->shown, name);
	}
	return 0;
}

/* Returns the descriptor that a path such as "/dev/stdout" names; -1: none. The user gave us its
 * file, so any kind will do. */
static int named_descriptor(const char *path)
{
	int number = -1;
	char more;

	if (!strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr")) {
		return path[8] == 'o' ? STDOUT_FILENO : STDERR_FILENO;
	}
	return sscanf(path, "/dev/fd/%9d%c", &number, &more) == 1 ||
			       sscanf(path, "/proc/self/fd/%9d%c", &number, &more) == 1
		       ? number
		       : -1;
}

/* Continues with the path `rest`, and owns it from then on. */
static int start(struct sgpu_walk *walk, char *rest, struct sgpu_error *error)
{
	free(walk->rest);
	walk->rest = walk->at = rest;
	if (!rest) {
		return sgpu_fail_nomem(error);
	}
	walk->descriptor = walk->is_beneath ? -1 : named_descriptor(rest);
	if (walk->directory < 0 || rest[0] == '/') {
		sgpu_close(walk->directory);
		walk->directory =
			open(rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return walk->directory < 0
		       ? sgpu_fail_errno(error, "cannot open the directory of '%s'", walk->shown)
		       : 0;
}

/* Continues with the link's text, then with the path's rest. */
static int follow(struct sgpu_walk *walk, int link, struct sgpu_error *error)
{
	char text[PATH_MAX], *rest = NULL;
	const ssize_t length = readlinkat(link, "", text, sizeof(text));

	if (length <= 0 || length == (ssize_t)sizeof(text) || ++walk->links > LINKS_MAX) {
		errno = walk->links > LINKS_MAX ? ELOOP : errno;
		return sgpu_fail_errno(error, "cannot read a link on the way to '%s'", walk->shown);
	}
	return start(walk, asprintf(&rest, "%.*s%s", (int)length, text, walk->at) < 0 ? NULL : rest,
		     error);
}

static int make_directory(struct sgpu_walk *walk, const char *name, struct sgpu_error *error)
{
	struct sgpu_output_made *made = &walk->made;
	void *grown;

	if (mkdirat(walk->directory, name, walk->mode)) {
		return errno == EEXIST
			       ? 0
			       : sgpu_fail_errno(error, "cannot make the directory '%s' of '%s'",
						 name, walk->shown);
	}
	grown = realloc(made->list, ((size_t)made->count + 1) * sizeof(*made->list));
	if (!grown) {
		return sgpu_fail_nomem(error);
	}
	made->list = grown;
	const int parent = fcntl(walk->directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	char *copy = strdup(name);
	if (parent < 0 || !copy) {
		sgpu_close(parent);
		free(copy);
		return sgpu_fail_nomem(error);
	}
	made->list[made->count].directory = parent;
	made->list[made->count++].name = copy;
	return 0;
}

/* `fd` is taken over. */
static int enter(struct sgpu_walk *walk, const char *name, bool last, int fd,
		 const struct stat *status, struct sgpu_error *error)
{
	int rc;

	if (S_ISLNK(status->st_mode) && !walk->is_beneath) {
		rc = follow(walk, fd, error);
		close(fd);
		return rc;
	}
	if (last) {
		walk->found = fd;
		walk->status = *status;
		walk->name = strdup(name);
		return walk->name ? 0 : sgpu_fail_nomem(error);
	}
	if (S_ISDIR(status->st_mode)) {
		close(walk->directory);
		walk->directory = fd;
		return 0;
	}
	close(fd);
	errno = ENOTDIR;
	return walk->is_beneath
		       ? sgpu_fail(error, SGPU_EPOLICY,
				   "the output '%s' leads through a link or a file", walk->shown)
		       : sgpu_fail_errno(error, "cannot reach '%s': '%s'", walk->shown, name);
}

static int leads_out(const struct sgpu_walk *walk, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EPOLICY, "'%s' is no path of a file beneath a directory",
			 walk->shown);
}

static int step(struct sgpu_walk *walk, struct sgpu_error *error)
{
	char name[NAME_MAX + 1];
	struct stat status;
	int rc = 0;

	walk->at += strspn(walk->at, "/");
	const size_t length = strcspn(walk->at, "/");
	const bool last = !walk->at[length] && !walk->whole;
	if (length > NAME_MAX) {
		errno = ENAMETOOLONG;
		return sgpu_fail_errno(error, "cannot create '%s'", walk->shown);
	}
	snprintf(name, sizeof(name), "%.*s", (int)length, walk->at);
	walk->at += length;
	if (walk->is_beneath && !strcmp(name, "..")) {
		return leads_out(walk, error);
	}
	if (last && (!length || !strcmp(name, ".") || !strcmp(name, ".."))) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': it is a directory",
				 walk->shown);
	}
	if (last && !strncmp(name, ".sgpu-", 6)) { /* which the next output would remove */
		return sgpu_fail(error, SGPU_ESYSTEM,
				 "cannot write '%s': a name that begins with '.sgpu-' is temporary",
				 walk->shown);
	}
	if (!length) {
		return 0;
	}
	int fd = openat(walk->directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && last) {
		walk->name = strdup(name);
		return walk->name ? 0 : sgpu_fail_nomem(error);
	}
	if (fd < 0 && errno == ENOENT) {
		rc = make_directory(walk, name, error);
		fd = rc ? -1 : openat(walk->directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	if (!rc && (fd < 0 || fstat(fd, &status))) {
		rc = sgpu_fail_errno(error, "cannot reach '%s'", walk->shown);
	}
	rc = rc ? rc : judge(walk, name, &status, error);
	if (rc) {
		sgpu_close(fd);
		return rc;
	}
	return enter(walk, name, last, fd, &status, error);
}

int sgpu_output_walk(struct sgpu_walk *walk, const char *path, struct sgpu_error *error)
{
	const size_t length = strlen(path);

	if (walk->is_beneath && path[0] == '/') {
		return leads_out(walk, error);
	}
	if (!length || (path[length - 1] == '/' && !walk->whole)) {
		/* refused here, before a directory is made for it */
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': %s", walk->shown,
				 length ? "it is a directory" : "it is no name");
	}
	int rc = start(walk, strdup(path), error);
	while (!rc && walk->descriptor < 0 && !walk->name && (*walk->at || !walk->whole)) {
		rc = step(walk, error);
	}
	return rc;
}

struct sgpu_output_made sgpu_output_walk_end(struct sgpu_walk *walk)
{
	sgpu_close(walk->found);
	sgpu_close(walk->directory);
	free(walk->name);
	free(walk->rest);
	return walk->made;
}
