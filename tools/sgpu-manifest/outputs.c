/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of init: their files, with the geometry of an input.
 */
#include <stdio.h>
#include <string.h>

#include "draft.h"

enum {
	STEM_MAX = 160,
	NAMED_MAX = STEM_MAX + SGPU_ID_MAX + 64
}; /* bytes; a file's name may have 255 together with its suffixes */

/* Whether the output has the shape of a file, or of one volume of a series. */
static bool same_shape(const struct value *value, const struct sgpu_file_info *info)
{
	const int rank = value->type.rank;
	bool same = rank == info->type.rank || (rank == 3 && info->type.rank == 4);

	for (int i = 0; i < rank && same; i++) {
		same = value->type.shape[value->reversed ? rank - 1 - i : i] == info->type.shape[i];
	}
	return same;
}

/* Finds the NIfTI file whose header an output takes over: that of --like, else the first of its
 * shape; -1: none. Returns an exit status. */
static int find_like(const struct draft *draft, const struct value *value, int *file)
{
	const char *like = draft->request->like;

	*file = -1;
	for (int i = 0; i < draft->file_count && *file < 0; i++) {
		const struct sgpu_file_info *info = &draft->files[i].info;

		if (like ? strcmp(like, draft->files[i].id) == 0
			 : info->format == SGPU_FILE_NIFTI && same_shape(value, info)) {
			*file = i;
		}
	}
	if (like && (*file < 0 || draft->files[*file].info.format != SGPU_FILE_NIFTI)) {
		return cli_usage(*file < 0 ? "--like: '%s' is no input"
					   : "--like: the file of '%s' has no NIfTI header",
				 SGPU_EXCERPT(like));
	}
	return 0;
}

/* NULL: no -o names this output. */
static const char *output_file(const struct draft *draft, const char *name, bool alone)
{
	const struct draft_words *outputs = &draft->request->outputs;

	for (int i = 0; i < outputs->count; i++) {
		if (strcmp(outputs->list[i].name, name) == 0 ||
		    (alone && !*outputs->list[i].name)) {
			return outputs->list[i].value;
		}
	}
	return NULL;
}

static void default_name(const struct draft *draft, const char *name, const struct value *value,
			 char text[NAMED_MAX])
{
	const char *path = draft->file_count ? draft->files[0].path : "output";
	const char *slash = strrchr(path, '/'), *part = strchr(name, '_'); /* "output_call" */
	const char *stem = slash ? slash + 1 : path;
	size_t length = strcspn(stem, ".");

	length = length ? length : strlen(stem);
	for (length = length < STEM_MAX ? length : STEM_MAX;
	     length && ((unsigned char)stem[length] & 0xc0) == 0x80;) {
		length--; /* not in the middle of a character */
	}
	snprintf(text, NAMED_MAX, "%.*s.%s%s%s.%s", (int)length, stem,
		 draft->request->stages[draft->request->count - 1].op->name, part ? "." : "",
		 part ? part + 1 : "", sgpu_dtype_name(value->type.dtype));
}

int draft_finish_output(struct draft *draft, const char *name, bool alone, struct value *value)
{
	const char *path = output_file(draft, name, alone), *slash;
	char named[NAMED_MAX];
	struct sgpu_file_style style = { .format = SGPU_FILE_RAW };
	int like = -1, status;
	json_t *file;

	default_name(draft, name, value, named);
	slash = path && sgpu_location_outside(path) ? strrchr(path, '/') : NULL;
	if (path) {
		sgpu_file_style_of(path, &style);
	}
	status = find_like(draft, value, &like);
	if (!status && like < 0 && style.format == SGPU_FILE_NIFTI) {
		cli_note("'%s' has no place in space: no input is a scan of its shape, --like NAME "
			 "names "
			 "one",
			 path);
	}
	if (!status && like >= 0 && style.format != SGPU_FILE_NIFTI && path) {
		cli_note("'%s' keeps no affine and no units of '%s': .nii and .nii.gz do", path,
			 draft->files[like].path);
	}
	if (!status && style.format == SGPU_FILE_NIFTI && value->type.rank > 1 &&
	    !value->reversed) {
		status = draft_reverse(draft, value);
	}
	if (status) {
		return status;
	}
	file = style.format == SGPU_FILE_RAW
		       ? NULL
		       : json_pack("{s:s, s:s*, s:s*}", "format",
				   style.gzip ? "nifti.gz" : sgpu_file_format_names[style.format],
				   "like",
				   style.format == SGPU_FILE_NIFTI && like >= 0
					   ? draft->files[like].id
					   : NULL,
				   "axes", value->reversed ? "reversed" : NULL);
	json_object_set_new(value->segment, "direction", json_string("OUTPUT"));
	json_object_set_new(value->segment, "data_type_info", draft_type(&value->type, 0));
	if (file) {
		json_object_set_new(value->segment, "file", file);
	}
	return json_object_set_new(value->segment, "data_location_client",
				   json_string(slash  ? slash + 1
					       : path ? path
						      : named))
		       ? cli_fail(SGPU_EINVALID, "a file's name is not UTF-8")
		       : 0;
}

int draft_check_outputs(const struct draft *draft, int count)
{
	const struct draft_stage *stage = &draft->request->stages[draft->request->count - 1];
	const struct draft_words *outputs = &draft->request->outputs;
	char names[OP_TEXT_MAX];

	for (int i = 0; i < outputs->count; i++) {
		const char *name = outputs->list[i].name;
		const int argument = sgpu_op_arg(stage->op, name);

		if (*name ? argument < 0 || !sgpu_op_is_output(&stage->op->args[argument])
			  : count != 1 || outputs->count != 1) {
			return cli_usage("-o %s%s%s: '%s' has the outputs %s: -o NAME=FILE", name,
					 *name ? "=" : "", SGPU_EXCERPT(outputs->list[i].value),
					 stage->op->name, op_arguments(stage->op, true, names));
		}
	}
	return 0;
}
