/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a .npy file, numpy.lib.format versions 1.0 to 3.0: a literal of Python with three
 * entries, of which only the forms that numpy writes are read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "files/internal.h"
#include "manifest/manifest.h"

enum { TEXT_MAX = 65535, NPY_RANK_MAX = 32 };
static const char magic[6] = "\x93NUMPY";

static const struct kind {
	char code[3]; /* of descr, after the byte order */
	uint8_t dtype;
} kinds[] = {
	{ "f4", SGPU_F32 }, { "f8", SGPU_F64 }, { "f2", SGPU_F16 }, { "i1", SGPU_I8 },
	{ "u1", SGPU_U8 },  { "i2", SGPU_I16 }, { "u2", SGPU_U16 }, { "i4", SGPU_I32 },
	{ "u4", SGPU_U32 }, { "i8", SGPU_I64 }, { "u8", SGPU_U64 }, { "b1", SGPU_U8 },
};

bool sgpu_file_is_npy(const struct sgpu_file *file)
{
	return file->first_size >= sizeof(magic) && !memcmp(file->first, magic, sizeof(magic));
}

/* ---- the literal ---- */
/* Skips blanks and then `token`, if it is there. */
static bool take(const char **text, const char *token)
{
	*text += strspn(*text, " ");
	if (strncmp(*text, token, strlen(token)) != 0) {
		return false;
	}
	*text += strlen(token);
	return true;
}

static int fail_descr(const struct sgpu_file *file, char kind, struct sgpu_error *error)
{
	const char *what = kind == 'c'			? "complex numbers"
			   : kind == 'O'		? "objects of Python"
			   : strchr("SUa", kind)	? "strings"
			   : strchr("mM", kind)		? "dates or times"
			   : kind == 'V' || kind == '[' ? "records of several fields"
							: "of a type that has no name here";

	return sgpu_fail(error, SGPU_EINVALID,
			 "'%s' has elements that are %s; only plain numbers can be computed with",
			 file->name, what);
}

/* '<f4'. The byte order of one byte is '|'. */
static int take_descr(struct sgpu_file *file, const char **text, struct sgpu_error *error)
{
	char order, code[3] = "";

	if (!take(text, "'")) {
		return fail_descr(file, **text, error);
	}
	order = **text;
	for (int i = 0; order && i < 2 && (*text)[1 + i]; i++) {
		code[i] = (*text)[1 + i];
	}
	for (size_t i = 0; strchr("<>|", order) && i < SGPU_ARRAY_LENGTH(kinds); i++) {
		const char *after = *text + 3;

		if (strcmp(kinds[i].code, code) == 0 && *after == '\'' &&
		    (order != '|' || code[1] == '1')) {
			file->info.type.dtype = kinds[i].dtype;
			file->info.boolean = code[0] == 'b';
			file->swapped = order == '>';
			*text = after + 1;
			return SGPU_OK;
		}
	}
	return fail_descr(file, code[0], error);
}

static bool take_number(const char **text, uint64_t *value)
{
	char *end;

	*text += strspn(*text, " ");
	if (**text < '0' || **text > '9') {
		return false;
	}
	*value = strtoull(*text, &end, 10); /* what is too large becomes the largest, no size */
	*text = end;
	return true;
}

/* (), (3,), (3, 4) */
static int take_shape(struct sgpu_file *file, const char **text, struct sgpu_error *error)
{
	uint64_t extents[NPY_RANK_MAX];
	int rank = 0;
	bool comma = true, good = take(text, "(");

	while (good && !take(text, ")")) {
		good = comma && rank < NPY_RANK_MAX && take_number(text, &extents[rank]);
		rank++;
		comma = take(text, ",");
		good = good && (rank > 1 || comma);
	}
	return good ? sgpu_file_set_shape(file, extents, rank, error)
		    : sgpu_file_damaged(file, "its header has no shape", error);
}

/* The entries are sorted by their names. */
static int take_literal(struct sgpu_file *file, const char *text, struct sgpu_error *error)
{
	static const char wrong[] = "its header is not one that NumPy writes";
	bool fortran;
	int rc;

	if (!take(&text, "{") || !take(&text, "'descr':")) {
		return sgpu_file_damaged(file, wrong, error);
	}
	rc = take_descr(file, &text, error);
	if (rc || !take(&text, ",") || !take(&text, "'fortran_order':")) {
		return rc ? rc : sgpu_file_damaged(file, wrong, error);
	}
	fortran = take(&text, "True");
	if ((!fortran && !take(&text, "False")) || !take(&text, ",") || !take(&text, "'shape':")) {
		return sgpu_file_damaged(file, wrong, error);
	}
	rc = take_shape(file, &text, error);
	(void)take(&text, ",");
	if (!rc && (!take(&text, "}") || text[strspn(text, " \n")])) {
		rc = sgpu_file_damaged(file, wrong, error);
	}
	file->info.first_fastest = fortran && file->info.type.rank > 1;
	return rc;
}

int sgpu_file_read_npy(struct sgpu_file *file, struct sgpu_error *error)
{
	const int major = file->first[sizeof(magic)], width = major == 1 ? 2 : 4;
	const uint64_t size = files_get(file->first + 8, width);
	char *text;
	size_t got = 0;
	int rc;

	if (!sgpu_file_is_npy(file)) {
		return sgpu_file_damaged(file, "the member is no array", error);
	}
	if (major < 1 || major > 3 || file->first[sizeof(magic) + 1] != 0) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "'%s' is a .npy file of version %d.%d; 1.0, 2.0 and 3.0 are known",
				 file->name, major, file->first[sizeof(magic) + 1]);
	}
	if (size > TEXT_MAX) {
		return sgpu_file_damaged(file, "its header is longer than NumPy reads", error);
	}
	text = calloc(1, size + 1);
	rc = text ? sgpu_file_stream_seek(&file->stream, 8 + (uint64_t)width, error)
		  : sgpu_fail_nomem(error);
	rc = rc ? rc : sgpu_file_stream_read(&file->stream, text, size, &got, error);
	if (!rc && (got < size || memchr(text, '\0', size))) {
		rc = sgpu_file_damaged(file, "its header is cut short", error);
	}
	file->info.format = SGPU_FILE_NPY;
	file->skip = 8 + (uint64_t)width + size;
	rc = rc ? rc : take_literal(file, text, error);
	free(text);
	return rc;
}

/* ---- writing: the bytes of numpy.save ---- */
size_t sgpu_file_npy_head(const struct sgpu_file_style *style, const struct sgpu_type *type,
			  uint8_t head[FILES_HEAD_MAX])
{
	enum { BEFORE = 10, LINE = 64 };
	char *text = (char *)head + BEFORE, shape[SGPU_RANK_MAX * 24] = "";
	const struct kind *kind = kinds;
	size_t used = 0, size;

	while (kind->dtype != type->dtype || (style->boolean && kind->code[0] != 'b')) {
		kind++;
	}
	for (int i = 0; i < type->rank; i++) {
		used += (size_t)sprintf(shape + used, "%s%" PRIu64 "%s", i ? " " : "",
					type->shape[i], i + 1 < type->rank || !i ? "," : "");
	}
	memset(head, ' ', FILES_HEAD_MAX);
	used = (size_t)sprintf(text, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%s), }",
			       kind->code[1] == '1' ? '|' : '<', kind->code,
			       style->first_fastest && type->rank > 1 ? "True" : "False", shape);
	text[used] = ' ';
	size = (BEFORE + used + LINE) / LINE * LINE;
	memcpy(head, magic, sizeof(magic));
	files_put(head + sizeof(magic), 2, 1); /* version 1.0 */
	files_put(head + sizeof(magic) + 2, 2, size - BEFORE);
	head[size - 1] = '\n';
	return size;
}
