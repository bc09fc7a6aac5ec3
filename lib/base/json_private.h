/* SPDX-License-Identifier: Apache-2.0
 *
 * What json.c and json_split.c share.
 */
#ifndef SGPU_BASE_JSON_PRIVATE_H
#define SGPU_BASE_JSON_PRIVATE_H

#include <stdbool.h>

#include <sgpu/json.h>

/* As sgpu_json_parse_most, of any value when `any`. *position is the byte at fault. */
int sgpu_json_parse_at(const char *text, size_t size, bool any, size_t values_max, json_t **value,
		       size_t *position, struct sgpu_error *error);
/* Line and column, in characters, of a byte. */
void sgpu_json_place(const char *text, size_t position, int *line, int *column);

#endif
