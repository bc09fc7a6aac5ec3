/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON that is easier to read in a test: with ' for ".
 */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdlib.h>
#include <string.h>

/* The text with " for each ', from malloc. */
static inline char *json_text(const char *text)
{
	char *copy = strdup(text);

	if (!copy) {
		abort();
	}
	for (char *at = copy; (at = strchr(at, '\'')) != NULL;) {
		*at = '"';
	}
	return copy;
}

#endif
