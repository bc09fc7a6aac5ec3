/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of several verbs for times, files and results.
 */
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "parts.h"

enum { HEX_MAX = 64 };

int measure_load_x25519(const char *path, struct sgpu_key *key, struct sgpu_error *error)
{
	struct sgpu_key loaded;
	int rc = sgpu_key_load(path, &loaded, error);

	if (!rc && loaded.kind == SGPU_KEY_OCT) {
		rc = sgpu_fail(error, SGPU_EINVALID,
			       "'%s' is a symmetric key; an X25519 key is needed", path);
	}
	rc = rc ? rc : sgpu_key_public(&loaded, key, error);
	sgpu_key_clear(&loaded);
	return rc;
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

json_t *measure_hex(const void *data, size_t size)
{
	char text[2 * HEX_MAX + 1] = "";

	if (size <= HEX_MAX) {
		sgpu_hex_encode(data, size, text);
	}
	return json_string(text);
}
