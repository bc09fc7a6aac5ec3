/* SPDX-License-Identifier: Apache-2.0
 *
 * array_file read FILE [MEMBER]: prints what the file is as JSON in a line, and then its elements
 * as they lie. array_file write FILE TYPE SHAPE ORDER [LIKE]: writes standard input to a file whose
 * format is its ending's; TYPE may be "bool", SHAPE is as in 2,3, ORDER is C or F. For
 * test_files.py.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"

static int fail(const struct sgpu_error *error)
{
	fprintf(stderr, "%s%s%s\n", error->text, *error->hint ? "; " : "", error->hint);
	return sgpu_exit_status(error->code);
}

static int open_file(const char *path, const char *member, struct sgpu_file **file,
		     struct sgpu_error *error)
{
	const struct sgpu_file_request request = { .name = path, .member = member };
	int fd = open(path, O_RDONLY | O_CLOEXEC), other = -1;
	int rc = sgpu_file_open_other(path, &other, error);

	return rc ? rc : sgpu_file_open(fd, other, &request, file, error);
}

static void print(const struct sgpu_file_info *info, bool fits)
{
	printf("{\"format\": \"%s\", \"gzip\": %d, \"dtype\": \"%s\", \"order\": \"%s\", "
	       "\"boolean\": %d, \"plain\": %d, \"offset\": %" PRIu64 ", \"fits\": %d, "
	       "\"slope\": %.17g, \"inter\": %.17g, \"voxel\": [%.17g, %.17g, %.17g], "
	       "\"shape\": [",
	       sgpu_file_format_names[info->format], info->gzip, sgpu_dtype_name(info->type.dtype),
	       info->first_fastest ? "F" : "C", info->boolean, info->plain, info->offset, fits,
	       info->scaled ? info->slope : 1, info->scaled ? info->inter : 0, info->voxel[0],
	       info->voxel[1], info->voxel[2]);
	for (int i = 0; i < info->type.rank; i++) {
		printf("%s%" PRIu64, i ? ", " : "", info->type.shape[i]);
	}
	printf("]}\n");
}

static int read_file(const char *path, const char *member)
{
	struct sgpu_error error = { 0 };
	struct sgpu_file *file = NULL;
	uint8_t piece[1 << 12];
	uint64_t left = 0;
	bool fits = false;
	int rc = open_file(path, member, &file, &error);

	rc = rc ? rc : sgpu_file_fits_f64(file, &fits, &error);
	if (!rc) {
		print(sgpu_file_info(file), fits);
		(void)sgpu_type_bytes(&sgpu_file_info(file)->type, &left);
	}
	while (!rc && left) {
		const size_t size = left < sizeof(piece) ? (size_t)left : sizeof(piece);

		rc = sgpu_file_read(file, piece, size, &error);
		if (!rc) {
			fwrite(piece, 1, size, stdout);
		}
		left -= size;
	}
	sgpu_file_close(&file);
	return rc ? fail(&error) : 0;
}

static int write_file(char **argv, const char *like)
{
	struct sgpu_file_style style;
	struct sgpu_type type = { .dtype = sgpu_dtype_parse(argv[3]) };
	struct sgpu_error error = { 0 };
	struct sgpu_file *file = NULL;
	struct sgpu_file_writer *writer = NULL;
	uint8_t piece[10007];
	size_t got;
	int rc = like ? open_file(like, NULL, &file, &error) : SGPU_OK;

	sgpu_file_style_of(argv[2], &style);
	style.boolean = strcmp(argv[3], "bool") == 0;
	type.dtype = style.boolean ? SGPU_U8 : type.dtype;
	style.first_fastest = *argv[5] == 'F';
	for (char *rest = argv[4]; *rest; rest += *rest == ',') {
		type.shape[type.rank++] = strtoull(rest, &rest, 10);
	}
	if (file && !rc) {
		style.header = sgpu_file_header(file, &style.header_size);
	}
	rc = rc ? rc
		: sgpu_file_create(open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
				   argv[2], &style, &type, &writer, &error);
	while (!rc && (got = fread(piece, 1, sizeof(piece), stdin)) > 0) {
		rc = sgpu_file_write(writer, piece, got, &error);
	}
	rc = rc ? rc : sgpu_file_end(writer, &error);
	sgpu_file_writer_free(&writer);
	sgpu_file_close(&file);
	return rc ? fail(&error) : 0;
}

int main(int argc, char **argv)
{
	if (argc >= 6 && strcmp(argv[1], "write") == 0) {
		return write_file(argv, argv[6]);
	}
	return argc >= 3 ? read_file(argv[2], argv[3]) : 2;
}
