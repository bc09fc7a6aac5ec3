/* SPDX-License-Identifier: Apache-2.0
 *
 * The passphrases of key files: from a descriptor, which has one on each line, or from the terminal
 * by libcrypto, which turns the echo off and, whatever signal comes, on again.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include <sgpu/base.h>

#include "passphrase.h"

int passphrase_fd = -1;

static int take_descriptor(void *unused, const char *value)
{
	struct sgpu_error error = { 0 };
	uint64_t fd;

	(void)unused;
	if (sgpu_parse_u64(value, "--passphrase-fd", 0, 65535, &fd, &error) != SGPU_OK) {
		return cli_error(&error);
	}
	passphrase_fd = (int)fd;
	return 0;
}

const struct cli_option passphrase_rows[] = {
	{ "passphrase-fd", 0, "N", "read passphrases of keys there, one a line",
	  CLI_TAKE(take_descriptor) },
	CLI_END,
};

/* Reads byte by byte, to leave what follows the line to the next reader. */
static int read_line(int fd, char text[SGPU_PASSPHRASE_MAX], size_t *size, struct sgpu_error *error)
{
	ssize_t got;
	char byte = 0;

	for (*size = 0; (got = read(fd, &byte, 1)) == 1 && byte != '\n'; text[(*size)++] = byte) {
		if (*size == SGPU_PASSPHRASE_MAX) {
			return sgpu_fail(error, SGPU_EINVALID, "a passphrase has at most %d bytes",
					 SGPU_PASSPHRASE_MAX);
		}
	}
	return got < 0	? sgpu_fail_errno(error, "cannot read a passphrase")
	       : !*size ? sgpu_fail(error, SGPU_EINVALID, "the passphrase is empty")
			: 0;
}

static int ask(const char *name, bool twice, char text[SGPU_PASSPHRASE_MAX], size_t *size,
	       struct sgpu_error *error)
{
	if (passphrase_fd >= 0) {
		return read_line(passphrase_fd, text, size, error);
	}
	/* Without a terminal, libcrypto would read standard input. */
	const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	if (terminal < 0) {
		sgpu_fail(error, SGPU_EUNAVAILABLE,
			  "there is no terminal to ask for the passphrase of '%s'", name);
		return sgpu_hint(error, "--passphrase-fd takes it from a descriptor");
	}
	close(terminal);
	sgpu_fail(error, SGPU_ECANCELED, "Passphrase of '%s': ", name);
	if (EVP_read_pw_string_min(text, 1, SGPU_PASSPHRASE_MAX - 1, error->text, twice)) {
		ERR_clear_error();
		return sgpu_fail(error, SGPU_ECANCELED, "no passphrase was given");
	}
	*size = strlen(text);
	return 0;
}

int passphrase_ask(const char *name, char text[SGPU_PASSPHRASE_MAX], size_t *size,
		   struct sgpu_error *error)
{
	return ask(name, false, text, size, error);
}

int passphrase_protect(const char *name, char **text, size_t *size, struct sgpu_error *error)
{
	char passphrase[SGPU_PASSPHRASE_MAX] = "";
	size_t length = 0;
	int rc = ask(name, true, passphrase, &length, error);

	rc = rc ? rc : sgpu_key_protect(passphrase, length, text, size, error);
	sgpu_wipe(passphrase, sizeof(passphrase));
	return rc;
}
