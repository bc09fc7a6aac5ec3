/* SPDX-License-Identifier: Apache-2.0
 *
 * Other programs of the project, found where this one is.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

int measure_runner_path(char *path, size_t size, struct sgpu_error *error)
{
	char self[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0) {
		return sgpu_fail_errno(error,
				       "cannot tell where this program is, from '/proc/self/exe'");
	}
	self[length] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot tell where this program is");
	}
	*slash = '\0';
	if ((size_t)snprintf(path, size, "%s/sgpu-run", self) >= size) {
		return sgpu_fail(error, SGPU_ESYSTEM, "the path of 'sgpu-run' is too long");
	}
	if (access(path, R_OK)) {
		(void)sgpu_fail_errno(error, "cannot read the runner '%s'", path);
		return sgpu_hint(error, "name it with --runner");
	}
	return 0;
}
