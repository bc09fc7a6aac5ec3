/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes a file's extents and element type from the arguments of init, or from the file itself.
 */
#include "base/io.h"
#include "base/json.h"
#include "manifest_tool.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

/* ---- headers ---- */
/* FILE.npz:NAME, if there is no file of all of that name. */
static int split_member(struct file_spec *spec, struct sgpu_error *error)
{
	char *found = strstr(spec->path, ".npz:");

	if (!found || access(spec->path, F_OK) == 0) {
		return SGPU_OK;
	}
	found[sizeof(".npz") - 1] = '\0';
	spec->member = strdup(found + sizeof(".npz:") - 1);
	return spec->member ? SGPU_OK : sgpu_fail_nomem(error);
}

static void take_info(const struct sgpu_file_info *info, struct file_spec *spec)
{
	sgpu_file_payload_type(info, &spec->type);
	if (info->format == SGPU_FILE_NIFTI && spec->type.rank > 1) {
		drop_ones(&spec->type);
	}
	spec->has_offset = info->plain;
	spec->offset = info->plain ? info->offset : 0;
	spec->format = info->plain ? NULL : sgpu_file_format_names[info->format];
	spec->scaled = info->scaled;
	spec->gain = info->slope;
	spec->bias = info->inter;
}

static int hint_type(struct sgpu_error *error)
{
	return sgpu_hint(error, "FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, DTYPE one of f32 "
				"f64 f16 i8 u8 i16 u16 i32 u32 i64 u64");
}

/* Takes the type from the file. */
static int read_header(struct file_spec *spec, struct sgpu_error *error)
{
	const struct sgpu_file_request request = { .name = spec->path, .member = spec->member };
	struct sgpu_file *file = NULL;
	int other = -1, fd = open(spec->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0) {
		sgpu_fail_errno(error, "cannot open '%s'", spec->path);
		return hint_type(error); /* the text may have a type that is none */
	}
	rc = sgpu_file_open_other(spec->path, &other, error);
	rc = rc ? rc : sgpu_file_open(fd, other, &request, &file, error);
	if (!rc) {
		take_info(sgpu_file_info(file), spec);
	}
	sgpu_file_close(&file);
	sgpu_close(other);
	sgpu_close(fd);
	return rc;
}

/* ---- what the user says ---- */
/* Finds the last ":DTYPE:" in the text. The path before it may contain colons. */
static const char *find_type(const char *text, enum sgpu_dtype *dtype)
{
	const char *found = NULL;

	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
			const char *name = sgpu_dtype_name((enum sgpu_dtype)i);
			size_t length = strlen(name);

			if (strncmp(colon + 1, name, length) == 0 && colon[1 + length] == ':') {
				*dtype = (enum sgpu_dtype)i;
				found = colon;
			}
		}
	}
	return found;
}

/* Parses the "DTYPE:SHAPE[:OFFSET]" after a path. A shape is "181,217,181", or empty for a
 * scalar. */
static int parse_type(const char *text, enum sgpu_dtype dtype, struct file_spec *spec,
		      struct sgpu_error *error)
{
	char *copy = strdup(text + strlen(sgpu_dtype_name(dtype)) + 1), *rest = copy, *offset;
	struct sgpu_type *type = &spec->type;
	uint64_t bytes;
	int rc = SGPU_OK;

	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	type->dtype = dtype;
	offset = strchr(copy, ':');
	if (offset) {
		*offset++ = '\0';
		spec->has_offset = true;
		rc = sgpu_parse_u64(offset, "an offset", 0, SGPU_JSON_INTEGER_MAX - 1,
				    &spec->offset, error);
	}
	while (!rc && rest && *copy) {
		rc = type->rank == SGPU_RANK_MAX
			     ? sgpu_fail(error, SGPU_EUSAGE, "a shape has at most %d extents",
					 (int)SGPU_RANK_MAX)
			     : sgpu_parse_u64(strsep(&rest, ","), "an extent", 0,
					      SGPU_JSON_INTEGER_MAX - 1, &type->shape[type->rank++],
					      error);
	}
	if (!rc && !sgpu_type_bytes(type, &bytes)) {
		rc = sgpu_fail(error, SGPU_EUSAGE, "the type '%s' is too large", text);
	}
	free(copy);
	return rc;
}

/* Reports a misspelt argument. A path may contain '=', but if there is no such file, the text
 * before '=' was meant as an argument. */
static int check_name(const char *path, const struct sgpu_op *op, struct sgpu_error *error)
{
	size_t length = strcspn(path, "=/");

	if (!length || path[length] != '=' || access(path, F_OK) == 0) {
		return SGPU_OK;
	}
	sgpu_fail(error, SGPU_EUSAGE, "'%.*s' is not an argument of '%s', and '%s' is no file",
		  (int)(length < PATH_MAX ? length : PATH_MAX), path, op->name, path);
	return sgpu_hint(error, "'sgpu-manifest ops %s' shows the arguments", op->name);
}

int file_spec_parse(const char *text, const struct sgpu_op *op, struct file_spec *spec,
		    struct sgpu_error *error)
{
	enum sgpu_dtype dtype = SGPU_NONE;
	const char *type;
	int rc;

	memset(spec, 0, sizeof(*spec));
	spec->argument = -1;
	for (int i = 0; op->args[i].name; i++) {
		size_t length = strlen(op->args[i].name);

		if (strncmp(text, op->args[i].name, length) == 0 && text[length] == '=') {
			spec->argument = i;
			text += length + 1;
			break;
		}
	}
	type = find_type(text, &dtype);
	spec->path = type ? strndup(text, (size_t)(type - text)) : strdup(text);
	if (!spec->path) {
		return sgpu_fail_nomem(error);
	}
	if (!*spec->path) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' names no file", text);
	}
	rc = spec->argument < 0 ? check_name(spec->path, op, error) : SGPU_OK;
	if (rc) {
		return rc;
	}
	if (type) {
		return parse_type(type + 1, dtype, spec, error);
	}
	rc = split_member(spec, error);
	rc = rc ? rc : read_header(spec, error);
	return rc;
}

/* Returns the real path of the file's directory, followed by the file's name, which may be a
 * link. */
static char *absolute(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = folder_of(path);
	char *real = folder ? realpath(folder, NULL) : NULL, *joined = NULL;

	if (real && asprintf(&joined, "%s/%s", strcmp(real, "/") ? real : "",
			     slash ? slash + 1 : path) < 0) {
		joined = NULL;
	}
	free(real);
	free(folder);
	return joined;
}

char *file_spec_location(const char *path, const char *folder)
{
	char *full, *location;
	size_t length = strcmp(folder, "/") ? strlen(folder) : 0;

	if (strcmp(path, "-") == 0) {
		return strdup(path);
	}
	full = absolute(path);
	if (!full) { /* the file's directory does not exist yet */
		return strdup(path);
	}
	if (strncmp(full, folder, length) != 0 || full[length] != '/') {
		return full;
	}
	location = strdup(full + length + 1);
	free(full);
	return location;
}
