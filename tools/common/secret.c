/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes files with secrets for their owner alone.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "cli.h"

bool cli_secret_output(const char *path)
{
	if (cli_is_standard(path) && isatty(STDOUT_FILENO)) {
		cli_usage("refusing to show a secret key on a terminal; use -o FILE");
		return false;
	}
	return true;
}

/* A file is never replaced: data that depend on its key would be lost. */
int cli_write_secret(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	const bool standard = cli_is_standard(path);
	struct sgpu_output output;
	struct stat status;

	if (!standard && lstat(path, &status) == 0) {
		sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists; a key is never overwritten", path);
		return sgpu_hint(
			error, "choose another name, or remove the file if nothing depends on it");
	}
	int rc = sgpu_output_open(&output, standard ? "-" : path, 0600, true, error);
	rc = rc ? rc : sgpu_write(output.fd, output.path, text, size, error);
	rc = rc ? rc : sgpu_output_commit(&output, error);
	sgpu_output_close(&output);
	/* The shell's umask may let others read it. */
	if (!rc && standard && fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_mode & (S_IRWXG | S_IRWXO))) {
		cli_warning("others can read the file that the key goes to (mode %04o), so it will "
			    "be refused as a key: chmod it to 600, or use -o",
			    (unsigned)status.st_mode & 07777u);
	}
	return rc;
}
