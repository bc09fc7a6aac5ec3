/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes files with secrets for their owner alone, and hardens processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

/* Warns if standard output is a file that others can read, as the shell's umask may allow. */
static void warn_of_readers(void)
{
	struct stat status;

	if (fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_mode & (S_IRWXG | S_IRWXO))) {
		cli_warning("others can read the file that the key goes to (mode %04o), so it will "
			    "be refused as a key: "
			    "chmod it to 600, or use -o",
			    (unsigned)status.st_mode & 07777u);
	}
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
	if (!rc) {
		warn_of_readers();
	}
	return rc;
}

/* Hardening: a process with keys and plaintext leaves no core file, lets no other process of the
 * user attach, and starts no program with more privileges. */

/* A sanitizer's leak checker attaches to its own process, which must allow that. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

const char *cli_harden_off(void)
{
#ifdef SANITIZED
	return "this build is for a sanitizer";
#else
	const char *debug = secure_getenv("SGPU_DEBUG");

	return debug && *debug && strcmp(debug, "0") != 0 ? "SGPU_DEBUG is set" : NULL;
#endif
}

void cli_harden(void)
{
	const struct rlimit none = { 0, 0 };

#ifndef SANITIZED
	if (cli_harden_off()) {
		cli_warning("%s: others can attach to this process and read all that it holds",
			    cli_harden_off());
		return;
	}
#endif
	if (setrlimit(RLIMIT_CORE, &none) != 0) {
		cli_warning("core files cannot be switched off");
	}
#ifndef SANITIZED
	/* Also prevents core files for a program in core_pattern, which ignores the limit. */
	if (prctl(PR_SET_DUMPABLE, 0) != 0) {
		cli_warning("other processes cannot be kept from attaching");
	}
#endif
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
		cli_warning("programs that it starts cannot be kept from gaining rights");
	}
}
