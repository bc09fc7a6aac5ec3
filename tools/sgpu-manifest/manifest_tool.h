/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-manifest.
 */
#ifndef SGPU_MANIFEST_TOOL_H
#define SGPU_MANIFEST_TOOL_H

#include <stdbool.h>

#include <jansson.h>

#include <sgpu/batch.h>
#include <sgpu/error.h>
#include <sgpu/manifest.h>

#include "files/files.h"
#include "ops/ops.h"
#include "transfer/transfer.h"
#include "cli.h"

CLI_VERB(check);
CLI_VERB(show);
CLI_VERB(canon);
CLI_VERB(schema);
CLI_VERB(init);
CLI_VERB(pack);
CLI_VERB(split);
CLI_VERB(merge);
CLI_VERB(ops);

/* The options of all verbs but init. */
struct request {
	const char *output, *manifest, *manifest_out;
	bool outside, by_hash;
	unsigned shards;
	unsigned devices;
	struct cli_list at; /* SEGMENT=HANDLE */
};

/* document.c */
struct document {
	const char *path; /* "-" is standard input */
	const char *name; /* in messages */
	char *text;
	size_t size;
	struct sgpu_manifest *manifest; /* NULL when it has errors */
	struct sgpu_diagnostics diagnostics;
};

/* Besides enum sgpu_manifest_options: with --json, records on standard output are the result. */
enum { DOCUMENT_RECORDS_ARE_RESULT = 1 << 16 };

extern const char DOCUMENT_MADE[];
/* Reads and checks a manifest with `options` (path NULL: standard input); prints every diagnostic.
 * Returns an exit status. The caller frees the document in any case. */
int document_load(const char *path, unsigned options, struct document *document);
int document_check(const json_t *value, const char *name, unsigned options,
		   struct document *document);
void document_free(struct document *document);

/* The file appears only when whole; path NULL is standard output. Returns an exit status. */
int text_write(const char *path, const char *text, size_t size);
/* As cli_write_json. */
int json_write(const char *path, json_t *value);
json_t *shape_json(const struct sgpu_type *type);
/* "." if a path names no folder. From malloc; NULL when out of memory. */
char *folder_of(const char *path);

/* payload.c: the payload files of a manifest's inputs. */
struct payload_folder {
	char *path; /* the real path of the manifest's folder */
	bool allow_outside;
	uint64_t hashed; /* bytes so far, for the progress line */
	int spool;	 /* descriptor of what was unpacked, or -1 */
};

/* Sets folder->path from the manifest's path ("-": the current folder). */
SGPU_MUST_CHECK int payload_folder_open(const char *manifest_path, struct payload_folder *folder,
					struct sgpu_error *error);
void payload_folder_close(struct payload_folder *folder);

/* Opens an input's file, but follows no link and waits for no pipe, since either may have replaced
 * the resolved path. Checks its size if it has no format. *size: of the payload, if the manifest
 * does not state it. */
SGPU_MUST_CHECK int payload_open(const struct payload_folder *folder,
				 const struct sgpu_segment *segment, char **path, int *fd,
				 uint64_t *size, struct sgpu_error *error);
/* Finds an input's payload, checks its size, and sets size, location and, for LOW data, kt128 of
 * `entry`. Errors: SGPU_ESYSTEM, SGPU_EINVALID (the size does not fit), SGPU_EPOLICY (outside the
 * folder, or HIGH data that would travel in the clear). */
SGPU_MUST_CHECK int payload_take(struct payload_folder *folder, const struct sgpu_segment *segment,
				 struct sgpu_batch_segment *entry, struct sgpu_error *error);
/* Copies a LOW payload from its file to its place. Its digest tells a runner of any change. */
int payload_place(struct sgpu_batch_segment *entry, struct sgpu_error *error);
/* Compares each module_digest with the image's file, and adds missing ones; then a new document,
 * checked with `options`, replaces the old one. Prints every error; fails for an image that cannot
 * be read. Returns an exit status. */
int module_digests_fill(struct document *document, const struct payload_folder *folder,
			unsigned options);

/* Appends to folder->spool from now on; *at: where. */
SGPU_MUST_CHECK int payload_spool(struct payload_folder *folder, uint64_t *at,
				  struct sgpu_error *error);
/* Moves a payload of entry->size bytes, or only reads it if the sink is empty, and sets kt128. */
SGPU_MUST_CHECK int payload_move(struct payload_folder *folder, struct sgpu_endpoint source,
				 struct sgpu_endpoint sink, const char *name,
				 struct sgpu_batch_segment *entry, struct sgpu_error *error);
/* The same for a file, which is only read. */
SGPU_MUST_CHECK int payload_hash(struct payload_folder *folder, int fd, const char *name,
				 uint64_t offset, struct sgpu_batch_segment *entry,
				 struct sgpu_error *error);

/* array.c: for a file that has a format. */
SGPU_MUST_CHECK int array_take(struct payload_folder *folder, const struct sgpu_segment *segment,
			       struct sgpu_batch_segment *entry, struct sgpu_error *error);
SGPU_MUST_CHECK int array_note(const struct payload_folder *folder,
			       const struct sgpu_manifest *manifest, struct sgpu_batch *batch,
			       struct sgpu_error *error);

/* verb_ops.c */
enum { OP_TEXT_MAX = 160 };
/* "f32 f64". */
void op_dtypes_text(unsigned dtypes, char text[OP_TEXT_MAX]);
/* Writes the names of an operation's inputs or outputs: "input weights [bias]". */
const char *op_arguments(const struct sgpu_op *op, bool outputs, char text[OP_TEXT_MAX]);
/* Returns an operation; NULL after a message with the nearest name: exit status 2. */
const struct sgpu_op *op_find(const char *name);

#endif
