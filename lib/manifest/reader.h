/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of lib/manifest.
 */
#ifndef SGPU_MANIFEST_READER_H
#define SGPU_MANIFEST_READER_H

#include <sgpu/base.h>

#include "base/json.h"
#include "manifest/manifest.h"

enum {
	SGPU_WHERE_MAX = 64, /* "/segments/65535/data_type_info/shape" */
	SGPU_HINT_MAX = 160,
};

enum sgpu_unsure {
	SGPU_UNSURE_DIRECTION = 1,   /* the segment's direction was wrong */
	SGPU_UNSURE_SENSITIVITY = 2, /* its sensitivity_level was wrong */
};

/* An entry and one of its dependencies: indexes of segments, or ~index of operations. */
struct sgpu_dependency {
	int of, on;
};

struct sgpu_reader {
	struct sgpu_manifest *manifest;
	struct sgpu_diagnostics *diagnostics;
	unsigned options;
	struct sgpu_json_list lists[2];
	json_t *outputs;
	json_t *variables;
	char where[SGPU_WHERE_MAX]; /* JSON pointer */
	uint8_t *unsure;	    /* per segment: set of enum sgpu_unsure, all reported */
	struct sgpu_dependency *dependencies;
	size_t dependency_count, dependency_capacity;
	size_t kept, room; /* bytes of manifest->texts: used, in all */
	bool use_unsure;   /* an id or a reference is wrong, so who uses a segment is not known */
	bool no_memory;
};

/* ---- fields.c ---- */
/* Adds a diagnostic at the value being read, or its member `field` unless NULL. Returns false. */
bool sgpu_reader_report(struct sgpu_reader *reader, const char *field, const char *hint,
			const char *format, ...) SGPU_PRINTF(4, 5);
/* sgpu_reader_at sets `where` to a list's entry. sgpu_reader_enter appends to `where` and returns
 * its old end, where the caller writes a NUL afterwards. */
void sgpu_reader_at(struct sgpu_reader *reader, int list, int index);
char *sgpu_reader_enter(struct sgpu_reader *reader, const char *format, ...) SGPU_PRINTF(2, 3);
/* Returns "did you mean 'x'?", cut to fit, or NULL if no name is near. */
const char *sgpu_reader_hint(const char *name, const char *const *names, char hint[SGPU_HINT_MAX]);
/* Writes a number with as many digits as identify it: 0.58. */
enum { SGPU_NUMBER_TEXT_MAX = 32 };
const char *sgpu_reader_number(double number, char text[SGPU_NUMBER_TEXT_MAX]);
/* Adds a diagnostic, whose text begins with the value, quoted and shortened, or with its kind. */
bool sgpu_reader_refuse(struct sgpu_reader *reader, const char *field, const char *hint,
			const json_t *value, const char *format, ...) SGPU_PRINTF(5, 6);
/* Stores an object's members in values[], in the order of the NULL-terminated names. Reports
 * unknown members, and missing ones of the first `required`. Returns false if the value is no
 * object. */
bool sgpu_reader_fields(struct sgpu_reader *reader, json_t *object, const char *const *names,
			int required, json_t **values);
/* Returns a string without NUL, or NULL after a diagnostic. If the value is NULL, there is no
 * diagnostic. */
const char *sgpu_reader_string(struct sgpu_reader *reader, const char *field, const json_t *value);
/* The same, for an id. */
const char *sgpu_reader_id(struct sgpu_reader *reader, const char *field, const json_t *value);
bool sgpu_reader_u64(struct sgpu_reader *reader, const char *field, const json_t *value,
		     uint64_t *number);
/* Returns an index into the NULL-terminated choices, or `otherwise` after a diagnostic. */
int sgpu_reader_choice(struct sgpu_reader *reader, const char *field, const json_t *value,
		       const char *const *choices, int otherwise);
/* Returns the index of an id, or -1 after a diagnostic that the id is not `what` ("a segment"). If
 * the id is NULL, there is no diagnostic. */
int sgpu_reader_reference(struct sgpu_reader *reader, const char *field, const char *id,
			  json_t *ids, const char *what);
/* Records an entry's dependencies, each of which has to name a segment or an operation. */
void sgpu_reader_dependencies(struct sgpu_reader *reader, int of, json_t *value);

/* ---- one file each ---- */
void sgpu_reader_segment(struct sgpu_reader *reader, int index, json_t *entry);
void sgpu_reader_operation(struct sgpu_reader *reader, int index, json_t *entry);
bool sgpu_reader_too_large(const json_t *number);
bool sgpu_reader_names_module(const char *kernel);
/* The fields for a kernel "module:SEGMENT:FUNCTION". They are read after the arguments. */
enum {
	SGPU_MODULE_GRID,
	SGPU_MODULE_BLOCK,
	SGPU_MODULE_SHARED,
	SGPU_MODULE_DIGEST,
	SGPU_MODULE_FIELDS
};
void sgpu_reader_module(struct sgpu_reader *reader, json_t *const values[SGPU_MODULE_FIELDS],
			json_t *params, struct sgpu_operation *operation);
/* Call after all segments are read. */
void sgpu_reader_module_segment(struct sgpu_reader *reader, int index);
void sgpu_reader_location(struct sgpu_reader *reader, json_t *value, struct sgpu_segment *segment);
/* After all segments are read, checks that no two outputs share a file and none is a directory for
 * another. */
void sgpu_reader_outputs(struct sgpu_reader *reader);
void sgpu_reader_variable(struct sgpu_reader *reader, const char *field, const json_t *value,
			  const char *id, const char **variable);
void sgpu_reader_graph(struct sgpu_reader *reader);
void sgpu_reader_order(struct sgpu_reader *reader);
/* Call when the order is known. */
void sgpu_reader_flow(struct sgpu_reader *reader);

int sgpu_ids_index(const json_t *ids, const char *id);

/* ---- entries.c ---- */
enum { SGPU_LIST_SEGMENTS, SGPU_LIST_OPERATIONS };
/* Parses the document into the manifest's `json`; with SGPU_MANIFEST_UNHASHED, its entries are only
 * checked. Errors as sgpu_json_frame. */
int sgpu_reader_frame(struct sgpu_reader *reader, const char *text, size_t size, size_t *position,
		      struct sgpu_error *error);
/* Returns a new reference to an entry of a list, whose entries are taken in order; NULL: out of
 * memory. */
json_t *sgpu_reader_take(struct sgpu_reader *reader, struct sgpu_json_list *entries, int index);
/* Returns a copy that lives as long as the manifest; NULL for NULL. */
const char *sgpu_reader_keep(struct sgpu_reader *reader, const char *text);
int sgpu_reader_canonical(struct sgpu_reader *reader, struct sgpu_error *error);

#endif
