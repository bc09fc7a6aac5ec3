/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest from a file, checked, with its diagnostics reported; and writing text to where -o
 * says.
 */
#ifndef SGPU_MANIFEST_DOCUMENT_H
#define SGPU_MANIFEST_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include <sgpu/manifest.h>

struct document {
	const char *path; /* "-" is standard input */
	const char *name; /* what messages call it */
	char *text;
	size_t size;
	struct sgpu_manifest *manifest; /* NULL when it has errors */
	struct sgpu_diagnostics diagnostics;
};

/* Beside enum sgpu_manifest_options: with --json the records of diagnostics are the result, for
 * standard output. Elsewhere they are messages like any other. */
enum { DOCUMENT_RECORDS_ARE_RESULT = 1 << 16 };

/* Reads and checks with these options; prints every diagnostic. Returns an exit status. path NULL
 * is standard input. The document is to be freed in any case. */
int document_load(const char *path, unsigned options, struct document *document);
/* The same from text in memory, which stays the caller's. */
int document_check(const char *text, size_t size, const char *name, unsigned options,
		   struct document *document);
void document_free(struct document *document);
/* A verb that takes --allow-outside and any number of manifests: calls one() for each, or for
 * standard input, with `options` and SGPU_MANIFEST_INSIDE unless they may lie outside. Returns the
 * highest exit status. */
struct document_request {
	bool outside;
};
int document_each(int argc, char **argv, unsigned options,
		  int (*one)(const char *path, unsigned options));

/* Writes text to a file that appears only when all of it is there; path NULL is standard output.
 * Returns an exit status. `input` (or NULL) is a path that the output may not be. */
int text_write(const char *path, const char *input, const char *text, size_t size);
/* The same for a JSON value with an indent of `indent` (0: one line), whose reference it takes.
 * NULL is out of memory. What may go to a terminal (path NULL) is ASCII. */
int json_write(const char *path, const char *input, json_t *value, size_t indent);
/* Refuses an output that is one of its inputs: prints and returns false. */
bool output_differs(const char *output, const char *input);

#endif
