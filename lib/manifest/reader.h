/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the manifest part share: the state of one parse and how it reports diagnostics.
 */
#ifndef SGPU_MANIFEST_READER_H
#define SGPU_MANIFEST_READER_H

#include <sgpu/base.h>
#include <sgpu/error.h>

#include "base/json.h"
#include "manifest/manifest.h"

enum {
	SGPU_WHERE_MAX = 64,	   /* "/segments/65535/data_type_info/shape" */
	SGPU_VALUE_TEXT_MAX = 160, /* a value as messages quote it */
	SGPU_HINT_MAX = 160,
};

enum sgpu_unsure {
	SGPU_UNSURE_DIRECTION = 1,   /* its direction was wrong */
	SGPU_UNSURE_SENSITIVITY = 2, /* its sensitivity_level was wrong */
	SGPU_UNSURE_USE = 4,	     /* an argument that was wrong probably meant it */
};

struct sgpu_reader {
	struct sgpu_manifest *manifest;
	struct sgpu_diagnostics *diagnostics;
	unsigned options;
	struct sgpu_json_list lists[2]; /* segments and operations, an entry at a time */
	json_t *outputs;		/* output locations seen, normalised */
	json_t *variables;		/* client_dma_*_var names seen */
	char where[SGPU_WHERE_MAX];	/* pointer of what is being read */
	bool standard_input;		/* "-" was seen among the inputs */
	uint8_t *unsure; /* a segment's enum sgpu_unsure: diagnostics that were already reported */
	/* left for hints on references, so that many diagnostics stay quick */
	unsigned comparisons;
	bool no_memory;
};

/* ---- nearest.c ---- */
/* Edits from a to b without regard to case, or limit + 1 when there are more. */
unsigned sgpu_name_distance(const char *a, const char *b, unsigned limit);
unsigned sgpu_name_limit(const char *name);

/* ---- fields.c ---- */
/* Adds a diagnostic at what is being read, or at its member `field` unless that is NULL. Returns
 * false. */
bool sgpu_reader_report(struct sgpu_reader *reader, const char *field, const char *hint,
			const char *format, ...) SGPU_PRINTF(4, 5);
/* What is being read from here on: an entry of a list; and, by a pointer, what is in that, until
 * the end that is returned is set to NUL again. */
void sgpu_reader_at(struct sgpu_reader *reader, int list, int index);
char *sgpu_reader_enter(struct sgpu_reader *reader, const char *format, ...) SGPU_PRINTF(2, 3);
/* "did you mean 'x'?", or NULL when there is no name or no space for it. */
const char *sgpu_reader_hint_text(const char *nearest, char hint[SGPU_HINT_MAX]);
const char *sgpu_reader_hint(const char *name, const char *const *names, char hint[SGPU_HINT_MAX]);
/* A number with as many digits as tell it from its neighbours: 0.58. */
enum { SGPU_NUMBER_TEXT_MAX = 32 };
const char *sgpu_reader_number(double number, char text[SGPU_NUMBER_TEXT_MAX]);
/* The value, cut and in quotes, or what kind it is of. */
const char *sgpu_reader_value(const json_t *value, char text[SGPU_VALUE_TEXT_MAX]);
/* Adds a diagnostic whose text begins with the value. */
bool sgpu_reader_refuse(struct sgpu_reader *reader, const char *field, const char *hint,
			const json_t *value, const char *format, ...) SGPU_PRINTF(5, 6);
/* Members of an object by the NULL-terminated list of names into values[]; unknown members and
 * missing ones among the first `required` names are errors. False when it is no object. */
bool sgpu_reader_fields(struct sgpu_reader *reader, json_t *object, const char *const *names,
			int required, json_t **values);
/* A string without NUL, or NULL after a diagnostic. A NULL value passes in silence. */
const char *sgpu_reader_string(struct sgpu_reader *reader, const char *field, const json_t *value);
/* The same for an id. */
const char *sgpu_reader_id(struct sgpu_reader *reader, const char *field, const json_t *value);
/* A whole number below 2^53. */
bool sgpu_reader_u64(struct sgpu_reader *reader, const char *field, const json_t *value,
		     uint64_t *number);
/* Index into the NULL-terminated list of choices, or `otherwise` after a diagnostic. */
int sgpu_reader_choice(struct sgpu_reader *reader, const char *field, const json_t *value,
		       const char *const *choices, int otherwise);
/* Gives the index of an id, or -1. An unknown id is an error, whose text says what it is not: "a
 * segment"; the segment that was probably meant counts as used. A NULL id passes in silence. */
int sgpu_reader_reference(struct sgpu_reader *reader, const char *field, const char *id,
			  json_t *ids, const char *what);
/* The length of a name of letters, digits and '_', no digit first; 0: it is none. */
size_t sgpu_identifier(const char *name);
/* Every entry of a dependencies array must name a segment or an operation. */
void sgpu_reader_dependencies(struct sgpu_reader *reader, json_t *value);

/* ---- one file each ---- */
void sgpu_reader_segment(struct sgpu_reader *reader, int index, json_t *entry);
void sgpu_reader_operation(struct sgpu_reader *reader, int index, json_t *entry);
/* Whether a number is a whole one that canonical JSON cannot carry. */
bool sgpu_reader_too_large(const json_t *number);
/* Whether the text of a kernel means a module. */
bool sgpu_reader_names_module(const char *kernel);
/* "module:SEGMENT:FUNCTION" and what belongs to it; the arguments have been read. */
enum {
	SGPU_MODULE_GRID,
	SGPU_MODULE_BLOCK,
	SGPU_MODULE_SHARED,
	SGPU_MODULE_DIGEST,
	SGPU_MODULE_FIELDS
};
void sgpu_reader_module(struct sgpu_reader *reader, json_t *const values[SGPU_MODULE_FIELDS],
			json_t *params, struct sgpu_operation *operation);
/* After all segments: what holds a module. */
void sgpu_reader_module_segment(struct sgpu_reader *reader, int index);
void sgpu_reader_location(struct sgpu_reader *reader, json_t *value, struct sgpu_segment *segment);
/* After all segments: outputs that would be in each other's way below one directory. */
void sgpu_reader_outputs(struct sgpu_reader *reader);
void sgpu_reader_variable(struct sgpu_reader *reader, const char *field, const json_t *value,
			  const char *id, const char **variable);
/* Writers, readers and what follows from them. */
void sgpu_reader_graph(struct sgpu_reader *reader);
/* Edges, before, order. */
void sgpu_reader_order(struct sgpu_reader *reader);
/* Information flow; needs an order. */
void sgpu_reader_flow(struct sgpu_reader *reader);

int sgpu_ids_index(const json_t *ids, const char *id);

/* ---- entries.c ---- */
enum { SGPU_LIST_SEGMENTS, SGPU_LIST_OPERATIONS };
/* The document but for its entries, which all have been parsed once. Errors as sgpu_json_split. */
int sgpu_reader_split(struct sgpu_reader *reader, const char *text, size_t size, json_t **frame,
		      int *line, int *column, struct sgpu_error *error);
/* A new reference, to be given back when the entry has been read; NULL: no memory. */
json_t *sgpu_reader_take(struct sgpu_reader *reader, int list, int index);
/* Whether the entry may have such a member: its text says that, without a parse. */
bool sgpu_reader_mentions(const struct sgpu_reader *reader, int list, int index, const char *name);
/* A copy that lives as long as the manifest; NULL of NULL. */
const char *sgpu_reader_keep(struct sgpu_reader *reader, const char *text);
void sgpu_reader_free_texts(struct sgpu_manifest *manifest);
int sgpu_reader_canonical(struct sgpu_reader *reader, struct sgpu_error *error);

/* The segment that an operation reads by its argument k, or, after the last argument, as its
 * module; -1 for none. */
static inline int sgpu_operation_reads(const struct sgpu_operation *operation, int k)
{
	if (k == operation->arg_count) {
		return operation->module ? operation->module->segment : -1;
	}
	return operation->args[k].output ? -1 : operation->args[k].segment;
}

#endif
