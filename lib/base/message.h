/* SPDX-License-Identifier: Apache-2.0
 *
 * Formatting of messages, for errors and for the faults of a manifest.
 */
#ifndef SGPU_BASE_MESSAGE_H
#define SGPU_BASE_MESSAGE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* As vsnprintf, but what a terminal obeys and what is no UTF-8 is escaped in all of the result, and
 * a value in quotes
 * ('%s') that is no name is cut to its beginning, or to nothing when it looks like a key. */
void sgpu_message_format(char *text, size_t size, const char *format, va_list *arguments);

/* ---- escape.c ---- */
/* The bytes of the character of UTF-8 at the beginning of the text; 0 when there is none, or one
 * that a terminal obeys or does not show. size: not 0. */
size_t sgpu_shown_length(const char *text, size_t size);
/* Whether a value can be a name, which messages show in full. */
bool sgpu_is_name(const char *value, size_t size);

#endif
