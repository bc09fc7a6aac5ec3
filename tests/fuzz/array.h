/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes lib/files: whatever is read to its end is written in a format and read again as the same.
 */
#ifndef FUZZ_ARRAY_H
#define FUZZ_ARRAY_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/files.h"

enum { FUZZ_ARRAY_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all elements; NULL if the file is refused. */
static inline uint8_t *fuzz_read(int fd, struct sgpu_file **file, uint64_t *size)
{
	const struct sgpu_file_request request = { .name = "fuzz", .size_max = FUZZ_ARRAY_MAX };
	uint8_t *elements = NULL;
	bool fits;

	*file = NULL;
	if (!sgpu_file_open(fd, -1, &request, file, NULL) &&
	    sgpu_type_bytes(&sgpu_file_info(*file)->type, size) && *size <= FUZZ_ARRAY_MAX &&
	    !sgpu_file_fits_f64(*file, &fits, NULL)) {
		elements = malloc(*size + 1);
		if (!elements || sgpu_file_read(*file, elements, *size, NULL)) {
			free(elements);
			elements = NULL;
		}
	}
	return elements;
}

/* Writes in the file's own format, with its header, or as .npy; returns the descriptor. */
static inline int fuzz_write(const struct sgpu_file *file, const uint8_t *elements, uint64_t size)
{
	const struct sgpu_file_info *info = sgpu_file_info(file);
	struct sgpu_file_style style = { info->format,	      info->gzip, info->boolean,
					 info->first_fastest, NULL,	  0 };
	struct sgpu_file_writer *writer = NULL;
	const int fd = memfd_create("again", 0);

	style.format = info->format == SGPU_FILE_IDX ? SGPU_FILE_NPY : info->format;
	style.header = sgpu_file_header(file, &style.header_size);
	if (sgpu_file_create(fd, "again", &style, &info->type, &writer, NULL) ||
	    sgpu_file_write(writer, elements, size, NULL) || sgpu_file_end(writer, NULL)) {
		abort();
	}
	sgpu_file_writer_free(&writer);
	return fd;
}

static inline int fuzz_array(const uint8_t *data, size_t size)
{
	struct sgpu_file *file = NULL, *other = NULL;
	uint64_t bytes = 0, again = 0;
	const int fd = memfd_create("fuzz", 0);
	uint8_t *elements, *same;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		abort();
	}
	elements = fuzz_read(fd, &file, &bytes);
	if (elements) {
		const int written = fuzz_write(file, elements, bytes);

		same = fuzz_read(written, &other, &again);
		if (!same || again != bytes || memcmp(same, elements, bytes)) {
			abort();
		}
		free(same);
		sgpu_file_close(&other);
		close(written);
	}
	free(elements);
	sgpu_file_close(&file);
	close(fd);
	return 0;
}

#endif
