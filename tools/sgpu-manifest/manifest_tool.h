/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of sgpu-manifest, and what its files offer each other.
 */
#ifndef SGPU_MANIFEST_TOOL_H
#define SGPU_MANIFEST_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include <jansson.h>

#include <sgpu/error.h>
#include <sgpu/manifest.h>

#include "ops/ops.h"
#include "cli.h"
#include "document.h"
#include "payload.h"

#define MANIFEST_VERB(name)                              \
	extern const struct cli_option name##_options[]; \
	int verb_##name(int argc, char **argv)

MANIFEST_VERB(check);
MANIFEST_VERB(show);
MANIFEST_VERB(canon);
MANIFEST_VERB(hash);
MANIFEST_VERB(schema);
MANIFEST_VERB(init);
MANIFEST_VERB(pack);
MANIFEST_VERB(split);
MANIFEST_VERB(merge);
MANIFEST_VERB(ops);

/* Rows that several verbs have. */
#define OPTION_OUTSIDE(type)                                                                 \
	{                                                                                    \
		"allow-outside", 0, NULL, "let inputs lie outside the manifest's directory", \
			CLI_FLAG(type, outside)                                              \
	}
#define OPTION_OUTPUT(type)                                                   \
	{                                                                     \
		"output", 'o', "FILE", "write there, not to standard output", \
			CLI_TEXT(type, output)                                \
	}

/* report.c */
/* One line a diagnostic on standard error, hints below it; with --json one record a line to
 * `records`. */
void report_diagnostics(const struct document *document, FILE *records);

/* pretty.c */
/* Indented by so many blanks, or on one line with 0. Numbers are the shortest that mean the same:
 * 0.58, and not all the digits of its f64. With `ascii`, other characters are escaped, as \u202e.
 * From malloc; NULL when out of memory. */
char *pretty_json(const json_t *value, size_t indent, bool ascii);

/* module_digest.c */
/* Compares each module_digest with the image's file, and prints every difference. A file that is
 * not there is passed over: the manifest may stand where the data are not. Returns an exit status.
 */
int module_digests_compare(const struct document *document, const struct payload_folder *folder);
/* The same, and fills in those that are absent: the document is then another one, checked with the
 * same options. An image that comes from standard input stays without, which a note says. */
int module_digests_fill(struct document *document, const struct payload_folder *folder,
			unsigned options);

/* show.c */
/* The type of a segment; a module without data_type_info is "u8[file]". */
void show_type(const struct sgpu_segment *segment, char text[SGPU_TYPE_TEXT_MAX]);
/* Operations step by step: those of one step can run at the same time. */
void show_steps(const struct sgpu_manifest *manifest, const int *level, int last);
/* Graphviz: segments as ellipses, HIGH ones filled, operations as boxes, order without data dashed.
 */
void show_dot(const struct sgpu_manifest *manifest);
json_t *show_json(const struct sgpu_manifest *manifest);

/* components.c */
struct components {
	int *shard; /* per operation: its shard */
	int shard_count;
	int part_count;	 /* independent parts that there are */
	uint64_t *bytes; /* per shard: of all its segments */
};

/* Parts are joined by every edge, and by what cannot be in two places: an INPUT_OUTPUT, standard
 * input, a segment that client variables are named for. `wanted`: shards, 0 for one a part; there
 * are never more than parts. False when out of memory; free in any case. */
bool components_find(const struct sgpu_manifest *manifest, uint64_t wanted,
		     struct components *components);
void components_free(struct components *components);

/* header.c */
struct header {
	bool known; /* the file has one that is understood */
	struct sgpu_type type;
	uint64_t offset;
	bool scaled; /* what is meant by a stored value is value * gain + bias */
	double gain, bias;
};

/* Reads the file's header. Errors: SGPU_ESYSTEM; SGPU_EINVALID when the header promises what the
 * file does not hold, or what no manifest can say. */
SGPU_MUST_CHECK int header_read(const char *path, struct header *header, struct sgpu_error *error);

/* file_spec.c */
struct file_spec {
	int argument; /* index in the row, or -1 when it was not named */
	char *path;   /* as given */
	struct sgpu_type type;
	bool has_offset;
	uint64_t offset;
	bool scaled; /* the file's header says that a value is meant as value * gain + bias */
	double gain, bias;
};

/* A type that is not stated is looked for in the file; one that is stated is that of the stored
 * values, which no header's scaling applies to. Errors: SGPU_EUSAGE, SGPU_EINVALID, SGPU_ESYSTEM.
 */
SGPU_MUST_CHECK int file_spec_parse(const char *text, const struct sgpu_op *op,
				    struct file_spec *spec, struct sgpu_error *error);
void file_spec_clear(struct file_spec *spec);
/* The path as data_location_client of a manifest in `folder` (a real path): relative when it lies
 * below, else absolute. From malloc; NULL when out of memory. */
char *file_spec_location(const char *path, const char *folder);

/* op_info.c */
enum { OP_TEXT_MAX = 160 };
const char *op_param_kind(enum sgpu_param_kind kind);
/* "f32 f64" */
void op_dtypes_text(unsigned dtypes, char text[OP_TEXT_MAX]);
/* "3" or "1 to 4" */
void op_ranks_text(const struct sgpu_op_argument *argument, char text[OP_TEXT_MAX]);
/* "0 to 5", "at least 0", "none|relu", "true|false"; empty when anything goes */
void op_range_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX]);
/* The default, "none" or "required". */
void op_default_text(const struct sgpu_op_param *param, char text[OP_TEXT_MAX]);
/* The default as a manifest would write it; NULL when it has none. */
json_t *op_default_json(const struct sgpu_op_param *param);
/* A number as JSON: an integer where it is one. NULL for a bound that is none. */
json_t *op_number_json(double number);

#endif
