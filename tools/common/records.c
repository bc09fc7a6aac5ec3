/* SPDX-License-Identifier: Apache-2.0
 *
 * Results that tools write alike: JSON, and whole texts.
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cli_print_json(json_t *value, FILE *out, size_t flags)
{
	char *line = value ? json_dumps(value, flags | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9))
			   : NULL;
	const int fd = out == stdout ? cli_output_fd : out == stderr ? cli_error_fd : -1;
	const size_t size = line ? strlen(line) : 0;
	struct sgpu_error error;
	bool written;

	json_decref(value);
	if (!line) {
		return cli_fail(SGPU_ENOMEM, "out of memory, or a text of the record is not UTF-8");
	}
	/* One write, so that lines of several processes do not mix. */
	line[size] = '\n'; /* in place of the NUL */
	written = (fd >= 0 || fwrite(line, size + 1, 1, out) == 1) && fflush(out) == 0 &&
		  (fd < 0 || sgpu_write(fd, "", line, size + 1, NULL) == SGPU_OK);
	free(line);
	if (!written) {
		sgpu_fail_write(&error, out == stdout ? "standard output" : "standard error");
	}
	return written ? 0 : cli_error(&error);
}

json_t *cli_json_text(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;
	char *copy = text && !string ? strdup(text) : NULL;

	for (char *p = copy; p && *p; p++) {
		*p = (unsigned char)*p < 0x80 ? *p : '?';
	}
	string = copy ? json_string(copy) : string;
	free(copy);
	return string;
}

int cli_write_text(const char *path, mode_t mode, const char *text, size_t size,
		   struct sgpu_error *error)
{
	struct sgpu_output output = SGPU_OUTPUT_INIT;
	int rc = cli_output_take(&output, path, mode, error);

	if (rc == SGPU_OK) {
		rc = sgpu_write(output.fd, cli_is_standard(path) ? "standard output" : path, text,
				size, error);
	}
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	return rc;
}

int cli_write_json(const char *path, mode_t mode, json_t *value, struct sgpu_error *error)
{
	char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
	const size_t size = text ? strlen(text) : 0;
	int rc = text ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc == SGPU_OK) {
		text[size] = '\n'; /* in place of the NUL, which is not written */
		rc = cli_write_text(path, mode, text, size + 1, error);
	}
	free(text);
	json_decref(value);
	return rc;
}
