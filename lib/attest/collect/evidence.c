/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources of evidence share: files of the kernel's interfaces, and records as JSON text.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "attest/collect/evidence.h"

static int path_of(const char *root, const char *name, char path[PATH_MAX],
		   struct sgpu_error *error)
{
	return snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX
		       ? SGPU_OK
		       : sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
}

bool sgpu_evidence_has(const char *root, const char *name)
{
	char path[PATH_MAX];

	return path_of(root, name, path, NULL) == SGPU_OK && access(path, F_OK) == 0;
}

int sgpu_evidence_read(const char *root, const char *name, size_t limit, char **data, size_t *size,
		       struct sgpu_error *error)
{
	char path[PATH_MAX];
	int rc = path_of(root, name, path, error);

	*data = NULL;
	return rc < 0 ? rc : sgpu_read_file(path, limit, data, size, error);
}

int sgpu_evidence_write(const char *root, const char *name, const uint8_t report_data[64],
			struct sgpu_error *error)
{
	char path[PATH_MAX];
	int fd, rc = path_of(root, name, path, error);

	if (rc < 0) {
		return rc;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	rc = sgpu_write(fd, path, report_data, 64, error);
	if (close(fd) && rc == SGPU_OK) {
		rc = errno == EBUSY ? sgpu_fail(error, SGPU_EUNAVAILABLE,
						"the driver of '%s' is busy", root)
				    : sgpu_fail_errno(error, "cannot write '%s'", path);
	}
	return rc;
}

int sgpu_evidence_text(json_t *document, char **value, size_t *size, struct sgpu_error *error)
{
	*value = document ? json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	json_decref(document);
	if (!*value) {
		return sgpu_fail_nomem(error);
	}
	*size = strlen(*value);
	return SGPU_OK;
}
