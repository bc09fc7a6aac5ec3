/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON for people, and the width of text on a terminal.
 */
#ifndef SGPU_MANIFEST_PRETTY_H
#define SGPU_MANIFEST_PRETTY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* Indented by so many blanks, or on one line with 0. Numbers are the shortest that mean the same:
 * 0.58, and not all the digits of its f64. With `ascii`, other characters are escaped, as \u202e.
 * From malloc; NULL when out of memory. */
char *pretty_json(const json_t *value, size_t indent, bool ascii);

#endif
