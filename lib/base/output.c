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

/* The real file behind links, so that the link stays and its target is replaced; `path` itself when absent. */
static char *resolve(const char *path)
{
	char *real = realpath(path, NULL);

	return real ? real : strdup(path);
}

static int open_folder(const char *path, struct sgpu_output *output, struct sgpu_error *error)
{
	char *copy = strdup(path);

	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	char *slash = strrchr(copy, '/');
	const char *folder = !slash ? "." : slash == copy ? "/" : copy;
	if (slash && slash != copy) {
		*slash = '\0';
	}
	output->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = output->folder < 0 ? sgpu_fail_errno(error, "cannot open folder '%s'", folder) : 0;
	free(copy);
	return code;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A name beside the target that nobody else uses: only this process makes it. */
static int temporary_name(struct sgpu_output *output)
{
	static unsigned serial;
	unsigned number = __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);

	free(output->temporary);
	output->temporary = NULL;
	/* Short whatever the target's name, which may be as long as the file system allows. */
	return asprintf(&output->temporary, ".sgpu-%ld-%u-%llx", (long)getpid(), number,
			(unsigned long long)sgpu_now_ns()) < 0 ? -1 : 0;
}

static int open_temporary(struct sgpu_output *output, mode_t mode, struct sgpu_error *error)
{
	output->fd = openat(output->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (output->fd >= 0) {
		return 0;
	}
	/* A file system without O_TMPFILE. */
	for (int attempt = 0; attempt < 100; attempt++) {
		if (temporary_name(output)) {
			output->temporary = NULL;
			return sgpu_fail_nomem(error);
		}
		output->fd = openat(output->folder, output->temporary,
				    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (output->fd >= 0) {
			return 0;
		}
		if (errno != EEXIST) {
			break;
		}
	}
	free(output->temporary);
	output->temporary = NULL;
	return sgpu_fail_errno(error, "cannot create '%s'", output->path);
}

/* Keeps an existing file's permission bits, but never makes a secret readable. */
static int take_mode(struct sgpu_output *output, const struct stat *existing, mode_t mode, struct sgpu_error *error)
{
	if (mode == 0600) {
		if (fchmod(output->fd, 0600)) {
			return sgpu_fail_errno(error, "cannot set the mode of '%s'", output->path);
		}
	} else if (existing && fchmod(output->fd, existing->st_mode & 0777)) {
		return sgpu_fail_errno(error, "cannot set the mode of '%s'", output->path);
	}
	return 0;
}

static int open_special(struct sgpu_output *output, struct sgpu_error *error)
{
	output->fd = open(output->path, O_WRONLY | O_CLOEXEC);
	return output->fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", output->path) : 0;
}

int sgpu_output_open(struct sgpu_output *output, const char *path, mode_t mode, struct sgpu_error *error)
{
	struct stat existing;
	int code;

	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
	if (!strcmp(path, "-")) {
		output->path = strdup("standard output");
		output->fd = STDOUT_FILENO;
		return output->path ? 0 : sgpu_fail_nomem(error);
	}
	output->path = resolve(path);
	if (!output->path) {
		return sgpu_fail_nomem(error);
	}
	bool exists = stat(output->path, &existing) == 0;
	if (exists && S_ISDIR(existing.st_mode)) {
		code = sgpu_fail(error, SGPU_ESYSTEM, "cannot write '%s': it is a folder", output->path);
	} else if (exists && !S_ISREG(existing.st_mode)) {
		code = open_special(output, error);
	} else {
		output->regular = true;
		code = open_folder(output->path, output, error);
		code = code ? code : open_temporary(output, mode, error);
		code = code ? code : take_mode(output, exists ? &existing : NULL, mode, error);
	}
	if (code) {
		sgpu_output_close(output);
	}
	return code;
}

/* Gives an O_TMPFILE its first name; rename then replaces the target, which linkat cannot. */
static int give_name(struct sgpu_output *output, struct sgpu_error *error)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", output->fd);
	for (int attempt = 0; attempt < 100; attempt++) {
		if (temporary_name(output)) {
			output->temporary = NULL;
			return sgpu_fail_nomem(error);
		}
		if (linkat(AT_FDCWD, link, output->folder, output->temporary, AT_SYMLINK_FOLLOW) == 0) {
			return 0;
		}
		if (errno != EEXIST) {
			break;
		}
	}
	free(output->temporary);
	output->temporary = NULL;
	return sgpu_fail_errno(error, "cannot name '%s'", output->path);
}

int sgpu_output_commit(struct sgpu_output *output, struct sgpu_error *error)
{
	if (!output->regular) {
		/* A full disk behind a redirection may only speak at close: that is standard output's own business,
		 * but fsync tells of it now where the kind allows. */
		if (fsync(output->fd) && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
			return sgpu_fail_errno(error, "cannot write '%s'", output->path);
		}
		sgpu_output_close(output);
		return 0;
	}
	if (fsync(output->fd)) {
		return sgpu_fail_errno(error, "cannot write '%s'", output->path);
	}
	if (!output->temporary) {
		int code = give_name(output, error);
		if (code) {
			return code;
		}
	}
	if (renameat(output->folder, output->temporary, output->folder, last_name(output->path))) {
		return sgpu_fail_errno(error, "cannot replace '%s'", output->path);
	}
	free(output->temporary);
	output->temporary = NULL;
	/* The name must survive a crash too; a file system that cannot is no reason to fail. */
	(void)!fsync(output->folder);
	sgpu_output_close(output);
	return 0;
}

void sgpu_output_close(struct sgpu_output *output)
{
	if (output->temporary && output->folder >= 0) {
		unlinkat(output->folder, output->temporary, 0);
	}
	if (output->fd > STDERR_FILENO) {
		close(output->fd);
	}
	if (output->folder >= 0) {
		close(output->folder);
	}
	free(output->temporary);
	free(output->path);
	*output = (struct sgpu_output)SGPU_OUTPUT_INIT;
}
