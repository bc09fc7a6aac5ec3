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

#include "files/internal.h"
#include "manifest/manifest.h"

enum { TEXT_MAX = 10000, NPY_RANK_MAX = 64 }; /* as NumPy has them */
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

static int fail_descr(const struct sgpu_file *file, char kind)
{
	return sgpu_file_refuse(file, "has elements that are %s; only plain numbers can be used",
				kind == 'c'		      ? "complex numbers"
				: kind == 'O'		      ? "objects of Python"
				: kind && strchr("SUa", kind) ? "strings"
				: kind && strchr("mM", kind)  ? "dates or times"
				: kind == 'V' || kind == '['  ? "records of several fields"
							      : "of a type that has no name here");
}

/* '<f4'. The byte order of one byte is '|'. */
static int take_descr(struct sgpu_file *file, const char **text)
{
	const char *descr;

	if (!take(text, "'")) {
		return fail_descr(file, **text);
	}
	descr = *text;
	for (size_t i = 0; *descr && strchr("<>|", *descr) && i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if (strncmp(kinds[i].code, descr + 1, 2) == 0 && descr[3] == '\'' &&
		    (*descr != '|' || descr[2] == '1')) {
			file->info.type.dtype = kinds[i].dtype;
			file->info.boolean = descr[1] == 'b';
			file->swapped = *descr == '>';
			*text += 4;
			return SGPU_OK;
		}
	}
	return fail_descr(file, *descr ? descr[1] : '\0');
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
static bool take_extents(const char **text, uint64_t extents[NPY_RANK_MAX], int *rank)
{
	bool comma = true;

	for (*rank = 0; !take(text, ")"); comma = take(text, ",")) {
		if (!comma || *rank == NPY_RANK_MAX || !take_number(text, &extents[(*rank)++])) {
			return false;
		}
	}
	return *rank != 1 || comma;
}

/* The entries are sorted by their names. */
static int take_literal(struct sgpu_file *file, const char *text)
{
	uint64_t extents[NPY_RANK_MAX];
	bool good = take(&text, "{") && take(&text, "'descr':"), fortran = false;
	int rank = 0, rc = good ? take_descr(file, &text) : SGPU_OK;

	if (rc) {
		return rc;
	}
	good = good && take(&text, ",") && take(&text, "'fortran_order':");
	fortran = good && take(&text, "True");
	good = good && (fortran || take(&text, "False")) && take(&text, ",") &&
	       take(&text, "'shape':") && take(&text, "(") && take_extents(&text, extents, &rank);
	(void)take(&text, ",");
	if (!good || !take(&text, "}") || text[strspn(text, " \n")]) {
		return sgpu_file_refuse(file, "is damaged: its header is none that NumPy writes");
	}
	rc = sgpu_file_set_shape(file, extents, rank);
	file->info.first_fastest = fortran && file->info.type.rank > 1;
	return rc;
}

int sgpu_file_read_npy(struct sgpu_file *file)
{
	const uint8_t *version = file->first + sizeof(magic);
	const int width = version[0] == 1 ? 2 : 4;
	const uint64_t size = files_get(version + 2, width);
	char text[TEXT_MAX + 1] = "";
	size_t got = 0;
	int rc;

	if (!sgpu_file_is_npy(file)) {
		return sgpu_file_refuse(file, "is damaged: the member is no array");
	}
	if (version[0] < 1 || version[0] > 3 || version[1] != 0) {
		return sgpu_file_refuse(file, "is .npy of version %d.%d; 1.0 to 3.0 are known",
					version[0], version[1]);
	}
	file->info.format = SGPU_FILE_NPY;
	file->skip = sizeof(magic) + 2 + (uint64_t)width + size;
	if (size > TEXT_MAX) {
		return sgpu_file_refuse(file, "is damaged: NumPy reads no header so long");
	}
	rc = sgpu_file_seek(file, file->skip - size);
	rc = rc ? rc : sgpu_file_get(file, text, size, &got);
	return rc || (got == size && strlen(text) == size)
		       ? (rc ? rc : take_literal(file, text))
		       : sgpu_file_refuse(file, "is damaged: its header is cut short");
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
