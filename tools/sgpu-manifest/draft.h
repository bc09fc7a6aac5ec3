/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of init: the words of a command line become stages, and stages a manifest.
 */
#ifndef SGPU_DRAFT_H
#define SGPU_DRAFT_H

#include "files/files.h"
#include "manifest_tool.h"

enum { DRAFT_STAGES_MAX = 16, DRAFT_NAME_MAX = 64 };

/* What was given for a name: an argument's file, a parameter's value, an output's file. */
struct draft_word {
	char name[DRAFT_NAME_MAX + 1]; /* "": none */
	const char *value;
};
struct draft_words {
	struct draft_word list[SGPU_ARGUMENTS_MAX];
	int count;
};

struct draft_stage {
	const struct sgpu_op *op;
	const char *expression; /* of the operation map, else NULL */
	json_t *params;
	struct draft_words inputs; /* value "@": the output of the stage before */
	struct cli_list low;
};

struct draft_request {
	struct draft_stage stages[DRAFT_STAGES_MAX];
	int count;
	struct draft_words outputs; /* files for outputs of the last stage */
	const char *id, *like;
	enum sgpu_dtype cast; /* SGPU_NONE: only exact casts are inserted */
	uint64_t size_max;    /* bytes of the elements of a compressed file; 0: the default */
};

/* ---- words.c ----
 * Each takes an argument of the command line. Returns an exit status. */
int draft_take_word(void *request, const char *word);
int draft_take_map(void *request, const char *expression);
int draft_take_then(void *request, const char *operation);
int draft_take_low(void *request, const char *name);
int draft_take_output(void *request, const char *word);
int draft_take_cast(void *request, const char *dtype);
/* After the last word: checks that each stage has an operation. */
int draft_check_words(const struct draft_request *request);
void draft_clear(struct draft_request *request);

/* ---- input.c: what a file holds ---- */
struct draft_file {
	char *path;
	struct sgpu_file_request request; /* what the user states; its names are in `path` */
	struct sgpu_file_info info;
	char id[SGPU_ID_MAX + 1]; /* of its segment */
};
/* Parses FILE, FILE:DTYPE:SHAPE[:OFFSET] or FILE.npz:MEMBER and reads the file's header. The caller
 * frees the path in any case. Errors: SGPU_EUSAGE, SGPU_EINVALID, SGPU_ESYSTEM. */
SGPU_MUST_CHECK int draft_file_read(const char *text, uint64_t size_max, struct draft_file *file,
				    struct sgpu_error *error);
/* Opens the file and gives its info, or else whether f64 has all of its values. */
SGPU_MUST_CHECK int draft_file_look(const struct draft_file *file, struct sgpu_file_info *info,
				    bool *fits, struct sgpu_error *error);
/* Returns `path` as data_location_client of a manifest in the current directory: relative below
 * that, else absolute. From malloc; NULL when out of memory. */
char *draft_location(const char *path);

/* ---- draft.c ---- */
/* A segment on its way to an argument. */
struct value {
	char id[SGPU_ID_MAX + 1];
	json_t *segment;       /* in draft->segments */
	struct sgpu_type type; /* as the bytes lie */
	bool reversed; /* people count the axes from the last one: the first varies fastest */
	bool low;
	const struct draft_file *file; /* its file, or NULL */
	bool scaled;		       /* what is stored has still to be scaled */
};

struct draft {
	const struct draft_request *request;
	json_t *segments, *operations;
	struct draft_file files[SGPU_ARGUMENTS_MAX * DRAFT_STAGES_MAX];
	int file_count;
	struct value
		outputs[SGPU_ARGUMENTS_MAX]; /* by argument, of the last stage so far; or zero */
	bool reversed;			     /* these lie with the first axis fastest */
	bool later;			     /* not in the first stage */
};

/* Adds an operation that reads `value` and sets it to the segment that the operation writes, named
 * after the old one. Takes `params` over. The caller sets the type. */
int draft_step(struct draft *draft, const char *kernel, const char *suffix, json_t *params,
	       struct value *value);
json_t *draft_type(const struct sgpu_type *type, uint64_t offset);
/* The caller releases it. Returns an exit status after a message. */
int draft_make(const struct draft_request *request, json_t **manifest);

/* ---- convert.c ---- */
/* Makes a value what the argument takes: scaled as the file's header says, and of one of its types.
 * wide: another input has f64. Returns an exit status. */
int draft_convert(struct draft *draft, const struct sgpu_op *op,
		  const struct sgpu_op_argument *argument, bool wide, struct value *value);
/* On the device. */
int draft_reverse(struct draft *draft, struct value *value);
/* Gives all inputs of a stage one order of axes: theirs if the operation ignores the order, else
 * that in which people count. Sets draft->reversed. */
int draft_arrange(struct draft *draft, const struct draft_stage *stage, struct value *values,
		  int count);

/* ---- outputs.c ---- */
/* Checks that each -o names one of the last operation's `count` outputs, or no name if there is
 * one. */
int draft_check_outputs(const struct draft *draft, int count);
/* alone: it is the only one. */
int draft_finish_output(struct draft *draft, const char *name, bool alone, struct value *value);

#endif
