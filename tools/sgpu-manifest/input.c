/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of init hold: as the user states, FILE:DTYPE:SHAPE[:OFFSET], or as the file says.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "draft.h"

/* Finds the last ":DTYPE:", since the path before it may contain colons. */
static const char *find_type(const char *text, enum sgpu_dtype *dtype)
{
	const char *found = NULL;

	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		for (int i = SGPU_NONE + 1; i < SGPU_DTYPE_COUNT; i++) {
			const char *name = sgpu_dtype_name((enum sgpu_dtype)i);
			const size_t length = strlen(name);

			if (strncmp(colon + 1, name, length) == 0 && colon[1 + length] == ':') {
				*dtype = (enum sgpu_dtype)i;
				found = colon;
			}
		}
	}
	return found;
}

/* Parses "SHAPE[:OFFSET]". A shape is "181,217,181", or empty for a scalar. */
static int parse_shape(const char *text, struct sgpu_file_request *request,
		       struct sgpu_error *error)
{
	char *copy = strdup(text), *rest = copy, *offset;
	struct sgpu_type *type = &request->raw_type;
	uint64_t bytes;
	int rc = SGPU_OK;

	if (!copy) {
		return sgpu_fail_nomem(error);
	}
	offset = strchr(copy, ':');
	if (offset) {
		*offset++ = '\0';
		request->window = true;
		rc = sgpu_parse_u64(offset, "an offset", 0, SGPU_JSON_INTEGER_MAX - 1,
				    &request->raw_offset, error);
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
		rc = sgpu_fail(error, SGPU_EUSAGE, "the shape '%s' is too large", text);
	}
	free(copy);
	return rc;
}

/* Splits FILE.npz:MEMBER where there is no file of the whole name. */
static void split_member(char *path, const char **member)
{
	char *colon = strrchr(path, ':');

	if (!colon || access(path, F_OK) == 0) {
		return;
	}
	*colon = '\0';
	if (access(path, F_OK) == 0) {
		*member = colon + 1;
	} else {
		*colon = ':';
	}
}

static int hint_type(struct sgpu_error *error)
{
	return sgpu_hint(error,
			 "of a raw file say the type: FILE:DTYPE:SHAPE, SHAPE as in 181,217,181, "
			 "DTYPE one of f32 f64 f16 i8 u8 i16 u16 i32 u32 i64 u64");
}

int draft_file_look(const struct draft_file *file, struct sgpu_file_info *info, bool *fits,
		    struct sgpu_error *error)
{
	struct sgpu_file *opened = NULL;
	const int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int other = -1,
	    rc = fd < 0 ? sgpu_fail_errno(error, "cannot open '%s'", file->path) : SGPU_OK;

	if (fd < 0 && strchr(file->path, ':')) { /* the text may have a type that is none */
		(void)hint_type(error);
	}
	rc = rc ? rc : sgpu_file_open_other(file->path, &other, error);
	rc = rc ? rc : sgpu_file_open(fd, other, &file->request, &opened, error);
	if (!rc && fits) {
		rc = sgpu_file_fits_f64(opened, fits, error);
	} else if (!rc) {
		*info = *sgpu_file_info(opened);
	}
	sgpu_file_close(&opened);
	sgpu_close(other);
	sgpu_close(fd);
	return rc;
}

int draft_file_read(const char *text, uint64_t size_max, struct draft_file *file,
		    struct sgpu_error *error)
{
	enum sgpu_dtype dtype = SGPU_NONE;
	const char *type = find_type(text, &dtype);
	const size_t length = type ? (size_t)(type - text) : strlen(text);
	int rc;

	*file = (struct draft_file){ .path = strndup(text, length) };
	file->request = (struct sgpu_file_request){
		.name = file->path, .size_max = size_max, .raw = type, .raw_type.dtype = dtype
	};
	if (!file->path) {
		return sgpu_fail_nomem(error);
	}
	if (!*file->path) {
		return sgpu_fail(error, SGPU_EUSAGE, "'%s' names no file", text);
	}
	if (!type) {
		split_member(file->path, &file->request.member);
		rc = draft_file_look(file, &file->info, NULL, error);
		return rc == SGPU_EINVALID && file->request.member ? hint_type(error) : rc;
	}
	rc = parse_shape(type + 1 + strlen(sgpu_dtype_name(dtype)) + 1, &file->request, error);
	/* A manifest's file may come later than the manifest. */
	file->info = (struct sgpu_file_info){ .type = file->request.raw_type,
					      .plain = true,
					      .offset = file->request.raw_offset };
	return rc;
}

char *draft_location(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = folder_of(path), *here = realpath(".", NULL), *location = NULL;
	char *real = folder ? realpath(folder, NULL) : NULL;
	const size_t length = here && strcmp(here, "/") ? strlen(here) : 0;
	bool failed = !folder || !here;

	if (!failed && real) { /* else as given: there is no such directory yet */
		const bool below = strncmp(real, here, length) == 0 &&
				   (real[length] == '/' || real[length] == '\0');
		const char *from = below ? real + length + (real[length] == '/') : real;

		failed = asprintf(&location, "%s%s%s", strcmp(from, "/") ? from : "",
				  *from ? "/" : "", slash ? slash + 1 : path) < 0;
	}
	free(folder);
	free(here);
	free(real);
	return failed ? NULL : location ? location : strdup(path);
}
