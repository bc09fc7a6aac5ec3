/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises a file by its first bytes, for messages about a file that was given in place of
 * another. No decision may depend on it. */
#ifndef SGPU_SNIFF_H
#define SGPU_SNIFF_H

#include <stdbool.h>
#include <stddef.h>

#include <sgpu/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SGPU_SNIFF_SIZE = 512 }; /* bytes that are looked at */

enum sgpu_sniffed {
	SGPU_SNIFFED_UNKNOWN, /* what sealed data look like: random bytes */
	SGPU_SNIFFED_EMPTY,
	SGPU_SNIFFED_BATCH, /* a tar archive that begins with batch.json or response.json */
	SGPU_SNIFFED_TAR,   /* any other */
	SGPU_SNIFFED_KEY,   /* a JSON Web Key, or a set of them */
	SGPU_SNIFFED_PEM,
	SGPU_SNIFFED_JSON,
	SGPU_SNIFFED_OTHER,
};

/* Recognises the beginning of a file, `size` bytes or SGPU_SNIFF_SIZE of a longer one. */
enum sgpu_sniffed sgpu_sniff(const void *first, size_t size);

/* Reports that `name`, which was read from fd, is not what was wanted but what it was recognised
 * as, with a hint if there is one. Returns SGPU_EINVALID. Empty "standard input" is "no input";
 * where that is a pipe or a socket, the program before has said why, and the code is SGPU_ENOINPUT.
 */
int sgpu_fail_sniffed(struct sgpu_error *error, int fd, const char *name, const void *first,
		      size_t size, const char *wanted);

#ifdef __cplusplus
}
#endif
#endif
