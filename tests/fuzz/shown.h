/* SPDX-License-Identifier: Apache-2.0
 *
 * What may reach a terminal.
 */
#ifndef SHOWN_H
#define SHOWN_H

#include <stdbool.h>
#include <string.h>

#include <sgpu/base.h>

/* Nothing is left in the text that has to be escaped. */
static inline bool is_shown(const char *text, size_t size)
{
	static char escaped[1 << 12];

	for (size_t i = 0; i < size; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) {
			return false;
		}
	}
	return sgpu_escape(text, size, escaped, sizeof(escaped), true) == size &&
	       memcmp(escaped, text, size) == 0;
}

#endif
