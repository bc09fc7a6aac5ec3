/* SPDX-License-Identifier: Apache-2.0
 *
 * Published test vectors for the unit tests, from the folder that SGPU_VECTORS names.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* The path of a vector file, or NULL when it cannot be read. */
const char *vectors_path(const char *name, char *path, size_t size);

/* Bytes from hexadecimal, from malloc (never NULL), and their number. Ends the program on anything
 * else. */
uint8_t *vectors_hex(const char *text, size_t *size);

/* The same of a member of an object. */
uint8_t *vectors_member(const json_t *object, const char *key, size_t *size);

/* Whether a member is this text. */
int vectors_is(const json_t *object, const char *key, const char *value);

#endif
