/* SPDX-License-Identifier: Apache-2.0
 *
 * Under Gramine: /dev/attestation, virtual files of its library OS. The quote covers the last data written to
 * user_report_data, and is made when it is read.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/io.h>
#include <sgpu/json.h>

#include "attest/collect/evidence.h"

#define USUAL_ROOT "/dev/attestation"

enum { QUOTE_MAX = 1 << 16, WORD_MAX = 64 };

static int path_of(const char *root, const char *name, char path[PATH_MAX], struct sgpu_error *error)
{
	return snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX ? SGPU_OK :
	       sgpu_fail(error, SGPU_EUSAGE, "path '%s' is too long", root);
}

/* "dcap", or "none" without SGX; the caller frees it. */
static int read_type(const char *root, char **word, struct sgpu_error *error)
{
	char path[PATH_MAX];
	size_t size = 0;
	int rc = path_of(root, "attestation_type", path, error);

	*word = NULL;
	if (rc != SGPU_OK) {
		return rc;
	}
	if (access(path, F_OK)) {
		return sgpu_fail(error, SGPU_EUNAVAILABLE, "this process does not run under Gramine: there is no "
				 "'%s'", path);
	}
	rc = sgpu_read_file(path, WORD_MAX, word, &size, error);
	if (rc == SGPU_OK) {
		(*word)[strcspn(*word, "\n")] = '\0';
		if (!strcmp(*word, "none")) {
			rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "Gramine runs without SGX, or without remote "
				       "attestation");
		}
	}
	return rc;
}

static int write_report_data(const char *root, const uint8_t report_data[64], struct sgpu_error *error)
{
	char path[PATH_MAX];
	int rc = path_of(root, "user_report_data", path, error);
	int fd = rc == SGPU_OK ? open(path, O_WRONLY | O_CLOEXEC) : -1;

	if (rc != SGPU_OK) {
		return rc;
	}
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot open '%s'", path);
	}
	rc = sgpu_write(fd, path, report_data, 64, error);
	if (close(fd) && rc == SGPU_OK) {
		rc = sgpu_fail_errno(error, "cannot write '%s'", path);
	}
	return rc;
}

static int read_quote(const char *root, char **quote, size_t *size, struct sgpu_error *error)
{
	char path[PATH_MAX];
	int rc = path_of(root, "quote", path, error);

	*quote = NULL;
	if (rc == SGPU_OK) {
		rc = sgpu_read_file(path, QUOTE_MAX, quote, size, error);
	}
	return rc == SGPU_OK && !*size ? sgpu_fail(error, SGPU_EDEVICE, "Gramine gave an empty quote") : rc;
}

static int collect(const uint8_t report_data[64], struct sgpu_device *device, char **value, size_t *size,
		   struct sgpu_error *error)
{
	const char *root = sgpu_evidence_root("SGPU_GRAMINE_ROOT", USUAL_ROOT);
	char *word = NULL, *quote = NULL;
	size_t quote_size = 0;
	int rc = read_type(root, &word, error);

	(void)device;
	if (rc == SGPU_OK) {
		rc = write_report_data(root, report_data, error);
	}
	if (rc == SGPU_OK) {
		rc = read_quote(root, &quote, &quote_size, error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_evidence_text(json_pack("{s:s, s:o}", "attestation_type", word, "quote",
						  sgpu_json_from_bytes(quote, quote_size)), value, size, error);
	}
	free(quote);
	free(word);
	return rc;
}

const struct sgpu_evidence_source sgpu_evidence_gramine = { "gramine", SGPU_TYPE_GRAMINE, collect };
