/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of the kernel's, which tell about the machine.
 */
#ifndef SGPU_BASE_PEEK_H
#define SGPU_BASE_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* The beginning of a file, at most room - 1 bytes, terminated. Whatever is in the file's place, it
 * neither waits nor reads more than that. False, and an empty text, if nothing can be read; an
 * empty file is true. */
bool sgpu_peek(const char *path, char *text, size_t room);
/* The same of the first line, up to a byte that is no printable ASCII; or what stands in brackets
 * there, which the kernel puts around what is chosen: "this [that]". */
bool sgpu_peek_line(const char *path, char *line, size_t room);

#endif
