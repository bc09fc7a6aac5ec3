/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs below a folder. Where an output goes is said by the manifest, which may be somebody
 * else's: a path must not lead out of the folder, by its text or through a link that lies in the
 * way.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "parts.h"

int seal_refuse_name(const char *place, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EPOLICY,
		  "'%s' is on a file system where every file has a name: if this was killed, "
		  "plaintext would be left there",
		  place);
	return sgpu_hint(error,
			 "choose another place, or accept that with --allow-named-temporary");
}

static int leaves(const char *folder, const char *path, struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EPOLICY, "the output '%s' is not below '%s'", path, folder);
	return sgpu_hint(error, "take it by itself with --only ID and -o FILE");
}

/* Appends the parts of a path but empty ones and ".", and takes one away for "..", as the check of
 * manifests reads them: by their text alone. False when one leads out. `clean` holds strlen(path) +
 * 1 bytes. */
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

static int clean_path(const char *folder, const char *path, char **clean, struct sgpu_error *error)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	if (!*last || !strcmp(last, ".") || !strcmp(last, "..")) {
		return sgpu_fail(error, SGPU_EINVALID, "the output '%s' is a directory", path);
	}
	if (path[0] == '/' || strlen(path) >= PATH_MAX) {
		return leaves(folder, path, error);
	}
	char *made = malloc(strlen(path) + 1);
	if (!made) {
		return sgpu_fail_nomem(error);
	}
	if (!join_parts(path, made)) {
		free(made);
		return leaves(folder, path, error);
	}
	*clean = made;
	return 0;
}

int seal_below_check(const struct seal_below *below, const char *path, bool replace,
		     struct sgpu_error *error)
{
	struct stat status;
	char *clean = NULL, *place = NULL;
	int code = clean_path(below->name, path, &clean, error);

	if (!code && asprintf(&place, "/proc/self/fd/%d/%s", below->folder.fd, clean) < 0) {
		place = NULL;
		code = sgpu_fail_nomem(error);
	}
	if (!code && cli_is_input(place)) {
		code = sgpu_fail(error, SGPU_EUSAGE,
				 "output '%s' below '%s' would replace a file that is read", clean,
				 below->name);
	} else if (!code && !replace && lstat(place, &status) == 0 && S_ISREG(status.st_mode)) {
		(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s/%s' exists", below->name, clean);
		code = sgpu_hint(error, "--force replaces it");
	}
	free(place);
	free(clean);
	return code;
}

int seal_below_output(const struct seal_below *below, const char *path, mode_t mode, bool replace,
		      struct sgpu_output *output, struct sgpu_error *error)
{
	char *clean = NULL, *shown = NULL;
	int code = clean_path(below->name, path, &clean, error);

	if (!code && asprintf(&shown, "%s/%s", below->name, clean) < 0) {
		shown = NULL;
		code = sgpu_fail_nomem(error);
	}
	if (!code) {
		code = sgpu_output_open_beneath(output, below->folder.fd, clean, shown, mode,
						!replace, error);
	}
	free(shown);
	free(clean);
	return code;
}
