/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that verbs read and write.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "parts.h"

int measure_load_x25519(const char *path, struct sgpu_key *key, struct sgpu_error *error)
{
	struct sgpu_key loaded;
	int code = sgpu_key_load(path, &loaded, error);

	if (!code && loaded.kind == SGPU_KEY_OCT) {
		code = sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is a symmetric key; an X25519 key is needed", path);
	}
	code = code ? code : sgpu_key_public(&loaded, key, error);
	sgpu_key_clear(&loaded);
	return code;
}

int measure_read_input(const char *path, const char *what, char **text, size_t *size, int *status)
{
	struct sgpu_error error = { 0 };
	const char *name = NULL;
	int fd;

	*status = cli_input(path, &name, &fd);
	if (*status) {
		return SGPU_EUSAGE;
	}
	int code = sgpu_read_fd(fd, name, SGPU_QUOTE_MAX, text, size, &error);

	if (!code && !*size) {
		code = sgpu_fail_sniffed(&error, fd, name, *text, *size, what);
		free(*text);
		*text = NULL;
	}
	cli_input_close(fd);
	*status = code ? cli_error(&error) : 0;
	return code;
}

int measure_quote_error(const char *path, const char *text, size_t size, struct sgpu_error *error)
{
	const char *name = cli_is_standard(path) ? "standard input" : path;
	const struct sgpu_error inner = *error;

	if (inner.code == SGPU_EINVALID && sgpu_sniff(text, size) != SGPU_SNIFFED_JSON) {
		sgpu_fail_sniffed(error, -1, name, text, size, "a quote");
	} else if (inner.code == SGPU_EINVALID) {
		sgpu_fail(error, inner.code, "'%s': %s", name, inner.text);
	}
	return cli_error(error);
}
