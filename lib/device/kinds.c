/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <device/backend.h>

static const struct sgpu_device_backend *const backends[] = { &sgpu_device_cuda, &sgpu_device_cpu,
							      NULL };

int sgpu_device_parts(struct sgpu_device_part *parts)
{
	int count = 0, i;

	for (i = 0; backends[i]; i++) {
		count += backends[i]->parts ? backends[i]->parts(parts + count) : 0;
	}
	return count;
}

/* Whether a word is an index, or a GPU's UUID or its beginning. */
static bool is_one(const char *word)
{
	if (strncmp(word, "GPU-", 4) == 0) {
		return word[4] != '\0' &&
		       strspn(word + 4, "0123456789abcdefABCDEF-") == strlen(word + 4);
	}
	return *word != '\0' && strspn(word, "0123456789") == strlen(word);
}

/* "cuda", "cuda:1" and "cuda:GPU-5d0c" name the backend "cuda". */
static bool names(const char *selector, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(selector, name, length) != 0) {
		return false;
	}
	return selector[length] == '\0' ||
	       (selector[length] == ':' && is_one(selector + length + 1));
}

static int find(const char *selector, const struct sgpu_device_backend **backend,
		struct sgpu_error *error)
{
	struct sgpu_error ignored;
	size_t i;

	for (i = 0; backends[i]; i++) {
		*backend = backends[i];
		if (strcmp(selector, "auto") == 0 ? backends[i]->probe(&ignored) == 0
						  : names(selector, backends[i]->name)) {
			return SGPU_OK;
		}
	}
	sgpu_fail(error, SGPU_EUSAGE, "'%s' names no device", selector);
	sgpu_hint(error, "devices are 'cpu', 'cuda', 'cuda:N', 'cuda:GPU-UUID' and 'auto'");
	return SGPU_EUSAGE;
}

int sgpu_device_open(const char *selector, const struct sgpu_device_config *config,
		     struct sgpu_device **device, struct sgpu_error *error)
{
	static const struct sgpu_device_config standard;
	const struct sgpu_device_backend *backend;
	struct sgpu_error missing = { 0 };
	int rc;

	*device = NULL;
	selector = selector ? selector : "auto";
	rc = find(selector, &backend, error);
	if (rc < 0) {
		return rc;
	}
	if (strcmp(selector, "auto") == 0) {
		selector = backend->name;
	}
	rc = backend->probe(&missing);
	if (rc < 0) {
		sgpu_fail(error, rc, "no device '%s': %s", selector, missing.text);
		sgpu_hint(error, "%s", missing.hint);
		return rc;
	}
	return backend->open(selector, config ? config : &standard, device, error);
}
