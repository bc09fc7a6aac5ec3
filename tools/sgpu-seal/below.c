/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs below a folder. Where an output goes is said by the manifest, which may be somebody else's: a path must not
 * lead out of the folder, by its text or through a link that lies in the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "parts.h"

int seal_below_open(struct seal_below *below, const char *path, struct sgpu_error *error)
{
	*below = (struct seal_below){ .root = -1, .name = path };
	below->made_root = mkdir(path, 0700) == 0;
	if (!below->made_root && errno != EEXIST) {
		return sgpu_fail_errno(error, "cannot make folder '%s'", path);
	}
	below->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return below->root < 0 ? sgpu_fail_errno(error, "cannot open folder '%s'", path) : 0;
}

void seal_below_close(struct seal_below *below, bool keep)
{
	for (size_t i = below->made_count; i-- > 0;) {
		if (!keep) {
			unlinkat(below->root, below->made[i], AT_REMOVEDIR);
		}
		free(below->made[i]);
	}
	free(below->made);
	if (below->root >= 0) {
		close(below->root);
	}
	if (below->made_root && !keep) {
		rmdir(below->name);
	}
	*below = (struct seal_below){ .root = -1 };
}

static int leaves(const struct seal_below *below, const char *path, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EPOLICY, "the output '%s' is not below '%s'", path, below->name);
	return sgpu_hint(error, "take it by itself with --only ID and -o FILE");
}

/* Appends the parts of a path but empty ones and ".", and takes one away for "..", as the check of manifests reads them:
 * by their text alone. False when one leads out. `clean` holds strlen(path) + 1 bytes. */
static bool join_parts(const char *path, char *clean)
{
	size_t used = 0;
	for (const char *part = path; *part; part += strspn(part, "/")) {
		const size_t length = strcspn(part, "/");
		if (length == 2 && !strncmp(part, "..", 2)) {
			if (!used) {
				return false;
			}
			while (used && clean[--used] != '/') {
			}
		} else if (!(length == 1 && *part == '.')) {
			if (used) {
				clean[used++] = '/';
			}
			memcpy(clean + used, part, length);
			used += length;
		}
		part += length;
	}
	clean[used] = '\0';
	return true;
}

static int clean_path(const struct seal_below *below, const char *path, char **clean, struct sgpu_error *error)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	if (!*last || !strcmp(last, ".") || !strcmp(last, "..")) {
		return sgpu_fail(error, SGPU_EINVALID, "the output '%s' is a folder", path);
	}
	if (path[0] == '/' || strlen(path) >= PATH_MAX) {
		return leaves(below, path, error);
	}
	char *made = malloc(strlen(path) + 1);
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	if (!join_parts(path, made)) {
		free(made);
		return leaves(below, path, error);
	}
	*clean = made;
	return 0;
}

static int remember(struct seal_below *below, const char *path, size_t length, struct sgpu_error *error)
{
	char **grown = realloc(below->made, (below->made_count + 1) * sizeof(*grown));
	if (!grown) {
		return sgpu_fail_nomem(error);
	}
	below->made = grown;
	grown[below->made_count] = strndup(path, length);
	if (!grown[below->made_count]) {
		return sgpu_fail_nomem(error);
	}
	below->made_count++;
	return 0;
}

/* One part down: *folder is closed and replaced. */
static int descend(struct seal_below *below, const char *path, const char *part, size_t length, int *folder,
		   struct sgpu_error *error)
{
	char name[NAME_MAX + 1];
	if (length > NAME_MAX) {
		errno = ENAMETOOLONG;
		return sgpu_fail_errno(error, "cannot make the folder for '%s'", path);
	}
	memcpy(name, part, length);
	name[length] = '\0';
	if (mkdirat(*folder, name, 0700) == 0) {
		const int code = remember(below, path, (size_t)(part - path) + length, error);
		if (code) {
			return code;
		}
	} else if (errno != EEXIST) {
		return sgpu_fail_errno(error, "cannot make the folder for '%s' below '%s'", path, below->name);
	}
	const int next = openat(*folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0) {
		return errno == ELOOP || errno == ENOTDIR ?
			       leaves(below, path, error) :
			       sgpu_fail_errno(error, "cannot open the folder of '%s' below '%s'", path, below->name);
	}
	close(*folder);
	*folder = next;
	return 0;
}

static int open_last(struct seal_below *below, const char *path, const char *name, int folder, mode_t mode,
		     struct sgpu_output *output, struct sgpu_error *error)
{
	struct stat status;
	char *place = NULL;
	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode)) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' below '%s' is there and is not a regular file", path,
				 below->name);
	}
	/* By descriptor, so that the folder is the one that was walked to. */
	if (asprintf(&place, "/proc/self/fd/%d/%s", folder, name) < 0) {
		return sgpu_fail_nomem(error);
	}
	if (cli_is_input(place)) {
		free(place);
		return sgpu_fail(error, SGPU_EUSAGE, "output '%s' below '%s' would replace a file that is read", path,
				 below->name);
	}
	struct sgpu_error fault = { 0 };
	int code = sgpu_output_open(output, place, mode, &fault);
	free(place);
	if (code) {
		return sgpu_fail(error, code, "output '%s' below '%s': %s", path, below->name, fault.text);
	}
	/* For messages: a name that its user knows. It ends in the same name, under which the file will appear. */
	free(output->path);
	if (asprintf(&output->path, "%s/%s", below->name, path) < 0) {
		output->path = NULL;
		sgpu_output_close(output);
		return sgpu_fail_nomem(error);
	}
	return 0;
}

int seal_below_output(struct seal_below *below, const char *path, mode_t mode, struct sgpu_output *output,
		      struct sgpu_error *error)
{
	char *clean = NULL;
	int folder = -1;
	int code = clean_path(below, path, &clean, error);
	if (code) {
		return code;
	}
	folder = openat(below->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0) {
		code = sgpu_fail_errno(error, "cannot open folder '%s'", below->name);
	}
	const char *part = clean;
	for (const char *slash = strchr(part, '/'); !code && slash; slash = strchr(part, '/')) {
		code = descend(below, clean, part, (size_t)(slash - part), &folder, error);
		part = slash + 1;
	}
	if (!code) {
		code = open_last(below, clean, part, folder, mode, output, error);
	}
	if (folder >= 0) {
		close(folder);
	}
	free(clean);
	return code;
}
