/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files that appear only on success.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/io.h>

#include "output_name.h"
#include "output_place.h"

static int open_temporary(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	sgpu_output_names_collect(output->directory);
	output->fd = openat(output->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	/* EISDIR: a kernel, EOPNOTSUPP: a file system without O_TMPFILE; ENOENT from some of FUSE.
	 */
	return output->fd >= 0 ? 0 : sgpu_output_name_create(output, mode, error);
}

int sgpu_output_set_mode(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	if (!output->regular) {
		return 0;
	}
	/* Never wider than requested, not even for a moment: other threads may make files. */
	const mode_t mask = umask(0077);

	umask(mask);
	mode = mode == 0600		? mode
	       : output->kept_mode >= 0 ? (mode_t)output->kept_mode
					: mode & ~mask;
	return fchmod(output->fd, mode)
		       ? sgpu_fail_errno(error, "cannot set the mode of '%s'", output->path)
		       : 0;
}

/* By the descriptor that was judged. */
static int open_special(struct sgpu_output *output, int found, struct sgpu_error *error)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", found);
	output->fd = open(link, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	return output->fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", output->path) : 0;
}

/* The copy shares its position with the one that was given. */
static int open_descriptor(struct sgpu_output *output, int descriptor, struct sgpu_error *error)
{
	const int flags = fcntl(descriptor, F_GETFL);

	if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
	} else if (flags >= 0) {
		output->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	return output->fd < 0 ? sgpu_fail_write(error, output->path) : 0;
}

static int exists(const struct sgpu_output *output, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists", output->path);
}

/* What the place holds and the output needs goes over to it. */
static int open_regular(struct sgpu_output *output, struct output_place *place, mode_t mode,
			struct sgpu_error *error)
{
	const struct stat *status = &place->status;

	if (place->found >= 0 && output->is_new) {
		return exists(output, error);
	}
	output->regular = true;
	output->name = place->name;
	place->name = NULL;
	/* To bring the name to the disk the directory has to be open for reading; where that is
	 * denied, it does without. */
	output->directory = openat(place->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (output->directory < 0) {
		output->directory = place->directory;
		place->directory = -1;
	}
	/* Bits that another user chose would let them read; so would those of another file that was
	 * linked here. */
	if (place->found >= 0 && status->st_uid == geteuid() && status->st_nlink == 1) {
		output->kept_mode = (int)(status->st_mode & 0777);
	}
	const int code = open_temporary(output, mode, error);
	return code || mode == 0600 || output->kept_mode < 0
		       ? code
		       : sgpu_output_set_mode(output, mode, error);
}

static int open_found(struct sgpu_output *output, struct output_place *place, mode_t mode,
		      struct sgpu_error *error)
{
	if (place->descriptor >= 0) {
		return open_descriptor(output, place->descriptor, error);
	}
	if (place->found >= 0 && S_ISDIR(place->status.st_mode)) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': it is a directory",
				 output->path);
	}
	if (place->found >= 0 && !S_ISREG(place->status.st_mode)) {
		return open_special(output, place->found, error);
	}
	return open_regular(output, place, mode, error);
}

/* Ends an opening: all of the output, or nothing. */
static int finish_opening(struct sgpu_output *output, struct output_place *place, int code)
{
	output->made = place->made;
	output->made_count = place->made_count;
	place->made = NULL;
	place->made_count = 0;
	sgpu_output_place_clear(place);
	if (code) {
		sgpu_output_close(output);
	}
	return code;
}

static int open_path(struct sgpu_output *output, const char *path, mode_t mode, bool is_new,
		     struct sgpu_error *error)
{
	struct output_place place = OUTPUT_PLACE_INIT;

	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	output->is_new = is_new;
	output->path = strdup(strcmp(path, "-") ? path : "standard output");
	if (!output->path) {
		return sgpu_fail_nomem(error);
	}
	if (!strcmp(path, "-")) {
		return finish_opening(output, &place,
				      open_descriptor(output, STDOUT_FILENO, error));
	}
	int code = sgpu_output_place_find(path, mode == 0600 ? 0700 : 0777, &place, error);
	code = code ? code : open_found(output, &place, mode, error);
	return finish_opening(output, &place, code);
}

int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode,
		     struct sgpu_error *error)
{
	return open_path(output, path, mode, false, error);
}

int sgpu_output_open_new(struct sgpu_output *output, const char *path, mode_t mode,
			 struct sgpu_error *error)
{
	return open_path(output, path, mode, true, error);
}

int sgpu_output_open_beneath(struct sgpu_output *output, int root, const char *path,
			     const char *shown, mode_t mode, bool is_new, struct sgpu_error *error)
{
	struct output_place place = OUTPUT_PLACE_INIT;

	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	output->is_new = is_new;
	output->path = strdup(shown);
	if (!output->path) {
		return sgpu_fail_nomem(error);
	}
	int code = sgpu_output_place_beneath(root, path, shown, 0700, &place, error);
	if (!code && place.found >= 0 && !S_ISREG(place.status.st_mode)) {
		code = sgpu_fail(error, SGPU_EPOLICY, "'%s' is there and is not a regular file",
				 shown);
	}
	code = code ? code : open_regular(output, &place, mode, error);
	return finish_opening(output, &place, code);
}

bool sgpu_output_has_name(const struct sgpu_output *output)
{
	return output->temporary != NULL;
}

int sgpu_output_made_in(const struct sgpu_output *output, int i)
{
	return i < output->made_count ? output->made[i].directory : -1;
}

/* A full disk behind a redirection may report its error only at close, which is not ours for
 * standard output; fsync reports it now, if this kind of file supports it. */
static int commit_special(struct sgpu_output *output, struct sgpu_error *error)
{
	if (fsync(output->fd) && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
		return sgpu_fail_write(error, output->path);
	}
	sgpu_output_close(output);
	return 0;
}

int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error)
{
	if (!output->regular) {
		return commit_special(output, error);
	}
	if (!output->unsynced && fsync(output->fd)) {
		return sgpu_fail_write(error, output->path);
	}
	const int code = output->is_new ? sgpu_output_name_give(output, error)
					: sgpu_output_name_replace(output, error);
	if (code) {
		return code;
	}
	if (!output->unsynced) {
		/* The name must survive a crash too; a file system that cannot is no reason to
		 * fail. */
		(void)!fsync(output->directory);
	}
	sgpu_output_made_clear(&output->made, &output->made_count, true);
	sgpu_output_close(output);
	return 0;
}

int sgpu_output_remove_older(struct sgpu_output *output, bool *removed, struct sgpu_error *error)
{
	*removed = output->regular && unlinkat(output->directory, output->name, 0) == 0;
	if (output->regular && !*removed && errno != ENOENT) {
		return sgpu_fail_errno(error, "cannot remove the older '%s'", output->path);
	}
	if (*removed) {
		(void)!fsync(output->directory);
	}
	return SGPU_OK;
}

void sgpu_output_close(struct sgpu_output *output)
{
	if (output->temporary && output->directory >= 0) {
		unlinkat(output->directory, output->temporary, 0);
	}
	if (output->fd > STDERR_FILENO) {
		close(output->fd);
	}
	if (output->directory >= 0) {
		close(output->directory);
	}
	sgpu_output_made_clear(&output->made, &output->made_count, false);
	free(output->temporary);
	free(output->name);
	free(output->path);
	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
}

int sgpu_output_remove(const char *path, struct sgpu_error *error)
{
	struct output_place place = OUTPUT_PLACE_INIT;
	int code = sgpu_output_place_find(path, 0700, &place, error);

	if (!code && place.found >= 0 && S_ISREG(place.status.st_mode) &&
	    unlinkat(place.directory, place.name, 0)) {
		code = sgpu_fail_errno(error, "cannot remove the older '%s'", path);
	}
	sgpu_output_made_clear(&place.made, &place.made_count, false);
	sgpu_output_place_clear(&place);
	return code;
}
