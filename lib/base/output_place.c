/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an output goes. The path is walked a component at a time, each looked at through its own
 * descriptor, so that what was judged is what is used. The rules:
 * - a link is followed if it is the user's own (or root's) and lies in a directory of their own (or
 * root's) that not everybody can write to;
 * - in a directory that everybody can write to, whatever is there must be the user's own or root's;
 * - a pipe, device or socket must be the user's own or root's, wherever it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "output_place.h"

enum { LINKS_MAX = 40, MEMORY_DEVICES = 1, NULL_DEVICE = 3, ZERO_DEVICE = 5, FULL_DEVICE = 7 };

struct walk {
	const char *path; /* as given, for messages */
	char *rest;	  /* the rest of the path, from malloc */
	const char *at;	  /* in `rest` */
	int links;
	mode_t directory_mode;
	bool directories_only; /* the last component is a directory, too */
	struct output_place *place;
};

static bool is_trusted(uid_t owner)
{
	return owner == geteuid() || owner == 0;
}

/* Whether users other than its owner can put files there, as in /tmp. */
static bool is_shared(const struct stat *directory)
{
	return (directory->st_mode & S_IWOTH) ||
	       ((directory->st_mode & S_ISVTX) && (directory->st_mode & S_IWGRP));
}

/* Only root makes devices; in a container they may seem to be another's. */
static bool is_plain_device(const struct stat *status)
{
	const unsigned number = minor(status->st_rdev);

	return S_ISCHR(status->st_mode) && major(status->st_rdev) == MEMORY_DEVICES &&
	       (number == NULL_DEVICE || number == ZERO_DEVICE || number == FULL_DEVICE);
}

static int not_ours(const struct walk *walk, const char *name, const char *what,
		    struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_EPOLICY, "cannot write '%s': '%s' is %s of another user",
			 walk->path, name, what);
}

static const char *kind_of(mode_t mode)
{
	return S_ISDIR(mode)	? "a directory"
	       : S_ISLNK(mode)	? "a link"
	       : S_ISREG(mode)	? "a file"
	       : S_ISFIFO(mode) ? "a pipe"
	       : S_ISSOCK(mode) ? "a socket"
				: "a device";
}

static int judge(const struct walk *walk, const char *name, const struct stat *directory,
		 const struct stat *status, struct sgpu_error *error)
{
	const bool special = !S_ISDIR(status->st_mode) && !S_ISREG(status->st_mode);

	if (!is_trusted(status->st_uid) && (special || is_shared(directory)) &&
	    !is_plain_device(status)) {
		return not_ours(walk, name, kind_of(status->st_mode), error);
	}
	if (S_ISLNK(status->st_mode) && (is_shared(directory) || !is_trusted(directory->st_uid))) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "cannot write '%s': '%s' is a link in a directory that others can "
				 "write to",
				 walk->path, name);
	}
	return 0;
}

/* "/dev/stdout" and the like are descriptors that the user gave us, of any kind. -1: the path is no
 * descriptor. */
static int named_descriptor(const char *path)
{
	static const char *const directories[] = { "/dev/fd/", "/proc/self/fd/" };

	if (!strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr")) {
		return path[8] == 'o' ? STDOUT_FILENO : STDERR_FILENO;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(directories); i++) {
		const size_t length = strlen(directories[i]);
		uint64_t number = 0;
		if (!strncmp(path, directories[i], length) &&
		    !sgpu_parse_u64(path + length, "descriptor", 0, INT_MAX, &number, NULL)) {
			return (int)number;
		}
	}
	return -1;
}

/* `rest` is taken. */
static int start(struct walk *walk, char *rest, struct sgpu_error *error)
{
	struct output_place *place = walk->place;

	free(walk->rest);
	walk->rest = rest;
	walk->at = rest;
	place->descriptor = named_descriptor(rest);
	if (place->directory < 0 || rest[0] == '/') {
		if (place->directory >= 0) {
			close(place->directory);
		}
		place->directory =
			open(rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return place->directory < 0
		       ? sgpu_fail_errno(error, "cannot open the directory of '%s'", walk->path)
		       : 0;
}

/* Continues with the link's text, and then with the rest of the path after the link. */
static int follow(struct walk *walk, int link, struct sgpu_error *error)
{
	char text[PATH_MAX], *rest = NULL;
	const ssize_t length = readlinkat(link, "", text, sizeof(text));

	if (++walk->links > LINKS_MAX) {
		errno = ELOOP;
		return sgpu_fail_errno(error, "cannot open the directory of '%s'", walk->path);
	}
	if (length <= 0 || length == (ssize_t)sizeof(text)) {
		return sgpu_fail_errno(error, "cannot read a link on the way to '%s'", walk->path);
	}
	if (asprintf(&rest, "%.*s%s", (int)length, text, walk->at) < 0) {
		return sgpu_fail_nomem(error);
	}
	return start(walk, rest, error);
}

static int remember(struct output_place *place, const char *name, const char *shown,
		    struct sgpu_error *error)
{
	struct sgpu_output_made *grown =
		realloc(place->made, ((size_t)place->made_count + 1) * sizeof(*grown));

	if (!grown) {
		return sgpu_fail_nomem(error);
	}
	place->made = grown;
	grown += place->made_count;
	grown->directory = fcntl(place->directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	grown->name = strdup(name);
	if (grown->directory < 0 || !grown->name) {
		free(grown->name);
		return grown->directory < 0
			       ? sgpu_fail_errno(error, "cannot open the directory of '%s'", shown)
			       : sgpu_fail_nomem(error);
	}
	place->made_count++;
	return 0;
}

int sgpu_output_place_make(struct output_place *place, const char *name, mode_t mode,
			   const char *shown, struct sgpu_error *error)
{
	if (mkdirat(place->directory, name, mode)) {
		return errno == EEXIST
			       ? 0
			       : sgpu_fail_errno(error, "cannot make the directory '%s' of '%s'",
						 name, shown);
	}
	return remember(place, name, shown, error);
}

/* Looks at a component; *fd stays -1 when nothing has that name. */
static int look(struct walk *walk, const char *name, int *fd, struct stat *status,
		struct sgpu_error *error)
{
	struct output_place *place = walk->place;
	struct stat directory;

	*fd = openat(place->directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0) {
		return errno == ENOENT ? 0
				       : sgpu_fail_errno(error, "cannot reach '%s'", walk->path);
	}
	int code = 0;
	if (fstat(*fd, status) || fstat(place->directory, &directory)) {
		code = sgpu_fail_errno(error, "cannot inspect '%s'", walk->path);
	} else if (strcmp(name, "..") && strcmp(name, ".")) {
		code = judge(walk, name, &directory, status, error);
	}
	if (code) {
		close(*fd);
		*fd = -1;
	}
	return code;
}

/* Into a directory on the way, which is made when it is absent, or through a link. */
static int descend(struct walk *walk, const char *name, struct sgpu_error *error)
{
	struct stat status;
	int fd = -1, code = look(walk, name, &fd, &status, error);

	if (!code && fd < 0) {
		code = sgpu_output_place_make(walk->place, name, walk->directory_mode, walk->path,
					      error);
		code = code ? code : look(walk, name, &fd, &status, error);
	}
	if (code) {
		return code;
	}
	if (fd >= 0 && S_ISLNK(status.st_mode)) {
		code = follow(walk, fd, error);
	} else if (fd < 0 || !S_ISDIR(status.st_mode)) {
		errno = fd < 0 ? ENOENT : ENOTDIR;
		code = sgpu_fail_errno(error, "cannot reach '%s': '%s'", walk->path, name);
	} else {
		close(walk->place->directory);
		walk->place->directory = fd;
		return 0;
	}
	if (fd >= 0) {
		close(fd);
	}
	return code;
}

static int arrive(struct walk *walk, const char *name, struct sgpu_error *error)
{
	struct output_place *place = walk->place;
	int code = look(walk, name, &place->found, &place->status, error);

	if (code) {
		return code;
	}
	if (place->found >= 0 && S_ISLNK(place->status.st_mode)) {
		const int link = place->found;
		place->found = -1;
		code = follow(walk, link, error);
		close(link);
		return code;
	}
	place->name = strdup(name);
	return place->name ? 0 : sgpu_fail_nomem(error);
}

static int step(struct walk *walk, struct sgpu_error *error)
{
	char name[NAME_MAX + 1];

	walk->at += strspn(walk->at, "/");
	const size_t length = strcspn(walk->at, "/");
	if (length > NAME_MAX) {
		errno = ENAMETOOLONG;
		return sgpu_fail_errno(error, "cannot create '%s'", walk->path);
	}
	memcpy(name, walk->at, length);
	name[length] = '\0';
	walk->at += length;
	if (walk->directories_only || *walk->at) {
		return length ? descend(walk, name, error) : 0;
	}
	if (!length || !strcmp(name, ".") || !strcmp(name, "..")) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': it is a directory",
				 walk->path);
	}
	return arrive(walk, name, error);
}

int sgpu_output_place_find(const char *path, mode_t directory_mode, struct output_place *place,
			   struct sgpu_error *error)
{
	struct walk walk = { .path = path, .directory_mode = directory_mode, .place = place };
	const size_t length = strlen(path);
	char *rest = strdup(path);

	*place = (struct output_place)OUTPUT_PLACE_INIT;
	if (!rest) {
		return sgpu_fail_nomem(error);
	}
	if (!length || path[length - 1] == '/') { /* before a directory is made for it */
		free(rest);
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': %s", path,
				 length ? "it is a directory" : "it is no name");
	}
	int code = start(&walk, rest, error);
	while (!code && place->descriptor < 0 && !place->name) {
		code = step(&walk, error);
	}
	free(walk.rest);
	return code;
}

int sgpu_output_place_directory(const char *path, mode_t directory_mode, struct output_place *place,
				struct sgpu_error *error)
{
	struct walk walk = { .path = path,
			     .directory_mode = directory_mode,
			     .directories_only = true,
			     .place = place };
	char *rest = strdup(path);

	*place = (struct output_place)OUTPUT_PLACE_INIT;
	int code =
		!rest	? sgpu_fail_nomem(error)
		: *rest ? start(&walk, rest, error)
			: sgpu_fail(error, SGPU_ESYSTEM, "cannot open directory '': it is no name");
	while (!code && *walk.at) {
		code = step(&walk, error);
	}
	free(walk.rest ? walk.rest : rest);
	return code;
}

void sgpu_output_place_clear(struct output_place *place)
{
	if (place->found >= 0) {
		close(place->found);
	}
	if (place->directory >= 0) {
		close(place->directory);
	}
	free(place->name);
	sgpu_output_made_clear(&place->made, &place->made_count, true);
	*place = (struct output_place)OUTPUT_PLACE_INIT;
}

void sgpu_output_made_clear(struct sgpu_output_made **made, int *count, bool keep)
{
	for (int i = *count; i-- > 0;) {
		if (!keep) {
			unlinkat((*made)[i].directory, (*made)[i].name, AT_REMOVEDIR);
		}
		close((*made)[i].directory);
		free((*made)[i].name);
	}
	free(*made);
	*made = NULL;
	*count = 0;
}
