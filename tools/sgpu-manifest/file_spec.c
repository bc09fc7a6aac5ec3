/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user of init says about a file.
 */
#include "base/json.h"
#include "manifest_tool.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TYPE_WORD_MAX = 16 };

/* The last ":DTYPE:" of the text, so that a path may hold colons. */
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

/* "181,217,181", or nothing for a scalar; consumes the text up to a colon or its end. */
static int parse_shape(char **text, struct sgpu_type *type, struct sgpu_error *error)
{
	while (**text && **text != ':') {
		size_t length = strcspn(*text, ",:");
		char next = (*text)[length];
		int code;

		if (type->rank == SGPU_RANK_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "a shape has at most %d extents",
					 (int)SGPU_RANK_MAX);
		}
		(*text)[length] = '\0';
		code = sgpu_parse_u64(*text, "an extent", 0, SGPU_JSON_INTEGER_MAX - 1,
				      &type->shape[type->rank++], error);
		(*text)[length] = next;
		if (code) {
			return code;
		}
		*text += length;
		if (next == ',' && !*++*text) {
			return sgpu_fail(error, SGPU_EUSAGE, "a shape ends with a comma");
		}
	}
	return SGPU_OK;
}

/* "DTYPE:SHAPE[:OFFSET]" behind a path */
static int parse_type(const char *text, enum sgpu_dtype dtype, struct file_spec *spec,
		      struct sgpu_error *error)
{
	char *copy = strdup(text + strlen(sgpu_dtype_name(dtype)) + 1), *rest = copy;
	uint64_t bytes;
	int code;

	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	spec->type.dtype = dtype;
	code = parse_shape(&rest, &spec->type, error);
	if (!code && *rest == ':') {
		spec->has_offset = true;
		code = sgpu_parse_u64(rest + 1, "an offset", 0, SGPU_JSON_INTEGER_MAX - 1,
				      &spec->offset, error);
	}
	if (!code && !sgpu_type_bytes(&spec->type, &bytes)) {
		code = sgpu_fail(error, SGPU_EUSAGE, "the type '%s' is too large", text);
	}
	free(copy);
	return code;
}

/* A path may hold '=', but "NAME=" before a file that is not there is the name of an argument,
 * misspelt. */
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

/* The last ":WORD" of the text behind which nothing or ":SHAPE[:OFFSET]" stands: what was meant as
 * a type. */
static const char *find_word(const char *text, size_t *length)
{
	const char *found = NULL;

	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		size_t size = strcspn(colon + 1, ":");
		const char *rest = colon + 1 + size;

		if (isalpha((unsigned char)colon[1]) && size < TYPE_WORD_MAX &&
		    !rest[strspn(rest, ":,0123456789")]) {
			found = colon + 1;
			*length = size;
		}
	}
	return found;
}

/* "FILE:uint8:16" is no file, and its type is none. */
static int check_type_name(const char *path, struct sgpu_error *error)
{
	char name[TYPE_WORD_MAX];
	const char *word, *near;
	size_t length = 0;

	word = access(path, F_OK) ? find_word(path, &length) : NULL;
	if (!word) {
		return SGPU_OK;
	}
	snprintf(name, sizeof(name), "%.*s", (int)length, word);
	near = sgpu_dtype_near(name);
	if (sgpu_dtype_parse(name) != SGPU_NONE) {
		sgpu_fail(error, SGPU_EUSAGE, "'%s' has a type without a shape", path);
		return sgpu_hint(
			error,
			"FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, and nothing for one element");
	}
	if (!near && !word[length]) {
		return SGPU_OK; /* the end of a name with a colon */
	}
	sgpu_fail(error, SGPU_EUSAGE, "'%s' is not one of the types f32, f64, i32, u8, i16, f16",
		  name);
	return near ? sgpu_hint(error, "did you mean '%s'?", near) : error->code;
}

int file_spec_parse(const char *text, const struct sgpu_op *op, struct file_spec *spec,
		    struct sgpu_error *error)
{
	enum sgpu_dtype dtype = SGPU_NONE;
	struct header header = { 0 };
	const char *type;
	int code;

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
	code = spec->argument < 0 ? check_name(spec->path, op, error) : SGPU_OK;
	if (code) {
		return code;
	}
	if (type) {
		return parse_type(type + 1, dtype, spec, error);
	}
	code = check_type_name(spec->path, error);
	code = code ? code : header_read(spec->path, &header, error);
	if (!code && !header.known) {
		sgpu_fail(error, SGPU_EUSAGE, "'%s' does not say what it holds", spec->path);
		sgpu_hint(error,
			  "%s:DTYPE:SHAPE, DTYPE one of f32 f64 i32 u8 i16 f16, SHAPE as in "
			  "181,217,181",
			  spec->path);
		return SGPU_EUSAGE;
	}
	spec->type = header.type;
	spec->offset = header.offset;
	spec->has_offset = header.known;
	spec->scaled = header.scaled;
	spec->gain = header.gain;
	spec->bias = header.bias;
	return code;
}

void file_spec_clear(struct file_spec *spec)
{
	free(spec->path);
	memset(spec, 0, sizeof(*spec));
}

/* The real path of the folder, and the file's own name, which may be a link, behind it. */
static char *absolute(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = !slash	       ? strdup(".")
		       : slash == path ? strdup("/")
				       : strndup(path, (size_t)(slash - path));
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
	if (!full) { /* a folder that is not there yet */
		return strdup(path);
	}
	if (strncmp(full, folder, length) != 0 || full[length] != '/') {
		return full;
	}
	location = strdup(full + length + 1);
	free(full);
	return location;
}
