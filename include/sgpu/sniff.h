/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is, by its first bytes: for messages about one that was given for another. Nothing is decided by it.
 */
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
	SGPU_SNIFFED_UNKNOWN,  /* none of the kinds below */
	SGPU_SNIFFED_EMPTY,
	SGPU_SNIFFED_BATCH,    /* a tar archive that begins with batch.json; staged or not */
	SGPU_SNIFFED_RESPONSE,
	SGPU_SNIFFED_TAR,      /* any other */
	SGPU_SNIFFED_KEY,      /* a JSON Web Key, or a set of them */
	SGPU_SNIFFED_PEM,
	SGPU_SNIFFED_MANIFEST, /* of a job, as JSON */
	SGPU_SNIFFED_JSON,
	SGPU_SNIFFED_PACKED,   /* compressed */
	SGPU_SNIFFED_FORMAT,   /* another format that begins with a known mark */
	SGPU_SNIFFED_TEXT,
	SGPU_SNIFFED_UNEVEN,   /* no mark is known, and the bytes repeat as those of sealed data do not */
};

/* Looks at the beginning of a file, `size` bytes or SGPU_SNIFF_SIZE of them if it is longer. *what, which may be NULL, is
 * what messages call it: "a manifest", "gzip data"; for SGPU_SNIFFED_UNKNOWN "data of no known kind". Static memory. */
enum sgpu_sniffed sgpu_sniff(const void *first, size_t size, const char **what);

/* SGPU_EINVALID: that `name` is `what`, and not a batch or a response; with a hint where there is one. Nothing that was
 * read from "standard input" is "no input", since the program before it in the pipe has said why. */
int sgpu_fail_sniffed(struct sgpu_error *error, const char *name, const void *first, size_t size, const char *wanted);

#ifdef __cplusplus
}
#endif
#endif
