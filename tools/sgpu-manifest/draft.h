/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest in the making: one operation with its files, and before it what makes of a file what
 * the operation takes.
 */
#ifndef SGPU_MANIFEST_DRAFT_H
#define SGPU_MANIFEST_DRAFT_H

#include <stdbool.h>

#include <jansson.h>

#include "ops/ops.h"
#include "manifest_tool.h"

enum {
	DRAFT_STEM_MAX = 160
}; /* bytes; with what stands behind it, a file's name has 255 at most */

struct draft {
	const struct sgpu_op *op;
	const char *id, *output;
	json_t *params, *low; /* of the operation; names of what is to be LOW */
	const char *folder;   /* real path that locations are relative to */
	struct file_spec specs[SGPU_ARGUMENTS_MAX];
	int spec_count;
	/* What becomes of it. */
	json_t *segments, *arguments, *operations;
	char operation[SGPU_ID_MAX + 1]; /* the id of the operation */
	char stem[DRAFT_STEM_MAX + 1];	 /* the first input's name, which outputs are named after */
	bool used[SGPU_ARGUMENTS_MAX];
	bool outside; /* a file lies outside the folder */
};

/* All return an exit status, after a message. */
/* Takes what the user said about one file. */
int draft_add_file(struct draft *draft, const char *text);
/* When all files are there: the segments and operations, and the parameters that must be given and
 * were not. */
int draft_build(struct draft *draft);
/* The manifest with the names of output files, which follow from the types; *manifest is the
 * caller's. */
int draft_finish(struct draft *draft, json_t **manifest);
void draft_clear(struct draft *draft);

/* ---- between draft.c and draft_convert.c ---- */
/* An id made of the text and, where it is taken, a number; `text` may be `id` itself. */
void draft_make_id(const struct draft *draft, const char *text, char id[SGPU_ID_MAX + 1]);
/* Whether the argument, or the segment, is one that the user made LOW. */
bool draft_is_low(const struct draft *draft, const char *argument, const char *id);
/* A new segment; takes the references of location and type, which may be NULL. */
int draft_add_segment(struct draft *draft, const char *id, const char *direction, bool low,
		      json_t *location, json_t *type);
/* Operations that apply the scaling of the file's header and give the values a type that the
 * argument takes. `id` is that of the file's segment, and becomes that of the segment that the
 * operation reads. */
int draft_convert(struct draft *draft, const struct file_spec *spec, bool low,
		  char id[SGPU_ID_MAX + 1]);

#endif
