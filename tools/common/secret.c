/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes files with secrets for their owner alone.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cli.h"

/* Writes a new file and never replaces one, because data that depend on an overwritten key would be
 * lost. */
static int create_file(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	struct sgpu_output output;
	struct stat status;

	if (lstat(path, &status) == 0) {
		(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists; a key is never overwritten",
				path);
		return sgpu_hint(
			error, "choose another name, or remove the file if nothing depends on it");
	}
	int rc = sgpu_output_open(&output, path, 0600, true, error);
	rc = rc ? rc : sgpu_output_set_mode(&output, 0600, error);
	rc = rc ? rc : sgpu_write(output.fd, path, text, size, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	return rc;
}

bool cli_secret_output(const char *path)
{
	if (cli_is_standard(path) && isatty(STDOUT_FILENO)) {
		cli_usage("refusing to show a secret key on a terminal; use -o FILE");
		return false;
	}
	return true;
}

int cli_write_secret(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	if (!cli_is_standard(path)) {
		return create_file(path, text, size, error);
	}
	const int rc = sgpu_write(STDOUT_FILENO, "standard output", text, size, error);
	struct stat status;

	/* The shell's umask may let others read it. */
	if (!rc && fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_mode & (S_IRWXG | S_IRWXO))) {
		cli_warning("others can read the file that the key goes to (mode %04o), so it will "
			    "be refused as a key: chmod it to 600, or use -o",
			    (unsigned)status.st_mode & 07777u);
	}
	return rc;
}
