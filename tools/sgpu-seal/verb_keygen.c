/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-seal keygen: a new secret key, for its owner's eyes only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <sgpu/base.h>
#include <sgpu/crypto.h>
#include <sgpu/io.h>

#include "verbs.h"

enum { OPTION_X25519 = CLI_LONG };

const struct cli_option keygen_options[] = {
	CLI_COMMON,
	{ "x25519", OPTION_X25519, NULL, "a key pair for recipients, not a symmetric key" },
	{ "output", 'o', "FILE", "new file for the key (default: standard output)" },
	{ NULL, 0, NULL, NULL },
};

/* A new file, or none: a key that is overwritten takes all that was sealed with it along. */
static int create_file(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST) {
		(void)sgpu_fail(error, SGPU_ESYSTEM, "'%s' exists; a key is never overwritten", path);
		return sgpu_hint(error, "choose another name, or remove the file if nothing is sealed with it");
	}
	if (fd < 0) {
		return sgpu_fail_errno(error, "cannot create '%s'", path);
	}
	int code = fchmod(fd, 0600) ? sgpu_fail_errno(error, "cannot set the mode of '%s'", path) : 0;
	if (!code) {
		code = sgpu_write(fd, path, text, size, error);
	}
	if (!code && fsync(fd)) {
		code = sgpu_fail_errno(error, "cannot write '%s'", path);
	}
	if (close(fd) && !code) {
		code = sgpu_fail_errno(error, "cannot write '%s'", path);
	}
	if (code) {
		unlink(path);
	}
	return code;
}

/* A redirection was opened by a shell, with its umask. */
static void warn_of_readers(void)
{
	struct stat status;

	if (fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & (S_IRWXG | S_IRWXO))) {
		cli_warning("others can read the file that the key goes to (mode %04o), so it will be refused as a key: "
			    "chmod it to 600, or use -o", (unsigned)status.st_mode & 07777u);
	}
}

static int write_key(const struct sgpu_key *key, const char *path, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int code = sgpu_key_text(key, &text, &size, error);

	if (!code) {
		code = path ? create_file(path, text, size, error)
			    : sgpu_write(STDOUT_FILENO, "standard output", text, size, error);
	}
	sgpu_free_wiped(&text, size);
	return code;
}

/* What may be said about a key. */
static int report(const struct sgpu_key *key, const char *path)
{
	const char *kind = key->kind == SGPU_KEY_OCT ? "oct" : "X25519";

	if (!cli_json) {
		cli_detail("%s key %s", kind, key->kid);
		return 0;
	}
	json_t *record = json_pack("{s:s, s:s, s:s*}", "kid", key->kid, "kind", kind, "file", path);
	FILE *to = path ? stdout : stderr;
	bool written = record && json_dumpf(record, to, JSON_COMPACT) == 0 && fputc('\n', to) != EOF &&
		       fflush(to) == 0;
	json_decref(record);
	return written ? 0 : cli_fail(SGPU_ESYSTEM, "cannot write the record");
}

int verb_keygen(int argc, char **argv)
{
	enum sgpu_key_kind kind = SGPU_KEY_OCT;
	struct sgpu_error error = { 0 };
	struct sgpu_key key;
	const char *path = NULL, *value;
	int first, option;

	while ((option = cli_next(argc, argv, &value, &first))) {
		if (option < 0) {
			return 2;
		}
		if (option == OPTION_X25519) {
			kind = SGPU_KEY_X25519;
		} else if (option == 'o') {
			path = strcmp(value, "-") ? value : NULL;
		}
	}
	if (!cli_positionals(argc, first, 0, 0)) {
		return 2;
	}
	if (!path && isatty(STDOUT_FILENO)) {
		return cli_usage("refusing to show a secret key on a terminal; use -o FILE");
	}
	int code = sgpu_key_generate(kind, &key, &error);
	if (!code) {
		code = write_key(&key, path, &error);
	}
	if (!code && !path) {
		warn_of_readers();
	}
	int status = code ? cli_error(&error) : report(&key, path);
	sgpu_key_clear(&key);
	return status;
}
