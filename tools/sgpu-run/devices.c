/* SPDX-License-Identifier: Apache-2.0
 *
 * See worker.h.
 */
#include "worker.h"

#include <stdio.h>
#include <string.h>

#include <sgpu/base.h>

static size_t kind_length(const char *name)
{
	return strcspn(name, ":");
}

/* Whether a name continues the kind of the one before it: the "1" of "cuda:0,1". */
static bool lacks_kind(const char *name)
{
	return strncmp(name, "GPU-", 4) == 0 || (*name >= '0' && *name <= '9');
}

static int check(const struct device_list *list, struct sgpu_error *error)
{
	const char *first = list->names[0];

	for (int i = 1; i < list->count; i++) {
		const char *name = list->names[i];

		if (kind_length(name) != kind_length(first) ||
		    strncmp(name, first, kind_length(first)) != 0 || strcmp(name, "auto") == 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "--device: '%s' and '%s' are not of one kind", first,
					 name);
		}
		for (int k = 0; k < i; k++) {
			/* The CPU device can be opened several times: for tests. */
			if (strcmp(list->names[k], name) == 0 && strcmp(name, "cpu") != 0) {
				return sgpu_fail(error, SGPU_EUSAGE,
						 "--device: '%s' is named twice", name);
			}
		}
	}
	return SGPU_OK;
}

int devices_parse(const char *selector, struct device_list *list, struct sgpu_error *error)
{
	const char *from = selector;
	int size;

	memset(list, 0, sizeof(*list));
	if (strcmp(selector, "cuda:all") == 0) {
		list->all = true;
		return SGPU_OK;
	}
	for (;; from++) {
		const size_t length = strcspn(from, ",");

		if (list->count == WORKER_DEVICES_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: more than %d devices",
					 WORKER_DEVICES_MAX);
		}
		if (length == 0) {
			return sgpu_fail(error, SGPU_EUSAGE,
					 "--device: '%s' names no device at one place", selector);
		}
		size = snprintf(list->names[list->count], sizeof(list->names[0]), "%s%.*s",
				list->count > 0 && lacks_kind(from) &&
						strncmp(list->names[0], "cuda:", 5) == 0
					? "cuda:"
					: "",
				(int)length, from);
		if (size < 0 || (size_t)size >= sizeof(list->names[0])) {
			return sgpu_fail(error, SGPU_EUSAGE, "--device: a name in '%s' is too long",
					 selector);
		}
		list->count++;
		from += length;
		if (!*from) {
			return check(list, error);
		}
	}
}
